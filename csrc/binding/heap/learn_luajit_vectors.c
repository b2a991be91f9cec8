/* See learn.h: the arrays that belong to LuaJIT's global state, its compiler and its FFI: all blocks except those of objects.
 *
 * Each is found by a pointer to it, and by a number near the pointer that explains its size whenever it has grown. */
#include "binding/heap/learn.h"

#if PB_LUAJIT
#include <errno.h>

#include "binding/stack/learn_luajit.h"
#include "core/heap/memory.h"
#include "core/stack/unwind_luajit_internal.h"

#define word pf_heap_word
#define u32 pf_heap_u32

enum { NEAR = 40, STATE = PB_LUAJIT_COMPILER, MOST = 400 };

/* Ways to explain blocks. */
struct ways {
	struct pf_heap_vector way[MOST];
	unsigned n;
	int too_many;
};

/* The arguments of the program below in each run. The arrays must not grow in step, or the size of one could explain another. */
enum { LOOPS, BRANCHES, VARIABLES, TEXT, TYPES, CALLBACKS, SEGMENTS, AMOUNTS };
static const int amounts[][AMOUNTS] = {
	{3, 3, 1, 100, 1, 1, 1},
	{2, 60, 1, 20000, 1, 1, 40},
	{70, 3, 1, 100, 300, 30, 41},
	{4, 60, 25, 40000, 301, 31, 42},
};
enum { TIMES = sizeof amounts / sizeof *amounts };

/* Makes all arrays exist, and lets them grow. */
static const char program[] =
	"local loops, branches, variables, size, types, callbacks, segments = ...\n"
	"local all = {}\n"
	"for i = 1, loops do\n"
	"  local names, changes = {}, {}\n"
	"  for k = 1, variables do names[k], changes[k] = 'v' .. k, 'v' .. k .. ' = i + ' .. k .. ' ' end\n"
	"  changes = table.concat(changes)\n"
	"  names = table.concat(names, ', ')\n"
	"  local text = {'local t, a = ..., 0 local ' .. names .. ' for i = 1, 200 do '}\n"
	"  for k = 1, branches do text[#text + 1] = changes .. 'if t[' .. k .. '] == i then a = a + t[' .. k .. '] end t[' .. k .. '] = a + ' .. k .. ' ' end\n"
	"  text[#text + 1] = 'end return a, ' .. names\n"
	"  all[i] = (loadstring or load)(table.concat(text))\n"
	"  local t = {}\n"
	"  for k = 1, 100 do t[k] = 0 end\n"
	"  all[i](t)\n"
	"end\n"
	"kept_loops = kept_loops or {}\n"
	"kept_loops[segments] = all\n"
	"local long = ('a'):rep(size)\n"
	"long = long:upper() .. long:reverse()\n"
	"local ok, ffi = pcall(require, 'ffi')\n"
	"if not ok then return end\n"
	"for i = 1, types do ffi.typeof('char[' .. 10000 + i .. ']') end\n"
	"for i = 1, callbacks do pcall(ffi.cast, 'int (*)(int)', function(a) return a end) end\n";

static void run(struct pb_heap_learner *w, const int amount[AMOUNTS])
{
	pb_heap_run_with(w, program, amount, AMOUNTS, 0);
	for (int i = 1; i <= amount[SEGMENTS]; i++) {
		lua_pushlightuserdata(w->L, (void *)((uintptr_t)i << 40));
		lua_pop(w->L, 1);
	}
}

static void explain(struct pb_heap_learner *w, uint64_t at)
{
	struct pb_block *b = pb_heap_block(w, at) ? pb_heap_block_of(w, at) : NULL;

	if (b)
		b->is_explained = 1;
}

