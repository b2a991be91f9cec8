/* The fields of samples that are tables or made from more than one member: values, callchains, branches, registers, the data
 * source. Each function pushes one value. */
#include <string.h>

#include "binding/record/record.h"
#include "binding/counts/meter.h"

PART(var1_dw)
{
	return pb_u64(L, r->rec.weight & UINT32_MAX);
}

PART(var2_w)
{
	return pb_int(L, (lua_Integer)(r->rec.weight >> 32 & UINT16_MAX));
}

PART(var3_w)
{
	return pb_int(L, (lua_Integer)(r->rec.weight >> 48));
}

/* Push the label of entry i, from 0, of an event whose info is on top of the stack, or nil. A group's info has the labels of all
 * its members, in order; a single event's info has its own label. */
static void push_label(lua_State *L, uint64_t nr, uint64_t i)
{
	lua_getfield(L, -1, "labels");
	if (lua_istable(L, -1) && pb_rawlen(L, -1) == nr) {
		lua_rawgeti(L, -1, (int)i + 1);
	} else if (nr == 1) {
		lua_getfield(L, -2, "label");
	} else {
		lua_pushnil(L);
	}
	lua_remove(L, -2);
}

/* {value=, id=, lost=, label=} in the order of the group, with enabled_ns and running_ns of the whole; also the values by
 * label. */
PART(counts)
{
	struct pf_reading rd;

	if (pf_read_decode(r->rec.read_format, pf_view_u64(r->bytes, r->rec.read), r->rec.read.n, &rd) < 0)
		return pb_nil(L);
	pf_reading_strip(&rd, r->rec.read_hidden);
	lua_newtable(L);
	pb_set_reading(L, &rd);
	pb_push_info(L, r);
	for (uint64_t i = 0; i < rd.nr; i++) {
		push_label(L, rd.nr, i);
		if (lua_type(L, -1) == LUA_TSTRING) {
			lua_rawgeti(L, -3, (int)i + 1);
			lua_pushvalue(L, -2);
			lua_setfield(L, -2, "label");
			lua_getfield(L, -1, "value");
			lua_remove(L, -2);
			lua_settable(L, -4);
		} else {
			lua_pop(L, 1);
		}
	}
	lua_pop(L, 1);
	return 1;
}

/* The valid bytes of the copied stack: the copy may reach beyond the stack's end. */
PART(user_stack)
{
	return pb_bytes(L, r->bytes + r->rec.stack_user.at, r->rec.stack_dyn_size);
}

static const struct {
	uint64_t value;
	const char *name;
} contexts[] = {
#define X(sym, value, name) {(uint64_t)INT64_C(value), name},
#include "core/kernel/defs/context.def"
#undef X
};

/* The addresses alone, innermost first. */
PART(callchain)
{
	const uint64_t *v = pf_view_u64(r->bytes, r->rec.callchain);
	int n = 0;

	lua_createtable(L, r->rec.callchain.n, 0);
	for (unsigned i = 0; i < r->rec.callchain.n; i++) {
		if (pf_is_context(v[i])) {
			i += v[i] == (uint64_t)PF_CONTEXT_USER_DEFERRED; /* the next entry is a cookie */
			continue;
		}
		pb_push_i64(L, (int64_t)v[i]);
		lua_rawseti(L, -2, ++n);
	}
	return 1;
}

/* Array of {index=, context=}: from that index of callchain on, the addresses are the kernel's, the user's ... A deferred context
 * has its cookie. */
PART(callchain_contexts)
{
	const uint64_t *v = pf_view_u64(r->bytes, r->rec.callchain);
	int n = 0, frames = 0;

	lua_newtable(L);
	for (unsigned i = 0; i < r->rec.callchain.n; i++) {
		const char *name = "unknown";

		if (!pf_is_context(v[i])) {
			frames++;
			continue;
		}
		for (size_t k = 0; k < sizeof contexts / sizeof *contexts; k++)
			if (contexts[k].value == v[i])
				name = contexts[k].name;
		lua_createtable(L, 0, 2);
		pb_set_int(L, "index", frames + 1);
		pb_set_text(L, "context", name);
		if (v[i] == (uint64_t)PF_CONTEXT_USER_DEFERRED && i + 1u < r->rec.callchain.n)
			pb_set_u64(L, "cookie", v[++i]);
		lua_rawseti(L, -2, ++n);
	}
	return 1;
}

