/* Prints a record as text, by libtraceevent and the format's "print fmt".
 *
 * libtraceevent does not check the lengths and indexes in a record. To keep it within our memory, the fields are located first,
 * every number that is used as a length or index must not exceed the record's size, and the record is copied to the start of a
 * much larger buffer of zeros. */
#include "ext/record/tracefields.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/thread.h"

#define SLACK 4096

/* libtraceevent's parser has static state: one thread at a time. */
static atomic_uint tep_lock;

/* libtraceevent's growing buffer. */
static void drop_text(void *seq)
{
	trace_seq_destroy(seq);
	free(seq);
}

/* The field of that name, or NULL. */
static const struct px_field *row_named(const struct px_format *f, const char *name)
{
	for (uint32_t i = 0; name && i < f->nfields; i++)
		if (strcmp(f->fields[i].name, name) == 0)
			return &f->fields[i];
	return NULL;
}

/* Whether the argument is a number of at most max in this record: a constant, an integer field or an array's length. */
static int is_bounded(const struct px_format *f, const struct tep_print_arg *arg, const unsigned char *raw, size_t max)
{
	const struct px_field *field;
	char *end;

	if (!arg)
		return 1;
	switch (arg->type) {
	case TEP_PRINT_TYPE:
		return is_bounded(f, arg->typecast.item, raw, max);
	case TEP_PRINT_ATOM:
		return strtoull(arg->atom.atom, &end, 0) <= max && *end == '\0';
	case TEP_PRINT_FIELD:
		field = row_named(f, arg->field.name);
		return field && field->place == PX_HERE && field->shape == PX_INT &&
		       px_read_uint(f, raw + field->offset, field->size) <= max;
	case TEP_PRINT_DYNAMIC_ARRAY_LEN:
		return 1; /* it was located before */
	case TEP_PRINT_OP: /* sizes are written as count * sizeof */
		if (strcmp(arg->op.op, "*") == 0 || strcmp(arg->op.op, "/") == 0)
			return is_bounded(f, arg->op.left, raw, max) && arg->op.right->type == TEP_PRINT_ATOM &&
			       is_bounded(f, arg->op.right, raw, 8);
		return 0;
	default:
		return 0;
	}
}

/* Whether printing these arguments reads only the first 16 * max bytes. */
static int is_safe(const struct px_format *f, const struct tep_print_arg *arg, const unsigned char *raw, size_t max, int depth)
{
	if (depth > 32)
		return 0;
	for (; arg; arg = arg->next) {
		int ok = 1;

		switch (arg->type) {
		case TEP_PRINT_HEX:
		case TEP_PRINT_HEX_STR:
			ok = is_bounded(f, arg->hex.size, raw, max) && is_safe(f, arg->hex.field, raw, max, depth + 1);
			break;
		case TEP_PRINT_INT_ARRAY:
			ok = is_bounded(f, arg->int_array.count, raw, max) && is_bounded(f, arg->int_array.el_size, raw, 8) &&
			     is_safe(f, arg->int_array.field, raw, max, depth + 1);
			break;
		case TEP_PRINT_OP:
			if (strcmp(arg->op.op, "[") == 0)
				ok = is_bounded(f, arg->op.right, raw, max);
			ok = ok && is_safe(f, arg->op.left, raw, max, depth + 1) && is_safe(f, arg->op.right, raw, max, depth + 1);
			break;
		case TEP_PRINT_TYPE:
			ok = is_safe(f, arg->typecast.item, raw, max, depth + 1);
			break;
		case TEP_PRINT_FLAGS:
			ok = is_safe(f, arg->flags.field, raw, max, depth + 1);
			break;
		case TEP_PRINT_SYMBOL:
			ok = is_safe(f, arg->symbol.field, raw, max, depth + 1);
			break;
		case TEP_PRINT_FUNC:
			ok = is_safe(f, arg->func.args, raw, max, depth + 1);
			break;
		case TEP_PRINT_DYNAMIC_ARRAY:
			ok = is_bounded(f, arg->dynarray.index, raw, max);
			break;
		case TEP_PRINT_BSTRING:
			ok = 0;
			break;
		default:
			break;
		}
		if (!ok)
			return 0;
	}
	return 1;
}

