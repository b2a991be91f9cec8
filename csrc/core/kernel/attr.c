/* The field table is made from attr.def: getters and setters use the struct's own bit fields, so that no bit is
 * ever packed by hand.
 *
 * Sizes: a kernel accepts an attr that is longer than its own if the unknown tail is zero; otherwise it returns E2BIG and writes
 * its own size into attr.size. So we pass the smallest published size that holds all fields that are set: old kernels then accept
 * everything that they support, and after E2BIG pf_attr_unknown_to finds the field that they do not know. */
#include "core/kernel/attr.h"

#include <string.h>

#define X(sym, value, name) {name, value},
const struct pf_name pf_names_types[] = {
#include "core/kernel/defs/types.def"
	{0, 0}};
const struct pf_name pf_names_sample[] = {
#include "core/kernel/defs/sample.def"
	{0, 0}};
const struct pf_name pf_names_format[] = {
#include "core/kernel/defs/format.def"
	{0, 0}};
const struct pf_name pf_names_branch[] = {
#include "core/kernel/defs/branch.def"
	{0, 0}};
const struct pf_name pf_names_clockid[] = {
#include "core/kernel/defs/clockid.def"
	{0, 0}};
const struct pf_name pf_names_bp[] = {
#include "core/kernel/defs/bp.def"
	{0, 0}};
const struct pf_name pf_names_record[] = {
#include "core/kernel/defs/record.def"
	{0, 0}};
#undef X

/* Accessors. The casts are to the field's own type; a bit field is masked by its width. */
#define ACCESS(name, type)                                                                              \
	static uint64_t get_##name(const struct pf_attr *a) { return (uint64_t)a->name; }               \
	static void set_##name(struct pf_attr *a, uint64_t v) { a->name = (type)v; }
#define U64(name) ACCESS(name, uint64_t)
#define U32(name) ACCESS(name, uint32_t)
#define U16(name) ACCESS(name, uint16_t)
#define FLAGS(name, type, table) ACCESS(name, type)
#define NAME(name, type, table) ACCESS(name, type)
#define PATH(name) ACCESS(name, uint64_t)
#define BIT(name, width)                                                                                \
	static uint64_t get_##name(const struct pf_attr *a) { return a->name; }                         \
	static void set_##name(struct pf_attr *a, uint64_t v) { a->name = (unsigned)v & ((1u << width) - 1u); }
#include "core/kernel/defs/attr.def"
#undef U64
#undef U32
#undef U16
#undef FLAGS
#undef NAME
#undef PATH
#undef BIT

#define ROW(name, kind, max, table, is_signed) {#name, kind, max, table, is_signed, get_##name, set_##name},
#define U64(name) ROW(name, PF_FIELD_U64, UINT64_MAX, 0, 0)
#define U32(name) ROW(name, PF_FIELD_U32, UINT32_MAX, 0, 0)
#define U16(name) ROW(name, PF_FIELD_U16, UINT16_MAX, 0, 0)
#define FLAGS(name, type, table) ROW(name, PF_FIELD_FLAGS, (type)-1, pf_names_##table, 0)
#define NAME(name, type, table) ROW(name, PF_FIELD_NAME, UINT32_MAX, pf_names_##table, (type)-1 < (type)1)
#define PATH(name) ROW(name, PF_FIELD_PATH, UINT64_MAX, 0, 0)
#define BIT(name, width) ROW(name, PF_FIELD_BIT, (1u << width) - 1u, 0, 0)
const struct pf_field pf_fields[] = {
#include "core/kernel/defs/attr.def"
	{0, PF_FIELD_BIT, 0, 0, 0, 0, 0}};

const char *pf_name_of(const struct pf_name *names, uint32_t value)
{
	while (names->name && names->value != value)
		names++;
	return names->name;
}

const struct pf_name *pf_name_find(const struct pf_name *names, const char *name)
{
	while (names->name && strcmp(names->name, name) != 0)
		names++;
	return names->name ? names : NULL;
}

const struct pf_field *pf_field_find(const char *name)
{
	const struct pf_field *f;

	for (f = pf_fields; f->name; f++)
		if (strcmp(f->name, name) == 0)
			return f;
	return 0;
}

void pf_field_set(const struct pf_field *f, struct pf_attr *a, uint64_t v)
{
	f->set(a, v);
#define X(field, bit)                                                                                   \
	if (f->set == set_##field)                                                                      \
		a->bit = 1;
#include "core/kernel/defs/implies.def"
#undef X
}

uint32_t pf_attr_size(const struct pf_attr *a)
{
	static const uint32_t published[] = {64, 72, 80, 96, 104, 112, 120, 128, 136, 144};
	const unsigned char *bytes = (const unsigned char *)a;
	size_t used = sizeof *a, i = 0;

	while (used > published[0] && bytes[used - 1] == 0)
		used--;
	while (published[i] < used)
		i++;
	return published[i];
}

const char *pf_attr_unknown_to(const struct pf_attr *a, uint32_t kernel_size)
{
	const struct pf_field *f;
	struct pf_attr one;

	for (f = pf_fields; f->name; f++) {
		if (f->get(a) == 0)
			continue;
		memset(&one, 0, sizeof one);
		f->set(&one, f->get(a));
		if (pf_attr_size(&one) > kernel_size)
			return f->name;
	}
	return 0;
}
