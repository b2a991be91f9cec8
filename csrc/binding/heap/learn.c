/* See learn.h. */
#include "binding/heap/learn.h"

#if PB_HEAP_IS_KNOWN
#include <errno.h>
#include <lualib.h>
#include <stdlib.h>

#include "core/heap/memory.h"

/* --- blocks ---------------------------------------------------------------------------------------------------------- */

static struct pb_block *slot_of(const struct pb_heap_learner *w, uint64_t at)
{
	unsigned i = (unsigned)((at >> 3) * 2654435761u) % PB_BLOCKS;

	while (w->blocks[i].at && w->blocks[i].at != at)
		i = (i + 1) % PB_BLOCKS;
	return w->blocks + i;
}

static void note(struct pb_heap_learner *w, const void *block, size_t size, unsigned before)
{
	struct pb_block *b;

	if (!block)
		return;
	b = slot_of(w, pb_address(block));
	if (!b->at)
		w->blocks_n++;
	*b = (struct pb_block){.at = pb_address(block), .size = size, .born = ++w->allocations, .before = (uint16_t)before};
}

/* A number of bytes below 256, a multiple of the alignment of blocks. */
static unsigned some_bytes(const struct pb_heap_learner *w)
{
	return ((w->allocations + 1) * (2 * w->attempt + 1) * 2654435761u) >> 24 & 0xf0u;
}

static void *allocate(void *ud, void *block, size_t old, size_t size)
{
	struct pb_heap_learner *w = ud;
	const unsigned before = block ? slot_of(w, pb_address(block))->before : some_bytes(w);
	char *p;

	if (w->blocks_n > PB_BLOCKS / 2 && size) /* there is no room to know more of them */
		return NULL;
	if (!block && !size)
		return NULL;
	p = w->alloc(w->ud, block ? (char *)block - before : NULL, block ? old + before : 0, size ? size + before : 0);
	if (!p && size) {
		w->is_refused = 1;
		return NULL;
	}
	p = size ? p + before : NULL;
	/* Memory that the interpreter does not initialize must not look like a field. */
	if (!block)
		memset(p, 0x80 | (int)(w->allocations & 0x7f), size);
	if (block && block != p)
		note(w, block, 0, 0);
	if (size)
		note(w, p, size, before);
	return p;
}

uint64_t pb_heap_block(const struct pb_heap_learner *w, uint64_t at)
{
	return at ? slot_of(w, at)->size : 0;
}

struct pb_block *pb_heap_block_of(const struct pb_heap_learner *w, uint64_t at)
{
	if (pb_heap_block(w, at))
		return slot_of(w, at);
	for (struct pb_block *b = w->blocks; b < w->blocks + PB_BLOCKS; b++)
		if (b->size && at - b->at < b->size)
			return b;
	return NULL;
}

/* --- helpers --------------------------------------------------------------------------------------------------------- */

void pb_heap_fail(struct pb_heap_learner *w, const char *what)
{
	w->why = what;
	lua_pushnil(w->L);
	lua_error(w->L);
	__builtin_unreachable();
}

void pb_heap_run(struct pb_heap_learner *w, const char *text, int results)
{
	pb_heap_run_with(w, text, NULL, 0, results);
}

void pb_heap_run_with(struct pb_heap_learner *w, const char *text, const int *numbers, int n, int results)
{
	int failed = luaL_loadbuffer(w->L, text, strlen(text), "=perf heap");

	for (int i = 0; i < n; i++)
		lua_pushinteger(w->L, numbers[i]);
	failed = failed || lua_pcall(w->L, n, results, 0);
	if (failed || w->is_refused) /* refused: a coroutine had no memory, and its results are missing */
		pb_heap_fail(w, "a probe");
}

/* --- finalizers ------------------------------------------------------------------------------------------------------ */

int pb_heap_is_waiting(const struct pb_heap_finalizing *f, uint64_t at)
{
	int left = 0;

	for (int i = 0; i < PB_HEAP_FINALIZED; i++) {
		if (at && at == f->waiting[i])
			return 1;
		left += f->waiting[i] != 0;
	}
	return !at && !left;
}

static int finalize(lua_State *L)
{
	struct pb_heap_learner *w = lua_touserdata(L, lua_upvalueindex(1));
	struct pb_heap_finalizing *f = w->finalizing;
	const uint64_t self = pb_address(lua_touserdata(L, 1)) - w->l->userdata_bytes;

	if (!f)
		return 0;
	for (int i = 0; i < PB_HEAP_FINALIZED; i++)
		if (f->waiting[i] == self)
			f->waiting[i] = 0;
	f->narrow(w, f);
	f->calls++;
	return 0;
}