/* libtraceevent's handle for the format, made once. */
static int prepare(struct px_format *f)
{
	int own_big = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__, r;

	if (f->event)
		return 0;
	pf_lock(&tep_lock, PF_LOCK_PAUSE);
	f->tep = tep_alloc();
	r = f->tep ? 0 : -ENOMEM;
	if (f->tep) {
		tep_set_long_size(f->tep, (int)f->long_size);
		tep_set_local_bigendian(f->tep, own_big ? TEP_BIG_ENDIAN : TEP_LITTLE_ENDIAN);
		tep_set_file_bigendian(f->tep, f->big_endian ? TEP_BIG_ENDIAN : TEP_LITTLE_ENDIAN);
		/* If it cannot parse the print fmt, it still makes an event, which prints the plain fields. */
		tep_parse_format(f->tep, &f->event, f->text, f->text_size, f->system);
		if (!f->event) {
			tep_free(f->tep);
			f->tep = NULL;
			r = -EBADMSG;
		}
	}
	pf_unlock(&tep_lock);
	return r;
}

void px_free_text(struct px_format *f)
{
	if (f->tep)
		tep_free(f->tep);
	f->tep = NULL;
	f->event = NULL;
}

/*** A record's raw data as text, by the kernel's print fmt.
 * @function TraceFormat:text
 * @tparam string raw the bytes
 * @treturn string @fails */
int px_format_text(lua_State *L)
{
	struct px_format *f = px_check_format(L, 1);
	size_t n;
	const char *given = luaL_checklstring(L, 2, &n);
	const struct px_field *type = row_named(f, "common_type");
	struct tep_record record;
	struct pb_owned *owned;
	struct trace_seq *seq;
	struct tep_event *event;
	unsigned char *raw;
	int r;

	if (n > (1u << 20))
		return pb_refuse(L, -EMSGSIZE, "%s: record of %zu bytes", f->name, n);
	if (!f->trusted)
		return pb_refuse(L, -EPERM,
			       "%s: this format may not come from a kernel, and libtraceevent's parser may crash on "
			       "such formats: parse it with trusted = true to print it",
			       f->name);
	r = prepare(f);
	if (r < 0)
		return pb_refuse(L, r, "%s: libtraceevent does not understand the format", f->name);
	event = f->event;
	if ((unsigned)event->flags & (unsigned)(TEP_EVENT_FL_ISBPRINT | TEP_EVENT_FL_ISPRINT)) /* int or unsigned, by version */
		return pb_refuse(L, -EOPNOTSUPP, "%s: its text is only in the kernel that wrote it", f->name);
	owned = pb_owner(L, drop_text);
	raw = lua_newuserdata(L, n * 16 + SLACK);
	memcpy(raw, given, n);
	memset(raw + n, 0, n * 15 + SLACK);
	for (uint32_t i = 0; i < f->nfields; i++) {
		uint32_t offset, size;

		if (px_locate(f, &f->fields[i], raw, n, &offset, &size) < 0)
			return pb_refuse(L, -EBADMSG, "%s: field '%s' is not within the %zu bytes of the record", f->name,
				       f->fields[i].name, n);
	}
	if (!type || type->shape != PX_INT || type->size > 4)
		return pb_refuse(L, -EOPNOTSUPP, "%s: the format has no common_type", f->name);
	/* libtraceevent finds the event by the record's type: this handle has only one. */
	for (uint32_t i = 0; i < type->size; i++)
		raw[type->offset + (f->big_endian ? type->size - 1 - i : i)] =
			(unsigned char)((uint32_t)f->id >> (i * 8));
	if (!((unsigned)event->flags & TEP_EVENT_FL_FAILED) && !is_safe(f, event->print_fmt.args, raw, n, 0))
		return pb_refuse(L, -EBADMSG, "%s: the record cannot be printed: a length in it goes beyond its %zu bytes",
			       f->name, n);
	memset(&record, 0, sizeof record);
	record.data = raw;
	record.size = record.record_size = (int)n;
	seq = malloc(sizeof *seq);
	if (!seq)
		return pb_fail(L, -ENOMEM, "%s", f->name);
	pf_lock(&tep_lock, PF_LOCK_PAUSE);
	trace_seq_init(seq);
	owned->p = seq;
	if (seq->buffer) {
		tep_print_event(f->tep, seq, &record, "%s", TEP_PRINT_INFO);
		trace_seq_terminate(seq);
	}
	pf_unlock(&tep_lock);
	if (!seq->buffer || seq->state != TRACE_SEQ__GOOD)
		return pb_fail(L, -ENOMEM, "%s", f->name);
	lua_pushstring(L, seq->buffer);
	pb_release(owned);
	return 1;
}