/* The blocks of objects, and those that are known to belong to the state. */
static void explain_objects(struct pb_heap_learner *w)
{
	const struct pb_heap_layout *l = w->l;
	struct pf_heap_luajit_reader r;
	struct pf_heap h = {0};
	uint64_t start;
	int failed;

	pf_heap_luajit_reader(&r, l, w->global);
	r.r.h = &h;
	r.r.mark(&r.r);
	if (h.failed == 0)
		pf_heap_count(&h);
	for (uint32_t i = 1; i <= h.n && h.failed == 0; i++) {
		const uint64_t at = pf_heap_address(&h, i);
		const uint8_t type = pf_heap_u8(at + l->l.object_type);

		if (type == l->type_table) {
			explain(w, word(at + l->table_array));
			explain(w, word(at + l->table_node));
		} else if (type == l->l.type_thread) {
			explain(w, word(at + l->l.thread_stack));
		} else if (type == l->type_userdata && l->buffer_kind && pf_heap_u8(at + l->userdata_kind) == l->buffer_kind) {
			explain(w, word(at + l->userdata_bytes + l->buffer_begin));
		}
		pf_heap_luajit_size(l, w->global, at, &start);
		explain(w, start);
	}
	pf_heap_drop(&h, &r.traces);
	failed = h.failed;
	pf_heap_free(&h);
	w->is_refused |= failed == -ENOMEM;
	if (failed)
		pb_heap_fail(w, "an object of no type");
	explain(w, word(w->global + l->global_strings));
	explain(w, pb_heap_block_of(w, w->global)->at);
	if (l->global_ffi)
		explain(w, word(w->global + l->global_ffi));
}

static void add(struct ways *ways, const struct pf_heap_vector *v)
{
	if (ways->n < MOST)
		ways->way[ways->n++] = *v;
	else
		ways->too_many = 1;
}

/* Does this way explain a block that nothing else explains? */
static struct pb_block *explained(struct pb_heap_learner *w, const struct pf_heap_vector *v)
{
	uint64_t start, size = pf_heap_luajit_vector(w->l, v, w->global, &start);
	struct pb_block *b = size && pb_heap_block(w, start) == size ? pb_heap_block_of(w, start) : NULL;

	return b && !b->is_explained ? b : NULL;
}

static void try_near(struct pb_heap_learner *w, struct ways *ways, struct pf_heap_vector v)
{
	static const uint8_t sizes[] = {1, 2, 4, 8, 12, 16, 24, 32};
	const unsigned from = v.pointer < NEAR ? 0 : v.pointer - NEAR, end = v.pointer + NEAR + 4u;

	for (unsigned o = from; o < end; o += 4) {
		v.count = (uint16_t)o;
		v.how = PF_HEAP_ITEMS_END;
		v.size = 1;
		if (o % 8 == 0 && explained(w, &v))
			add(ways, &v);
		for (unsigned i = 0; i < sizeof sizes; i++) {
			v.size = sizes[i];
			v.how = PF_HEAP_ITEMS_N;
			if (explained(w, &v))
				add(ways, &v);
			v.how = PF_HEAP_ITEMS_BETWEEN;
			for (int d = -4; !v.ffi && d <= 4; d += 8) {
				v.limit = (uint16_t)((int)o + d);
				if ((int)o + d >= 0 && u32(w->global + o) && explained(w, &v))
					add(ways, &v);
			}
		}
	}
}

/* The array of segments of light userdata; its count is an eight-bit number of the collector. */
static void try_segments(struct pb_heap_learner *w, struct ways *ways, struct pf_heap_vector v)
{
	enum { BEFORE = 128 };

	v.size = 4;
	v.how = PF_HEAP_ITEMS_POWER;
	for (unsigned o = v.pointer < BEFORE ? 0 : v.pointer - BEFORE; o < v.pointer; o++) {
		v.count = (uint16_t)o;
		if (pf_heap_u8(w->global + o) && pf_heap_u8(w->global + o) < 64 && explained(w, &v))
			add(ways, &v);
	}
}

