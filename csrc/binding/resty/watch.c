/* See watch.h. */
#include "binding/resty/watch.h"

#include <errno.h>
#include <stdlib.h>

#include "core/resty/watch.h"
#include "binding/stack/stack.h"

struct pb_watch {
	struct pf_watch w;
	struct pb_stack stack;
	struct pf_blocked taken;
};

static void push_call(lua_State *L, long number)
{
	const char *name = number < 0 ? NULL : pf_watch_call(number);

	if (number < 0)
		lua_pushnil(L);
	else if (name)
		lua_pushstring(L, name);
	else
		lua_pushfstring(L, "number %d", (int)number);
}

static void give_up(struct pb_watch *watch)
{
	free(watch->taken.words);
	free(watch);
}

int pb_watch_start(lua_State *L, struct pb_accounting *a, uint64_t limit, int tells)
{
	struct pb_stack stack = {0};
	struct pb_watch *watch;
	const char *why;
	int r = pb_unwind_start(L, &stack, &why); /* may raise: so it comes first */

	watch = calloc(1, sizeof *watch);
	if (!watch)
		return pb_fail(L, -ENOMEM, "watcher of blocked turns");
	watch->stack = stack;
	watch->w.unwind = r == 0 ? pb_unwind : NULL;
	watch->w.owner = &watch->stack;
	watch->w.limit = limit;
	watch->w.tells = tells;
	pf_accounting_watch(a->accounting, &watch->w);
	watch->taken.words = calloc(watch->w.words, sizeof *watch->taken.words);
	r = watch->taken.words ? pf_watch_start(&watch->w) : -ENOMEM;
	if (r < 0) {
		pf_accounting_watch(a->accounting, NULL);
		pf_watch_stop(&watch->w);
		give_up(watch);
		return pb_fail(L, r, "watcher of blocked turns");
	}
	a->watch = watch;
	return pb_bool(L, 1);
}

int pb_watch_name(lua_State *L, struct pb_watch *watch, enum pf_watch_kind kind, uint32_t number, const char *text)
{
	int r = pf_watch_name(&watch->w, kind, number, text);

	if (r < 0)
		return pb_fail(L, r, "watcher of blocked turns");
	return pb_bool(L, 1);
}

int pb_watch_take(lua_State *L, struct pb_watch *watch)
{
	static const char *const kinds[] = {NULL, "lua", "c", "builtin"};
	const struct pf_blocked *b = &watch->taken;

	if (!pf_watch_take(&watch->w, &watch->taken))
		return 0;
	lua_createtable(L, 0, 7);
	if (b->route != PF_WATCH_UNCOUNTED)
		pb_set_int(L, "route", (lua_Integer)b->route);
	pb_set_int(L, "phase", (lua_Integer)b->phase);
	if (b->ended)
		pb_set_number(L, "wall_ns", (lua_Number)b->words[0]);
	pb_set_number(L, "seen_ns", (lua_Number)b->seen_ns);
	pb_set_bytes(L, "uri", b->uri, b->uri_size);
	push_call(L, b->call);
	lua_setfield(L, -2, "call");
	lua_createtable(L, (int)b->n, 0);
	for (unsigned i = 0; i < b->n; i++) {
		const struct pf_watch_place *p = &b->place[i];

		lua_createtable(L, 0, 4);
		pb_set_text(L, "kind", kinds[p->kind]);
		pb_set_text(L, "source", p->name);
		pb_set_int(L, "line", (lua_Integer)p->line);
		pb_set_int(L, "linedefined", p->linedefined);
		lua_rawseti(L, -2, (int)i + 1);
	}
	lua_setfield(L, -2, "stack");
	if (b->ended && b->route != PF_WATCH_UNCOUNTED)
		lua_pushlightuserdata(L, b->words);
	else
		lua_pushnil(L);
	return 2;
}

void pb_watch_stop(struct pb_accounting *a)
{
	if (!a->watch)
		return;
	if (a->accounting)
		pf_accounting_watch(a->accounting, NULL);
	pf_watch_stop(&a->watch->w);
	give_up(a->watch);
	a->watch = NULL;
}
