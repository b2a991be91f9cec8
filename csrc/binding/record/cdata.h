/* Records as cdata, for loops that LuaJIT compiles: record/cdata.c. */
#ifndef PB_PACKED_H
#define PB_PACKED_H

#include "binding/record/record.h"

/* The memory of the cdata, declared in lua/perf/record/cdata.lua too. tag: twice the tag of the record's layout, plus 1 for a
 * sample. */
struct pb_packed {
	int32_t tag;
	uint32_t room; /* the size of bytes */
	_Alignas(8) unsigned char bytes[];
};

/* Results of taking a record, other than a size. PB_TAKEN: it was taken. No record: there is none. PB_UNTAGGED: its layout has no
 * tag yet (pb_tag gives it one). PB_OTHERWISE: the record is damaged or a tool's own, or an error must be raised, so the caller
 * must use the function that makes a userdata. */
enum { PB_TAKEN = 1, PB_NONE = 0, PB_UNTAGGED = -1, PB_OTHERWISE = -2 };

/* Take the next record, by its layout, into a packed one. Returns PB_TAKEN; PB_UNTAGGED; PB_OTHERWISE; or its size, if into is
 * NULL or has not enough room for it. */
int pb_pack(const struct pf_layout *l, const unsigned char *bytes, size_t n, struct pb_packed *into);

/* Give a layout its tag, after PB_UNTAGGED. On top of the stack are a function and the info of the event that has the layout;
 * both are replaced by the tag, which the function returns for (info, layout, places). */
void pb_tag(lua_State *L, struct pf_layout *l);

/* Parse the packed Record at i, whose layout is the string at i + 1, as for a userdata. Returns 1, or 0 if the bytes do not fit.
 * info is the index of its info. */
int pb_unpack(lua_State *L, int i, int info, struct pb_record *out);

#endif