void pb_heap_finalize(struct pb_heap_learner *w, struct pb_heap_finalizing *f)
{
	w->finalizing = f;
	lua_gc(w->L, LUA_GCCOLLECT, 0); /* earlier objects would be in the list too */
	lua_createtable(w->L, 0, 1);
	lua_pushlightuserdata(w->L, w);
	lua_pushcclosure(w->L, finalize, 1);
	lua_setfield(w->L, -2, "__gc");
	for (int i = 0; i < PB_HEAP_FINALIZED; i++) {
		f->waiting[i] = pb_address(pb_newplain(w->L, 8)) - w->l->userdata_bytes;
		lua_pushvalue(w->L, -2);
		lua_setmetatable(w->L, -2);
		if (f->made)
			f->made(w, f, f->waiting[i]);
		lua_pop(w->L, 1);
	}
	lua_pop(w->L, 1);
	lua_gc(w->L, LUA_GCCOLLECT, 0);
	lua_gc(w->L, LUA_GCSTOP, 0);
	w->finalizing = NULL;
	if (f->calls != PB_HEAP_FINALIZED)
		pb_heap_fail(w, "finalizers");
}

/* --- the check ------------------------------------------------------------------------------------------------------- */

/* Objects of all types that refer to each other in all ways; some of them are dead. */
static const char program[] =
	"local weak, keys, both = setmetatable({}, {__mode = 'v'}), setmetatable({}, {__mode = 'k'}), setmetatable({}, {__mode = 'kv'})\n"
	"kept = {[1] = 'one', [2.5] = {}, [true] = {}, [{}] = {}, name = {'a', 'b', {}}, weak, keys, both}\n"
	"weak[1], weak.x, keys[kept.name], keys[1], both[kept.name] = kept.name, {}, {}, {}, kept.name\n"
	"keys[setmetatable({}, {})] = {}\n"
	"local up, other = {}, {}\n"
	"function kept.first() return up end\n"
	"function kept.second() up = other return function() return up, kept end end\n"
	"kept.third = kept.second()\n"
	"kept.thread = coroutine.wrap(function(a, ...)\n"
	"  local b, c = {a}, 'text' .. #a\n"
	"  local function open() return b end\n"
	"  kept.open = open\n"
	"  coroutine.yield()\n"
	"  return c\n"
	"end)\n"
	"kept.thread({1, 2, 3}, {}, {})\n"
	"kept.userdata, kept.file = newproxy and newproxy(true) or nil, io and io.tmpfile and io.stdout\n"
	"local dead = {{}, function() return up end, 'a text that ' .. 'is dead', coroutine.create(function() end)}\n"
	"dead = nil\n"
	"for i = 1, 300 do kept['key ' .. i] = i local t = {i, n = {}} end\n";

static void check_blocks(struct pb_heap_learner *w, const struct pf_heap *h)
{
	const struct pb_block *state = pb_heap_block_of(w, w->global);

	if (!state)
		pb_heap_fail(w, "the state's block");
	for (uint32_t i = 1; i <= h->n; i++) {
		const uint64_t start = pb_heap_start(w, pf_heap_address(h, i));

		/* The main thread, and LuaJIT's empty string, lie in the state's block. */
		if (start - state->at >= state->size && !pb_heap_block(w, start))
			pb_heap_fail(w, "an object that is no block");
	}
}

/* Is an object, of which `born` has the block and its number, still there? */
static int survives(const struct pb_heap_learner *w, uint64_t born)
{
	const struct pb_block *b = slot_of(w, born >> 16);

	return b->size && (b->born & 0xffff) == (born & 0xffff);
}

/* The objects that are reached must survive a collection, and no others a second one: in 5.3, the values of open upvalues of a thread that
 * is dead survive the first; and a key whose value is dead is freed by the second. */
static void check_survivors(struct pb_heap_learner *w, const struct pf_heap *h, uint64_t *born)
{
	for (uint32_t i = 1; i <= h->n; i++) {
		const uint64_t start = pb_heap_start(w, pf_heap_address(h, i));

		born[i] = start << 16 | (slot_of(w, start)->born & 0xffff);
	}
	for (int times = 0; times < 2; times++) {
		lua_gc(w->L, LUA_GCCOLLECT, 0);
		for (uint32_t i = 1; i <= h->n; i++) {
			if (!slot_of(w, born[i] >> 16)->at) /* it lies in the state's block */
				continue;
			if (times == 0 && pf_heap_vias(h)[i] && !survives(w, born[i]))
				pb_heap_fail(w, "an object that was reached, but is dead");
			if (times == 1 && !pf_heap_vias(h)[i] && survives(w, born[i]))
				pb_heap_fail(w, "an object that is alive, but was not reached");
		}
	}
}

