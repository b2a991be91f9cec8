/* The text of events/GROUP/NAME/format:
 *
 *     name: sched_switch
 *     ID: 372
 *     format:
 *     	field:unsigned short common_type;	offset:0;	size:2;	signed:0;
 *     	(more of them; an empty line after the common ones)
 *     	field:__data_loc char[] name;	offset:8;	size:4;	signed:0;
 *
 *     print fmt: "...", REC->...
 *
 * The text may come from another program's file, and libtraceevent's parser crashes on damaged text. So this file parses this
 * part itself, which is all that decoding needs; libtraceevent parses only the "print fmt" (tracefields_text.c). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ext/record/tracefields.h"

#define MOST_FIELDS 4096
#define MOST_OFFSET (1u << 20) /* a record has less than 64 kB */

/* A line, and the position in it. */
struct cursor {
	const char *p, *end;
};

static void skip_blank(struct cursor *c)
{
	while (c->p < c->end && (*c->p == ' ' || *c->p == '\t'))
		c->p++;
}

static int take(struct cursor *c, const char *word)
{
	size_t n = strlen(word);

	skip_blank(c);
	if ((size_t)(c->end - c->p) < n || memcmp(c->p, word, n) != 0)
		return 0;
	c->p += n;
	return 1;
}

static int take_number(struct cursor *c, uint32_t max, uint32_t *out)
{
	uint64_t v = 0;
	const char *begin;

	skip_blank(c);
	for (begin = c->p; c->p < c->end && *c->p >= '0' && *c->p <= '9' && v <= max; c->p++)
		v = v * 10 + (uint64_t)(*c->p - '0');
	*out = (uint32_t)v;
	return c->p > begin && v <= max;
}

static int is_word_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* Whether s contains word as a whole word. */
static int has_word(const char *s, const char *word)
{
	size_t n = strlen(word);

	for (const char *p = s; (p = strstr(p, word)); p += n)
		if ((p == s || !is_word_char(p[-1])) && !is_word_char(p[n]))
			return 1;
	return 0;
}

/* The size of an element of an array of this type; 0 = unknown. */
static uint32_t element_size(const char *type, uint32_t long_size)
{
	static const struct {
		const char *word;
		uint32_t size;
	} sizes[] = {{"char", 1},   {"u8", 1},      {"s8", 1},     {"__u8", 1},   {"__s8", 1},     {"uint8_t", 1},
		     {"int8_t", 1}, {"bool", 1},    {"short", 2},  {"u16", 2},    {"s16", 2},      {"__u16", 2},
		     {"__s16", 2},  {"uint16_t", 2}, {"int16_t", 2}, {"u32", 4},    {"s32", 4},      {"__u32", 4},
		     {"__s32", 4},  {"uint32_t", 4}, {"int32_t", 4}, {"u64", 8},    {"s64", 8},      {"__u64", 8},
		     {"__s64", 8},  {"uint64_t", 8}, {"int64_t", 8}, {"loff_t", 8}, {"pid_t", 4},    {"dev_t", 4},
		     {"enum", 4}};
	const char *second = strstr(type, "long");

	if (strchr(type, '*'))
		return long_size;
	if (second && has_word(type, "long"))
		return strstr(second + 4, "long") ? 8 : long_size;
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
		if (has_word(type, sizes[i].word))
			return sizes[i].size;
	if (has_word(type, "size_t") || has_word(type, "ssize_t"))
		return long_size;
	return has_word(type, "int") || has_word(type, "unsigned") ? 4 : 0;
}

static int is_int_size(uint32_t n)
{
	return n == 1 || n == 2 || n == 4 || n == 8;
}

/* Set a field's kind by its type; its offset and size are known. count is the number in the brackets, 0 if there is none or it is a
 * name. */
static int classify(struct px_field *f, int array, uint32_t count, uint32_t long_size)
{
	int text = has_word(f->type, "char") && !has_word(f->type, "unsigned") && !has_word(f->type, "signed");
	int pointer = strchr(f->type, '*') != NULL;

	f->place = PX_HERE;
	if (strncmp(f->type, "__data_loc ", 11) == 0)
		f->place = f->size == 2 ? PX_STR_LOC : PX_DATA_LOC;
	else if (strncmp(f->type, "__rel_loc ", 10) == 0)
		f->place = PX_REL_LOC;
	if (f->place != PX_HERE && f->size != (f->place == PX_STR_LOC ? 2 : 4))
		return -EBADMSG;
	if (f->place == PX_HERE && !array) {
		f->elem = f->size;
		f->shape = is_int_size(f->size) ? PX_INT : PX_BYTES;
	} else {
		f->elem = element_size(f->type, long_size);
		if (f->place == PX_HERE && count && f->size % count == 0)
			f->elem = f->size / count;
		if (f->elem == 1)
			f->shape = text ? PX_TEXT : PX_BYTES;
		else
			f->shape = is_int_size(f->elem) ? PX_INTS : PX_BYTES;
		if (f->place == PX_STR_LOC)
			f->shape = PX_TEXT;
	}
	f->is_address = pointer && f->elem == 8;
	return 0;
}