static void find_ways(struct pb_heap_learner *w, struct ways *ways)
{
	const struct pb_heap_layout *l = w->l;
	const uint64_t ffi = l->global_ffi ? word(w->global + l->global_ffi) : 0;
	const struct pb_block *state = pb_heap_block_of(w, w->global);
	const uint64_t end = state->at + state->size - w->global;
	struct pf_heap_vector v = {0};

	for (v.pointer = 0; v.pointer + 8u + NEAR + 8 <= STATE && v.pointer + 8u + NEAR + 8 <= end; v.pointer = (uint16_t)(v.pointer + 8)) {
		v.part = PF_HEAP_COMPILER;
		try_near(w, ways, v);
		v.part = PF_HEAP_POINTERS;
		if (v.pointer < PB_LUAJIT_GLOBAL)
			try_segments(w, ways, v);
	}
	v.ffi = 1;
	v.part = PF_HEAP_CTYPES;
	for (v.pointer = 0; ffi && v.pointer + 8u + NEAR + 8 <= l->ffi_bytes; v.pointer = (uint16_t)(v.pointer + 8))
		try_near(w, ways, v);
}

/* Keep the ways that still explain a block. */
static void narrow(struct pb_heap_learner *w, struct ways *ways)
{
	unsigned kept = 0;

	for (unsigned i = 0; i < ways->n; i++)
		if (explained(w, &ways->way[i]))
			ways->way[kept++] = ways->way[i];
	ways->n = kept;
}

/* Take the ways; each block must have only one. */
static void choose(struct pb_heap_learner *w, const struct ways *ways)
{
	struct pb_heap_layout *l = w->l;

	for (unsigned i = 0; i < ways->n; i++) {
		struct pb_block *b = explained(w, &ways->way[i]);

		for (unsigned k = i + 1; k < ways->n; k++)
			if (explained(w, &ways->way[k]) == b)
				pb_heap_fail(w, "the size of an array");
		if (l->vectors_n == PF_HEAP_VECTORS)
			pb_heap_fail(w, "arrays");
		l->vectors[l->vectors_n] = ways->way[i];
		if (ways->way[i].how == PF_HEAP_ITEMS_END)
			l->vectors[l->vectors_n].part = PF_HEAP_BUFFER;
		l->vectors_n++;
		b->is_explained = 1;
	}
	for (const struct pb_block *b = w->blocks; b < w->blocks + PB_BLOCKS; b++)
		if (b->size && !b->is_explained)
			pb_heap_fail(w, "a block that belongs to nothing");
}

static void learn_prototype(struct pb_heap_learner *w)
{
	struct pb_heap_layout *l = w->l;
	const uint64_t traces = word(w->global + l->l.traces);
	const uint32_t n = u32(w->global + l->l.traces_n);
	uint64_t t[8];
	unsigned found = 0;

	for (uint32_t i = 1; i < n && found < sizeof t / sizeof *t; i++)
		if (word(traces + 8ull * i))
			t[found++] = word(traces + 8ull * i);
	if (found < 3)
		pb_heap_fail(w, "traces");
#define ALL(holds) ({ int all_ = 1; for (unsigned i = 0; i < found; i++) all_ = all_ && (holds); all_; })
	PB_HEAP_FIND(l->trace_prototype, 16, 136, 8,
		     ALL(pb_heap_block(w, word(t[i] + o)) && pf_heap_u8(word(t[i] + o) + l->l.object_type) == l->l.type_prototype),
		     "the prototype of a trace");
#undef ALL
}

void pb_heap_learn_vectors(struct pb_heap_learner *w)
{
	struct ways *ways = memset(lua_newuserdata(w->L, sizeof *ways), 0, sizeof *ways);

	for (int i = 0; i < TIMES; i++) {
		run(w, amounts[i]);
		for (struct pb_block *b = w->blocks; b < w->blocks + PB_BLOCKS; b++)
			b->is_explained = 0;
		if (i == 0 && w->l->l.traces)
			learn_prototype(w);
		explain_objects(w);
		if (i == 0)
			find_ways(w, ways);
		if (ways->too_many)
			pb_heap_fail(w, "arrays");
		narrow(w, ways);
	}
	choose(w, ways);
	lua_pop(w->L, 1);
}
#endif
