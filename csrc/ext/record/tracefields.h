/* The parts of perf.ext.tracefields: tracefields.c (decoding), tracefields_text.c (printing, by libtraceevent).
 * lua/perf/record/trace_format.lua parses formats. */
#ifndef PX_TRACEFIELDS_H
#define PX_TRACEFIELDS_H

#include <traceevent/event-parse.h>
#include <traceevent/trace-seq.h>

#include "ext/base/ext.h"

enum px_place {
	PX_HERE,     /* at its offset */
	PX_DATA_LOC, /* u32 at its offset: length << 16 | offset in the record */
	PX_REL_LOC,  /* the same, offset from the end of that u32 */
	PX_STR_LOC   /* u16 offset of a string that ends with a zero byte (before Linux 2.6.32) */
};

enum px_shape {
	PX_INT,   /* one integer of elem bytes */
	PX_INTS,  /* an array of them */
	PX_TEXT,  /* chars up to the first zero byte */
	PX_BYTES  /* anything else, as plain bytes */
};

struct px_field {
	const char *name, *type;
	uint32_t offset, size, elem;
	enum px_place place;
	enum px_shape shape;
	int is_signed;  /* as the format says */
	int is_address; /* pushed sign-extended, as the API does with addresses */
};

/* A parsed format. Its strings are those of the table that is its uservalue; text is NULL when closed. */
struct px_format {
	const char *text, *name, *system;
	size_t text_size;
	uint32_t id;
	uint32_t nfields;
	uint32_t long_size;
	int big_endian;
	int trusted;            /* the text comes from a kernel, so libtraceevent may parse it */
	struct tep_handle *tep; /* made for the first printing */
	struct tep_event *event;
	struct px_field fields[];
};

struct px_format *px_check_format(lua_State *L, int i);

/* An unsigned integer of 1, 2, 4 or 8 bytes. */
uint64_t px_read_uint(const struct px_format *f, const unsigned char *p, uint32_t size);

/* Find a field's bytes in a record of n bytes. Returns 0, or -1 if they reach beyond it. */
int px_locate(const struct px_format *f, const struct px_field *field, const unsigned char *raw, size_t n, uint32_t *offset,
	      uint32_t *size);

/* tracefields_text.c: format:text(raw) */
int px_format_text(lua_State *L);
void px_free_text(struct px_format *f);

#endif