static const char *const branch_types[] = {
#define TYPE(sym, value, name) [value] = name,
#include "core/kernel/defs/branch_entry.def"
#undef TYPE
};
static const char *const branch_new_types[16] = {
#define NEW_TYPE(sym, value, name) [value] = name,
#include "core/kernel/defs/branch_entry.def"
#undef NEW_TYPE
};
static const char *const branch_specs[] = {
#define SPEC(sym, value, name) [value] = name,
#include "core/kernel/defs/branch_entry.def"
#undef SPEC
};
static const char *const branch_privs[8] = {
#define PRIV(sym, value, name) [value] = name,
#include "core/kernel/defs/branch_entry.def"
#undef PRIV
};

struct branch_bits {
	unsigned mispred, predicted, in_tx, abort, cycles, type, spec, new_type, priv;
};

static void split_branch(uint64_t v, struct branch_bits *out)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define BITS(member, width)                                                                             \
	out->member = (unsigned)(v & ((1u << width) - 1));                                              \
	v >>= width;
#else
#define BITS(member, width)                                                                             \
	out->member = (unsigned)(v >> (64 - width));                                                    \
	v <<= width;
#endif
#include "core/kernel/defs/branch_entry.def"
#undef BITS
}

/* Array, the latest first, of {from=, to=, mispred=, predicted=, in_tx=, abort=, cycles=, type=}; spec and priv if the CPU
 * records them, counters if the event requests them. */
PART(branch_stack)
{
	const unsigned char *at = r->bytes + r->rec.branch_stack.at;
	const uint64_t *counters =
		r->rec.has & PF_HAS_COUNTERS ? pf_view_u64(r->bytes, r->rec.branch_counters) : NULL;

	lua_createtable(L, r->rec.branch_stack.n, 0);
	for (unsigned i = 0; i < r->rec.branch_stack.n; i++, at += sizeof(struct pf_branch)) {
		struct pf_branch b;
		struct branch_bits f;
		const char *new_type;

		memcpy(&b, at, sizeof b);
		split_branch(b.flags, &f);
		new_type = f.type == 15 && branch_new_types[f.new_type] ? branch_new_types[f.new_type] : NULL;
		lua_createtable(L, 0, 8);
		pb_set_i64(L, "from", (int64_t)b.from);
		pb_set_i64(L, "to", (int64_t)b.to);
		pb_set_bool(L, "mispred", (int)f.mispred);
		pb_set_bool(L, "predicted", (int)f.predicted);
		pb_set_bool(L, "in_tx", (int)f.in_tx);
		pb_set_bool(L, "abort", (int)f.abort);
		pb_set_int(L, "cycles", (lua_Integer)f.cycles);
		pb_set_text(L, "type", new_type ? new_type : branch_types[f.type]);
		if (f.spec)
			pb_set_text(L, "spec", branch_specs[f.spec]);
		if (f.priv && branch_privs[f.priv])
			pb_set_text(L, "priv", branch_privs[f.priv]);
		if (counters)
			pb_set_u64(L, "counters", counters[i]);
		lua_rawseti(L, -2, (int)i + 1);
	}
	return 1;
}

static const struct {
	uint8_t arch, first;
	const char *names;
} registers[] = {
#define REGISTERS(arch, first, names) {PF_ARCH_##arch, first, names},
#include "core/kernel/defs/regs.def"
#undef REGISTERS
};

static void push_register_name(lua_State *L, unsigned arch, unsigned bit)
{
	for (size_t i = 0; i < sizeof registers / sizeof *registers; i++) {
		const char *name = registers[i].arch == arch && registers[i].first <= bit ? registers[i].names : NULL;

		for (unsigned at = registers[i].first; name && at < bit; at++) {
			name = strchr(name, ' ');
			name = name ? name + 1 : NULL;
		}
		if (name) {
			lua_pushlstring(L, name, strcspn(name, " "));
			return;
		}
	}
	lua_pushfstring(L, "r%d", (int)bit);
}