static void take(struct pb_heap_learner *w, struct pf_heap *h)
{
	struct pb_heap_reader r;
	int e;

	pb_heap_reader(&r, w->l, w->global);
	r.r.globals = pb_heap_globals(w->L);
	r.r.running = pb_address(w->L);
	e = pf_heap_take(h, &r.r);
	if (e == 0)
		e = pf_heap_analyze(h, &r.r);
	r.r.done(&r.r);
	w->is_refused |= e == -ENOMEM;
	if (e < 0)
		pb_heap_fail(w, "an object of no type");
	if (h->parts[PF_HEAP_UNKNOWN] != 0)
		pb_heap_fail(w, "the sum of all objects");
}

/* Makes what a program in Lua cannot: userdata with values, and their addresses as keys. */
static void keep_userdata(struct pb_heap_learner *w)
{
	lua_getglobal(w->L, "kept");
	for (int i = 0; i < 2; i++) {
		void *p = pb_newuserdata(w->L, 40);

		lua_createtable(w->L, 3, 1);
		if (i == 0)
			pb_setuservalue(w->L, -2);
		else
			lua_setmetatable(w->L, -2);
		lua_pushlightuserdata(w->L, p);
		lua_pushvalue(w->L, -2);
		lua_settable(w->L, -4);
		lua_setfield(w->L, -2, i ? "one" : "two");
	}
	pb_newplain(w->L, 24);
	lua_setfield(w->L, -2, "plain");
	lua_pop(w->L, 1);
}

static void check(struct pb_heap_learner *w)
{
	uint64_t *born;

	for (int i = 0; i < 3; i++) {
		pb_heap_run(w, program, 0);
		keep_userdata(w);
		born = lua_newuserdata(w->L, PB_BLOCKS * sizeof *born);
		take(w, &w->heap);
		check_blocks(w, &w->heap);
		check_survivors(w, &w->heap, born);
		pf_heap_free(&w->heap);
		lua_pop(w->L, 1);
	}
}

/* --- all of it ------------------------------------------------------------------------------------------------------- */

enum { PB_ATTEMPTS = 8 };

struct start {
	struct pb_heap_learner *w;
	const struct pf_memory *m;
};

static int learn(lua_State *L)
{
	const struct start *s = lua_touserdata(L, 1);
	struct pb_heap_learner *w = s->w;

	lua_settop(L, 0);
	luaL_openlibs(L);
	luaL_checkstack(L, 100, NULL);
	pb_heap_learn_layout(w, s->m);
	check(w);
	return 0;
}

/* LuaJIT's values have addresses of 47 bits, so the blocks must come from its own allocator, which belongs to another state. */
static int attempt(struct pb_heap_learner *w, const struct pf_memory *m)
{
	struct start s = {w, m};
	int r = -ENOMEM;

	memset(w->l, 0, sizeof *w->l);
	memset(w->blocks, 0, PB_BLOCKS * sizeof *w->blocks);
	w->blocks_n = w->allocations = 0;
	w->why = "more blocks than expected";
	w->L = lua_newstate(allocate, w);
	if (w->L) {
		r = pb_cpcall(w->L, learn, &s) == 0 ? 0 : w->is_refused ? -ENOMEM : -ENOTSUP;
		w->finalizing = NULL; /* memory may have run out in pb_heap_finalize: then lua_close calls finalizers */
		lua_close(w->L);
	}
	pf_heap_free(&w->heap);
	return r;
}

/* Both were 0 before their fields were set, so the bytes between the fields are the same. */
static int is_same(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct pb_heap_layout)) == 0;
}

static int learn_twice(struct pb_heap_learner *w, const struct pf_memory *m, struct pb_heap_layout found[PB_ATTEMPTS])
{
	unsigned n = 0;
	int r = 0;

	for (w->attempt = 0; w->attempt < PB_ATTEMPTS && r != -ENOMEM; w->attempt++) {
		w->l = &found[n];
		r = attempt(w, m);
		for (unsigned i = 0; i < n && r == 0; i++)
			if (is_same(&found[i], &found[n]))
				return 0;
		n += r == 0;
	}
	if (r == 0)
		w->why = "different attempts found different places";
	return r == 0 ? -ENOTSUP : r;
}

int pb_heap_learn(const struct pf_memory *m, struct pb_heap_layout *l, const char **why)
{
	struct pb_heap_learner w = {0};
	struct pb_heap_layout *found = calloc(PB_ATTEMPTS, sizeof *found);
	lua_State *below = luaL_newstate();
	int r = -ENOMEM;

	w.blocks = calloc(PB_BLOCKS, sizeof *w.blocks);
	if (below && w.blocks && found) {
		w.alloc = lua_getallocf(below, &w.ud);
		r = learn_twice(&w, m, found);
		if (r == 0)
			*l = *w.l;
	}
	free(found);
	free(w.blocks);
	if (below)
		lua_close(below);
	*why = r == -ENOMEM ? NULL : w.why;
	return r;
}
#endif