/* "unsigned long args[6]" -> type "unsigned long[6]", name "args"; "__data_loc char[] name" -> "__data_loc char[]", "name".
 * The strings are written to *out, which has room for twice the declaration and two zero bytes. */
static int declaration(const char *p, const char *end, struct px_field *f, char **out, int *array, uint32_t *count)
{
	const char *name_end, *name, *type_end;
	struct cursor number;

	while (end > p && (end[-1] == ' ' || end[-1] == '\t'))
		end--;
	while (p < end && (*p == ' ' || *p == '\t'))
		p++;
	for (const char *q = p; q < end; q++)
		if ((unsigned char)*q < ' ' || (unsigned char)*q > '~')
			return -EBADMSG;
	name_end = end;
	while (name_end > p && name_end[-1] == ']')
		do
			name_end--;
		while (name_end > p && *name_end != '[');
	for (name = name_end; name > p && is_word_char(name[-1]); name--)
		;
	for (type_end = name; type_end > p && type_end[-1] == ' '; type_end--)
		;
	if (name == name_end || type_end == p)
		return -EBADMSG;
	*array = name_end < end;
	number = (struct cursor){name_end + 1, end};
	if (!*array || !take_number(&number, MOST_OFFSET, count) || *number.p != ']' || number.p + 1 != end)
		*count = 0;
	f->type = *out;
	memcpy(*out, p, (size_t)(type_end - p));
	*out += type_end - p;
	memcpy(*out, name_end, (size_t)(end - name_end));
	*out += end - name_end;
	*(*out)++ = '\0';
	f->name = *out;
	memcpy(*out, name, (size_t)(name_end - name));
	*out += name_end - name;
	*(*out)++ = '\0';
	return 0;
}

static int field_line(struct px_format *f, struct cursor c, char **out)
{
	struct px_field *field = &f->fields[f->nfields];
	const char *semicolon = memchr(c.p, ';', (size_t)(c.end - c.p));
	uint32_t count = 0, is_signed = 0;
	int array = 0, r;

	if (!semicolon || f->nfields == MOST_FIELDS)
		return -EBADMSG;
	r = declaration(c.p, semicolon, field, out, &array, &count);
	if (r < 0)
		return r;
	c.p = semicolon + 1;
	if (!take(&c, "offset:") || !take_number(&c, MOST_OFFSET, &field->offset) || !take(&c, ";") || !take(&c, "size:") ||
	    !take_number(&c, MOST_OFFSET, &field->size) || !take(&c, ";"))
		return -EBADMSG;
	if (take(&c, "signed:") && (!take_number(&c, 1, &is_signed) || !take(&c, ";")))
		return -EBADMSG;
	field->is_signed = (int)is_signed;
	r = classify(field, array, count, f->long_size);
	if (r == 0)
		f->nfields++;
	return r;
}

static void put_word(struct cursor c, const char **where, char **out)
{
	skip_blank(&c);
	*where = *out;
	for (; c.p < c.end && (unsigned char)*c.p > ' '; c.p++)
		*(*out)++ = *c.p;
	*(*out)++ = '\0';
}

static size_t count_lines(const char *p, const char *end)
{
	size_t n = 1;

	while ((p = memchr(p, '\n', (size_t)(end - p)))) {
		p++;
		n++;
	}
	return n;
}

int px_parse_format(struct px_format *f, const char *system, unsigned *line)
{
	const char *p = f->text, *end = f->text + f->text_size;
	size_t lines = count_lines(p, end), room = f->text_size + 2 * lines + strlen(system) + 16;
	char *out;
	int has_id = 0, r = 0;

	f->fields = calloc(lines < MOST_FIELDS ? lines : MOST_FIELDS, sizeof *f->fields);
	f->strings = out = malloc(room);
	if (!f->fields || !f->strings)
		return -ENOMEM;
	put_word((struct cursor){system, system + strlen(system)}, &f->system, &out);
	f->name = NULL;
	for (*line = 1; p < end && r == 0; ++*line) {
		const char *eol = memchr(p, '\n', (size_t)(end - p));
		struct cursor c = {p, eol ? eol : end};

		p = eol ? eol + 1 : end;
		if (take(&c, "print fmt:"))
			break;
		if (!f->name && take(&c, "name:"))
			put_word(c, &f->name, &out);
		else if (!has_id && take(&c, "ID:"))
			has_id = take_number(&c, INT32_MAX, &f->id);
		else if (take(&c, "field:"))
			r = field_line(f, c, &out);
		else if (!take(&c, "format:") && (skip_blank(&c), c.p < c.end))
			r = -EBADMSG;
		if (r < 0)
			return r;
	}
	return f->name && *f->name && has_id && f->nfields ? 0 : -EBADMSG;
}
