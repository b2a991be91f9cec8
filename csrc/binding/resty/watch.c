/* See watch.h. */
#include "binding/resty/watch.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/syscall.h>

#include "core/resty/watch.h"
#include "binding/stack/stack.h"

struct pb_watch {
	struct pf_watch w;
	struct pb_stack stack;
	struct pf_blocked taken;
};

/* System calls in which a thread may sleep. Some architectures lack some of them. */
static const struct {
	long number;
	const char *name;
} calls[] = {
#define CALL(name) {SYS_##name, #name}
	CALL(read), CALL(write), CALL(pread64), CALL(pwrite64), CALL(readv), CALL(writev), CALL(openat), CALL(close), CALL(fsync),
	CALL(fdatasync), CALL(flock), CALL(fcntl), CALL(connect), CALL(accept), CALL(accept4), CALL(recvfrom), CALL(sendto),
	CALL(recvmsg), CALL(sendmsg), CALL(ppoll), CALL(pselect6), CALL(epoll_pwait), CALL(nanosleep), CALL(clock_nanosleep),
	CALL(wait4), CALL(waitid), CALL(clone), CALL(execve), CALL(futex), CALL(madvise), CALL(mmap), CALL(munmap),
#ifdef SYS_poll
	CALL(poll), CALL(select), CALL(epoll_wait), CALL(open), CALL(vfork), CALL(stat), CALL(lstat), CALL(unlink), CALL(rename),
#endif
#ifdef SYS_statx
	CALL(statx),
#endif
#ifdef SYS_clone3
	CALL(clone3),
#endif
#undef CALL
};

static void push_call(lua_State *L, long number)
{
	if (number < 0) {
		lua_pushnil(L);
		return;
	}
	for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
		if (calls[i].number == number) {
			lua_pushstring(L, calls[i].name);
			return;
		}
	lua_pushfstring(L, "number %d", (int)number);
}

static void give_up(struct pb_watch *watch)
{
	free(watch->taken.words);
	free(watch);
}

int pb_watch_start(lua_State *L, struct pb_accounting *a, uint64_t limit)
{
	struct pb_stack stack = {0};
	struct pb_watch *watch;
	const char *why;
	int r = pb_unwind_start(L, &stack, &why); /* may raise: so it comes first */

	watch = calloc(1, sizeof *watch);
	if (!watch)
		return pb_fail(L, -ENOMEM, "watch");
	watch->stack = stack;
	watch->w.unwind = r == 0 ? pb_unwind : NULL;
	watch->w.owner = &watch->stack;
	watch->w.limit = limit;
	watch->w.words = pf_accounting_watch(a->accounting, NULL);
	watch->taken.words = calloc(watch->w.words, sizeof *watch->taken.words);
	r = watch->taken.words ? pf_watch_start(&watch->w) : -ENOMEM;
	if (r < 0) {
		pf_watch_stop(&watch->w);
		give_up(watch);
		return pb_fail(L, r, "watch");
	}
	a->watch = watch;
	pf_accounting_watch(a->accounting, &watch->w);
	lua_pushboolean(L, 1);
	return 1;
}

int pb_watch_take(lua_State *L, struct pb_watch *watch)
{
	static const char *const kinds[] = {NULL, "lua", "c", "builtin"};
	const struct pf_blocked *b = &watch->taken;

	if (!pf_watch_take(&watch->w, &watch->taken))
		return 0;
	lua_createtable(L, 0, 5);
	lua_pushinteger(L, (lua_Integer)b->route);
	lua_setfield(L, -2, "route");
	lua_pushinteger(L, (lua_Integer)b->phase);
	lua_setfield(L, -2, "phase");
	lua_pushnumber(L, (lua_Number)b->seen_ns);
	lua_setfield(L, -2, "seen_ns");
	push_call(L, b->call);
	lua_setfield(L, -2, "call");
	lua_createtable(L, (int)b->n, 0);
	for (unsigned i = 0; i < b->n; i++) {
		const struct pf_watch_place *p = &b->place[i];

		lua_createtable(L, 0, 4);
		pb_set_text(L, "kind", kinds[p->kind]);
		pb_set_text(L, "source", p->name);
		lua_pushinteger(L, (lua_Integer)p->line);
		lua_setfield(L, -2, "line");
		lua_pushinteger(L, p->linedefined);
		lua_setfield(L, -2, "linedefined");
		lua_rawseti(L, -2, (int)i + 1);
	}
	lua_setfield(L, -2, "stack");
	if (b->ended)
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
