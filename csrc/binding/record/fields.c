/* The fields of a Record that are tables or made from more than one member, except those of samples (record/sample_fields.c).
 * Each function pushes one value. */
#include "binding/record/record.h"

/* The kernel's name in lower case; "unknown" for a type that this module does not know, which still has size and body. */
PART(type)
{
	const char *kernel = pf_name_of(pf_names_record, r->rec.type), *tool = kernel ? NULL : pb_tool_records->type(r->rec.type);

	return pb_text(L, kernel ? kernel : tool ? tool : "unknown");
}

PART(type_id)
{
	return pb_u64(L, r->rec.type);
}

PART(size)
{
	return pb_int(L, r->rec.size);
}

PART(misc)
{
	return pb_int(L, r->rec.misc);
}

/* The label of the event that wrote it. */
PART(event)
{
	pb_push_info(L, r);
	lua_getfield(L, -1, "label");
	return 1;
}

PART(executable)
{
	return pb_bool(L, !(r->rec.misc & PF_MISC_MMAP_DATA));
}

PART(flags)
{
	return pb_u64(L, r->rec.type == PF_RECORD_AUX ? r->rec.aux_flags : r->rec.flags);
}

PART(unregister)
{
	return pb_bool(L, r->rec.flags & 1);
}

static int push_name(lua_State *L, uint32_t value, const struct pf_name *names)
{
	const char *name = pf_name_of(names, value);

	return pb_text(L, name ? name : "unknown");
}

#define X(sym, value, name) {name, value},
PART(cpu_mode)
{
	static const struct pf_name names[] = {
#include "core/kernel/defs/mode.def"
		{0, 0}};
	return push_name(L, r->rec.misc & 7, names);
}

PART(ksym_type)
{
	static const struct pf_name names[] = {
#include "core/kernel/defs/ksymbol.def"
		{0, 0}};
	return push_name(L, r->rec.kind, names);
}

PART(kind)
{
	static const struct pf_name names[] = {
#include "core/kernel/defs/bpf_event.def"
		{0, 0}};
	return push_name(L, r->rec.kind, names);
}

/* Array of {name=, dev=, ino=} in the kernel's order; also by name. */
PART(namespaces)
{
	static const struct pf_name names[] = {
#include "core/kernel/defs/namespace.def"
		{0, 0}};
	const uint64_t *v = pf_view_u64(r->bytes, r->rec.namespaces);

	lua_createtable(L, r->rec.namespaces.n, r->rec.namespaces.n);
	for (unsigned i = 0; i < r->rec.namespaces.n; i++, v += 2) {
		lua_createtable(L, 0, 3);
		pb_set_u64(L, "dev", v[0]);
		pb_set_u64(L, "ino", v[1]);
		if (i < sizeof names / sizeof *names - 1) {
			pb_set_text(L, "name", names[i].name);
			lua_pushvalue(L, -1);
			lua_setfield(L, -3, names[i].name);
		}
		lua_rawseti(L, -2, (int)i + 1);
	}
	return 1;
}
#undef X
