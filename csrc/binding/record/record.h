/* Record: a userdata that holds a copy of a record's bytes, and the result of pf_record_parse. On LuaJIT, records of rings and
 * files are packed instead: see record/cdata.c. */
#ifndef PB_RECORD_H
#define PB_RECORD_H

#include "core/kernel/attr.h"
#include "core/record/record.h"
#include "binding/base/binding.h"

#define PB_RECORD "perf.Record"

struct pb_record {
	const unsigned char *bytes;
	int info;      /* index of the info table (label, attr ...) of the event that wrote it; 0: the uservalue, or an empty one */
	uint32_t room; /* the size of own */
	struct pf_record rec;
	_Alignas(uint64_t) unsigned char own[]; /* the bytes of a userdata, which Lua 5.1 aligns to 4 on i386 */
};

/* record/fields.c, record/sample_fields.c: the fields that are not one number or one string. Each pushes one value; the Record is at
 * index 1. */
#define PART(name) int pb_part_##name(lua_State *L, const struct pb_record *r)
#define P(name, mask) PART(name);
#define F(name, kind, mask, member)
#include "core/record/fields.def"

/* Push field i, by its place in fields.def; returns 1. */
int pb_push_field(lua_State *L, const struct pb_record *r, int i);
void pb_push_info(lua_State *L, const struct pb_record *r);

/* Push a Record with a copy of the bytes; info is the index of its info table, absolute, or 0. Returns the result of
 * pf_record_parse; if that is negative, nothing is pushed. */
int pb_push_record(lua_State *L, const struct pf_layout *l, const unsigned char *bytes, size_t n, int swapped, int info);
/* The same in native byte order, with Record's metatable at an absolute or pseudo-index: for loops. */
int pb_push_record_as(lua_State *L, int metatable, const struct pf_layout *l, const unsigned char *bytes, size_t n, int info);
/* The same; but if r is not NULL and has room, it is filled again and pushed. at: its index. */
int pb_refill_record(lua_State *L, struct pb_record *r, int at, int metatable, const struct pf_layout *l,
		     const unsigned char *bytes, size_t n, int info);
/* First function: the number of the field that argument arg names; raises if the field is not one number, or, without `number`, one
 * number or string. Second function: push that field of a parsed record, without a Record. */
int pb_check_field(lua_State *L, int arg, const char *name, int number);
const char *pb_field_name(int field);
void pb_push_plain_field(lua_State *L, const struct pf_record *rec, const unsigned char *bytes, int field);
/* Get the value of a field that is one number from a parsed record as 64 bits; returns 0 if the record does not have it. Push such
 * a value. Convert a number from Lua to such a value. */
int pb_field_value(const struct pf_record *rec, int field, uint64_t *out);
void pb_push_number(lua_State *L, int field, uint64_t v);
uint64_t pb_as_field(int field, uint64_t v);
/* The type that the string at i names; raises. */
uint32_t pb_check_record_type(lua_State *L, int i);
/* nil, message, code for a record that pb_push_record or pb_push_record_as refused. */
int pb_bad_record(lua_State *L, int err, const unsigned char *bytes, size_t n);

/* The records that tools make, with types from 64 on. perf.data's decoder sets this when a state loads the module. */
struct pb_tool_records {
	const char *(*type)(uint32_t type); /* its name, or NULL */
	/* Set the fields of a record in the table on top of the stack. Missing fields of a damaged record are left out. */
	void (*fields)(lua_State *L, const unsigned char *record, size_t size);
	int (*field)(lua_State *L, const unsigned char *record, size_t size); /* push the field named at 2: 1, or 0 if there is none */
};
extern const struct pb_tool_records *pb_tool_records;

#endif