/* {abi=, ax=, ...}: abi is 0 if there were none, 1 for a 32-bit task, 2 for a 64-bit one. */
static int push_registers(lua_State *L, const struct pb_record *r, unsigned abi, uint64_t mask, struct pf_view regs)
{
	const uint64_t *v = pf_view_u64(r->bytes, regs);

	lua_createtable(L, 0, regs.n + 1);
	pb_set_int(L, "abi", (lua_Integer)abi);
	for (unsigned bit = 0, i = 0; bit < 64 && i < regs.n; bit++) {
		if (!(mask & PF_BIT(bit)))
			continue;
		push_register_name(L, r->rec.arch, bit);
		pb_push_i64(L, (int64_t)v[i++]);
		lua_rawset(L, -3);
	}
	return 1;
}

PART(user_regs)
{
	return push_registers(L, r, r->rec.regs_user_abi, r->rec.regs_user_mask, r->rec.regs_user);
}

PART(intr_regs)
{
	return push_registers(L, r, r->rec.regs_intr_abi, r->rec.regs_intr_mask, r->rec.regs_intr);
}

/* Names of the bits that are set: an array, in which each name is also a key with the value true. The table is on top of the
 * stack. */
static void add_flag(lua_State *L, const char *name)
{
	lua_pushstring(L, name);
	lua_rawseti(L, -2, (int)pb_rawlen(L, -2) + 1);
	pb_set_bool(L, name, 1);
}

PART(transaction)
{
	lua_createtable(L, 1, 3);
#define X(sym, bit, name)                                                                               \
	if (r->rec.transaction & PF_BIT(bit))                                                           \
		add_flag(L, name);
#include "core/kernel/defs/txn.def"
#undef X
	pb_set_u64(L, "abort_code", r->rec.transaction >> 32);
	pb_set_u64(L, "value", r->rec.transaction);
	return 1;
}

/* {op = {"load", load = true}, lvl = {...}, lvl_num = "l3", remote = true ..., value = the number}: flags in the form of
 * transaction, names as text. A key is missing if the CPU does not record it. */
PART(data_src)
{
	enum {
#define FIELD(name, shift, width, kind) FIELD_##name,
#include "core/kernel/defs/data_src.def"
#undef FIELD
	};
	static const struct {
		const char *name;
		uint8_t shift, width, kind;
	} parts[] = {
#define FIELD(name, shift, width, kind) {#name, shift, width, kind},
#include "core/kernel/defs/data_src.def"
#undef FIELD
	};
	static const struct {
		uint8_t part;
		uint16_t value;
		const char *name;
	} values[] = {
#define VALUE(field, prefix, sym, value, name) {FIELD_##field, value, name},
#include "core/kernel/defs/data_src.def"
#undef VALUE
	};

	lua_createtable(L, 0, sizeof parts / sizeof *parts + 1);
	pb_set_u64(L, "value", r->rec.data_src);
	for (unsigned p = 0; p < sizeof parts / sizeof *parts; p++) {
		const uint64_t v = r->rec.data_src >> parts[p].shift & ((1u << parts[p].width) - 1);

		if (parts[p].kind == 'b') {
			pb_set_bool(L, parts[p].name, (int)v);
			continue;
		}
		if (v == 0)
			continue;
		if (parts[p].kind == 'f')
			lua_createtable(L, 1, 2);
		for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
			if (values[i].part != p)
				continue;
			if (parts[p].kind == 'f' && v & values[i].value)
				add_flag(L, values[i].name);
			else if (parts[p].kind == 'n' && v == values[i].value)
				pb_set_text(L, parts[p].name, values[i].name);
		}
		if (parts[p].kind == 'f')
			lua_setfield(L, -2, parts[p].name);
	}
	return 1;
}
