/* Tally: counts by key, from a ring or a file (core/record/tally.h). Fields at fixed places in samples are read directly; others
 * are parsed. */
#include <errno.h>
#include <string.h>

#include "core/base/bytes.h"
#include "core/base/thread.h"
#include "core/record/sample_order.h"
#include "binding/record/source.h"

#define PB_TALLY "perf.Tally"

struct pb_tally *pb_check_tally(lua_State *L)
{
	struct pb_tally *p = pb_check(L, 1, PB_TALLY, "Tally");

	luaL_argcheck(L, p->t.slots, 1, "Tally is closed");
	if (pf_inherited(p->generation))
		pb_refuse_inherited(L, 1, "Tally");
	return p;
}

static void add_field(lua_State *L, struct pb_tally *p, int i)
{
	const char *name = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : luaL_typename(L, -1);

	p->field[i] = pb_check_field(L, 1, name, 1);
	p->nfields++;
	lua_pop(L, 1);
}

/* core.tally(fields, max, weight or nil, type): Tally, or nil, message, code. */
static int l_tally(lua_State *L)
{
	const uint32_t max = (uint32_t)pb_check_u64(L, 2, UINT32_MAX);
	struct pb_tally *p;
	size_t n;
	int r;

	luaL_checktype(L, 1, LUA_TTABLE);
	n = pb_rawlen(L, 1);
	luaL_argcheck(L, n >= 1 && n <= PF_TALLY_MAX_KEYS, 1, "1 to 4 fields expected");
	p = pb_new(L, sizeof *p, PB_TALLY);
	p->type = pb_check_record_type(L, 4);
	p->generation = pf_fork_generation();
	for (size_t i = 0; i < n; i++) {
		lua_rawgeti(L, 1, (int)i + 1);
		add_field(L, p, (int)i);
	}
	p->weighted = !lua_isnoneornil(L, 3);
	if (p->weighted) {
		lua_pushvalue(L, 3);
		add_field(L, p, (int)n);
	}
	r = pf_tally_init(&p->t, (uint32_t)n, max);
	return r < 0 ? pb_fail(L, r, "tally") : 1;
}

static int l_close(lua_State *L)
{
	struct pb_tally *p = pb_test(L, 1, PB_TALLY);

	if (p)
		pf_tally_free(&p->t);
	return 0;
}

static void make_plan(const struct pb_tally *p, struct pb_plan *plan, const struct pf_layout *l)
{
	plan->layout = l;
	plan->placed = !l->tail && p->type == PF_RECORD_SAMPLE;
	for (int i = 0; i < p->nfields; i++) {
		plan->at[i] = pf_place_named(pb_field_name(p->field[i]), l->sample_type, &plan->size[i]);
		plan->placed &= plan->at[i] != 0;
	}
}

static void placed_values(const struct pb_tally *p, const struct pb_plan *plan, const unsigned char *bytes, uint64_t *out)
{
	for (int i = 0; i < p->nfields; i++)
		out[i] = plan->size[i] == 8 ? pf_load64(bytes + plan->at[i]) : pf_load32(bytes + plan->at[i]);
}

/* Reads the fields of one record. Returns 1; 0 if it lacks one; -EBADMSG. */
static int values_of(const struct pb_tally *p, struct pb_plan *plan, const struct pf_layout *l, const unsigned char *bytes, size_t n,
		     uint64_t *out)
{
	struct pf_record rec;

	if (l && l != plan->layout)
		make_plan(p, plan, l);
	if (l && plan->placed) {
		if (n % 8 || n < sizeof(struct pf_header) + l->fixed_size)
			return -EBADMSG;
		placed_values(p, plan, bytes, out);
		return 1;
	}
	if (pf_record_parse(l, bytes, n, &rec) < 0)
		return -EBADMSG;
	for (int i = 0; i < p->nfields; i++)
		if (!pb_field_value(&rec, p->field[i], &out[i]))
			return 0;
	return 1;
}

int pb_tally_count(struct pb_tally *p, struct pb_plan *plan, const struct pf_layout *l, const unsigned char *bytes, size_t n)
{
	uint64_t v[PB_TALLY_FIELDS];
	int r;

	if (pf_load32(bytes) != p->type)
		return 0;
	r = values_of(p, plan, l, bytes, n, v);
	if (r == 0)
		p->without++;
	if (r != 1)
		return r;
	r = pf_tally_add(&p->t, v, p->weighted ? v[p->nfields - 1] : 1);
	return r < 0 ? r : 1;
}

uint64_t pb_tally_span(struct pb_tally *p, const struct pb_plan *plan, const unsigned char *bytes, size_t left, size_t *done)
{
	const size_t least = sizeof(struct pf_header) + plan->layout->fixed_size;
	uint64_t n = 0, v[PB_TALLY_FIELDS];
	size_t at = 0;

	while (left - at >= least && pf_load32(bytes + at) == PF_RECORD_SAMPLE) {
		const size_t size = pf_load16(bytes + at + 6);

		if (size < least || size % 8 || size > left - at)
			break;
		placed_values(p, plan, bytes + at, v);
		if (pf_tally_add(&p->t, v, p->weighted ? v[p->nfields - 1] : 1) < 0)
			break;
		at += size;
		n++;
	}
	*done = at;
	return n;
}

/* tally:next(i): i to continue with, the count, and the key's fields; nil after the last. i is 0 at first. */
static int l_next(lua_State *L)
{
	const struct pb_tally *p = pb_check_tally(L);
	uint32_t i = (uint32_t)luaL_checknumber(L, 2);
	const uint64_t *at;
	uint64_t key[PF_TALLY_MAX_KEYS], n = pf_tally_next(&p->t, &i, &at);

	if (n == 0)
		return 0;
	memcpy(key, at, p->t.nkeys * sizeof *key); /* a finalizer that runs meanwhile may close the Tally */
	lua_pushinteger(L, (lua_Integer)i);
	pb_push_u64(L, n);
	for (uint32_t k = 0; k < p->t.nkeys; k++)
		pb_push_number(L, p->field[k], key[k]);
	return 2 + (int)p->t.nkeys;
}

/* tally:count(field, ...): the count of a key. */
static int l_count(lua_State *L)
{
	const struct pb_tally *p = pb_check_tally(L);
	uint64_t key[PF_TALLY_MAX_KEYS];
	int negative;

	for (uint32_t k = 0; k < p->t.nkeys; k++) {
		if (!pb_to_u64(L, (int)k + 2, &key[k], &negative))
			return luaL_argerror(L, (int)k + 2, "number expected");
		key[k] = pb_as_field(p->field[k], key[k]);
	}
	return pb_u64(L, pf_tally_count(&p->t, key));
}

/* tally:totals(): the sum of all counts; the part of it from new keys beyond max; the number of keys; the number of records that
 * lack a field. */
static int l_totals(lua_State *L)
{
	const struct pb_tally *p = pb_check_tally(L);

	pb_push_u64(L, p->t.total);
	pb_push_u64(L, p->t.other);
	pb_push_u64(L, p->t.n);
	pb_push_u64(L, p->without);
	return 4;
}

static int l_clear(lua_State *L)
{
	struct pb_tally *p = pb_check_tally(L);

	pf_tally_clear(&p->t);
	p->without = 0;
	return 0;
}

void pb_open_tally(lua_State *L)
{
	static const luaL_Reg methods[] = {{"next", l_next},   {"count", l_count},
					   {"totals", l_totals}, {"clear", l_clear}, {"close", l_close}, {NULL, NULL}};

	pb_set_function(L, "tally", l_tally);
	pb_new_class(L, PB_TALLY, methods, l_close);
}
