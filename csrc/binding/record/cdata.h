/* Records as cdata, which LuaJIT compiles loops over: record/cdata.c. */
#ifndef PB_PACKED_H
#define PB_PACKED_H

#include "binding/record/record.h"

/* The memory of the cdata; lua/perf/record/cdata.lua has the same. tag: twice that of the record's layout, and 1 more for a sample. */
struct pb_packed {
	int32_t tag;
	uint32_t room; /* the size of bytes */
	_Alignas(8) unsigned char bytes[];
};

/* Results of taking a record, other than a size: it was taken; there is none; its layout has no tag yet (pb_tag gives it one);
 * or the record is damaged or a tool's own, or an error is to be raised, so that the call which makes a userdata must be used. */
enum { PB_TAKEN = 1, PB_NONE = 0, PB_UNTAGGED = -1, PB_OTHERWISE = -2 };

/* Take the next record, by its layout, into a packed one. Returns PB_TAKEN; PB_UNTAGGED; PB_OTHERWISE; or, where there is
 * not enough room for it, or into is NULL, its size. */
int pb_pack(const struct pf_layout *l, const unsigned char *bytes, size_t n, struct pb_packed *into);

/* Give a layout its tag, after PB_UNTAGGED. On top of the stack are a function and the info of the event that has the layout; both
 * are replaced by the tag, which the function returns for (info, layout, places). */
void pb_tag(lua_State *L, struct pf_layout *l);

/* The packed Record at i, whose layout is the string at i + 1, as a userdata would hold it: 1, or 0 for bytes that do not fit. info
 * is the index of its info. */
int pb_unpack(lua_State *L, int i, int info, struct pb_record *out);

#endif
