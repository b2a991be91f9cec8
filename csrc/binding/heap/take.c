/* See heap.h: the reader of this interpreter, and the names of local variables, which the interpreter's own interface has. */
#include "binding/heap/heap.h"

#if PB_HEAP_IS_KNOWN
#include <stdatomic.h>
#include <stdio.h>

#include "core/base/peek.h"
#include "core/base/thread.h"
#include "core/stack/own_thread.h"

/* --- the layout ------------------------------------------------------------------------------------------------------ */

/* All states of the process share it. `known` is 1 while a thread writes it, and 2 from then on. */
static struct {
	struct pb_heap_layout layout;
	atomic_int known;
} learned;

static int find_layout(struct pb_heap_layout *l, const char **why)
{
	const uint32_t generation = pf_fork_generation();
	int none = 0, r;

	if (atomic_load(&learned.known) == 2) {
		*l = learned.layout;
		return 0;
	}
	pf_peek_take();
	r = pb_heap_learn(pf_own_memory(NULL), l, why);
	pf_peek_give(generation);
	if (r == 0 && atomic_compare_exchange_strong(&learned.known, &none, 1)) {
		learned.layout = *l;
		atomic_store(&learned.known, 2);
	}
	return r;
}

/* The address of package.loaded. */
static uint64_t loaded(lua_State *L)
{
	uint64_t at;

	lua_getfield(L, LUA_REGISTRYINDEX, "_LOADED");
	at = pb_address(lua_topointer(L, -1));
	lua_pop(L, 1);
	return at;
}

/* --- local variables ------------------------------------------------------------------------------------------------- */

static int is_slot(const struct pf_heap *h, uint32_t edge)
{
	const struct pf_heap_edge *e = pf_heap_edges(h) + edge;

	return pf_heap_label(e) == PF_HEAP_BY_SLOT && pf_heap_vias(h)[e->to] == edge + 1;
}

/* The value on top of T, which is removed: its object's number. */
static uint32_t pop_object(lua_State *T, const struct pf_heap *h)
{
	const uint32_t i = pb_heap_object(T, -1, h);

	lua_pop(T, 1);
	return i;
}

/* The local variable `name` of the function at a level refers to an object: if a path leads through the thread's stack to it, the edge
 * gets a text: the name, the chunk's name and the line, each with a zero byte. */
static void name_local(struct pf_heap *h, uint32_t thread, uint32_t to, const char *name, const lua_Debug *ar)
{
	char text[PF_HEAP_TEXT_MOST];
	const int n = snprintf(text, sizeof text, "%.200s%c%.600s%c%d", name, 0, ar->source, 0, ar->currentline);
	const uint32_t at = pf_heap_vias(h)[to];
	uint32_t offset;

	if (!at || at - 1 < pf_heap_firsts(h)[thread] || at - 1 >= pf_heap_firsts(h)[thread + 1] || !is_slot(h, at - 1))
		return;
	offset = pf_heap_text(h, text, (size_t)n + 1);
	if (offset && offset <= PF_HEAP_MOST)
		pf_heap_edges(h)[at - 1].label = (uint32_t)PF_HEAP_BY_LOCAL << PF_HEAP_NUMBER | offset;
}

static void name_locals(struct pf_heap *h, uint32_t thread)
{
	enum { LEVELS = 250, LOCALS = 250 };
	lua_State *T = (lua_State *)(uintptr_t)pf_heap_address(h, thread);
	const char *name;
	lua_Debug ar;

	for (int level = 0; level < LEVELS && lua_getstack(T, level, &ar); level++) {
		lua_getinfo(T, "Sl", &ar);
		for (int i = 1; i <= LOCALS && (name = lua_getlocal(T, &ar, i)); i++)
			name_local(h, thread, pop_object(T, h), name, &ar);
	}
}

static void name_all_locals(struct pf_heap *h)
{
	const uint32_t *first = pf_heap_firsts(h);

	for (uint32_t i = 1; i <= h->n; i++) {
		if (pf_heap_types(h)[i] != PF_HEAP_THREAD || !pf_heap_vias(h)[i])
			continue;
		for (uint32_t e = first[i]; e < first[i + 1]; e++)
			if (is_slot(h, e)) {
				name_locals(h, i);
				break;
			}
	}
}

/* --- all of it ------------------------------------------------------------------------------------------------------- */

struct task {
	struct pb_heap_layout l;
	struct pb_heap_reader r;
};

/* Runs in the child of a fork, or in the program. */
static int take(void *data, struct pf_heap *h)
{
	struct task *t = data;
	int r = pf_heap_take(h, &t->r.r);

	if (r == 0)
		r = pf_heap_analyze(h, &t->r.r);
	t->r.r.done(&t->r.r);
	if (r == 0)
		name_all_locals(h);
	return r == 0 ? h->failed : r;
}

int pb_heap_find_layout(int *known, const char **why)
{
	struct pb_heap_layout l;

	*known = atomic_load(&learned.known) == 2;
	return find_layout(&l, why);
}

int pb_heap_take(lua_State *L, struct pf_heap *h, struct pf_heap_child *child, const char **why)
{
	struct task t;
	int r = find_layout(&t.l, why);

	if (r < 0)
		return r;
	*why = NULL;
	pb_heap_reader(&t.r, &t.l, pb_heap_global(L, &t.l));
	t.r.r.globals = pb_heap_globals(L);
	t.r.r.running = pb_address(L);
	t.r.r.loaded = loaded(L);
	return child ? pf_heap_fork(child, take, &t) : take(&t, h);
}
#else
#include <errno.h>

int pb_heap_find_layout(int *known, const char **why)
{
	*known = 0;
	*why = "those of 64-bit interpreters are known";
	return -ENOTSUP;
}

int pb_heap_take(lua_State *L, struct pf_heap *h, struct pf_heap_child *child, const char **why)
{
	(void)L;
	(void)h;
	(void)child;
	*why = "those of 64-bit interpreters are known";
	return -ENOTSUP;
}
#endif
