/* Shared by the files of the binding that read and write perf.data. */
#ifndef PB_DATA_H
#define PB_DATA_H

#include "core/data/read.h"
#include "core/data/schema.h"
#include "binding/base/binding.h"

#define PB_DATA "perf.Data"
#define PB_INFLATE "perf.Inflate" /* a userdata that begins with a struct pf_inflate */

/* data.c */
struct pb_data {
	struct pf_data d;
	int fd, own, open;
	uint32_t generation; /* of the process that opened it: after a fork, the child must not read from the pipe */
	uint32_t nattrs; /* entries of the state's attrs */
	uint64_t nerrors;
	struct pf_data_record next; /* if waiting: a record that is read and not yet taken */
	int waiting, step;          /* step is the result of pf_data_next */
	struct pb_hold hold;
};

struct pb_data *pb_check_data(lua_State *L, int i); /* raises if closed */
/* After pb_hold(&p->hold). */
static inline void pb_data_unhold(struct pb_data *p, int outer)
{
	if (pb_unhold(&p->hold, outer))
		pf_data_close(&p->d);
}

/* As pf_data_next; loads the decompressor at the first compressed record. The Data is at 1. */
int pb_data_step(lua_State *L, struct pb_data *p, struct pf_data_record *r);
/* Pushes nil, message, code, and notes the first error for the state. The Data is at 1. */
int pb_data_failed(lua_State *L, struct pb_data *p, int err);
/* Whether records of that type describe the file itself. */
int pb_data_describes_file(uint32_t type);
/* Passes such a Record, which is on top of the stack, to the handler. The Data is at 1. */
void pb_data_call_handler(lua_State *L, struct pb_data *p, uint32_t type);

/* Push an entry of the state, the table of the Data at 1. */
void pb_data_state(lua_State *L, const char *name);

/* decode.c: pushes the value of a feature whose section has these n bytes, and returns 0 if they are damaged, 1 otherwise. ncpus
 * is the number of CPUs by the feature nrcpus, 0 if the file does not have it. */
int pb_push_feature(lua_State *L, const struct pf_feature *f, const void *bytes, size_t n, int swapped, uint64_t ncpus);

void pb_push_ids(lua_State *L, const uint64_t *ids, uint64_t n);

/* Sets the fields of a record of the perf tool (types 64 and more), in native order, in the table on top of the stack. Fields
 * that are missing in a damaged record are left out. */
void pb_user_fields(lua_State *L, const unsigned char *record, size_t size);

/* Pushes the field whose name is at index 2 and returns 1, or returns 0 if the record does not have it. */
int pb_user_field(lua_State *L, const unsigned char *record, size_t size);

/* The name of a type, or NULL. */
const char *pb_user_type(uint32_t type);

/* encode.c: replaces the value on top of the stack by the bytes of the feature's section. Raises an error for a value that does
 * not fit. */
void pb_encode_feature(lua_State *L, const struct pf_feature *f);

#endif
