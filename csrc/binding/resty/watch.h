/* The watcher of an Accounting's turns: core/resty/watch.h with the unwinder of this interpreter. */
#ifndef PB_WATCH_H
#define PB_WATCH_H

#include "core/resty/accounting.h"
#include "core/resty/watch.h"
#include "binding/base/binding.h"

struct pb_accounting {
	struct pf_accounting *accounting;
	struct pb_watch *watch; /* NULL: none */
};

/* Watch the calling thread: true; or nil, message, code. Without the layout of the interpreter there are no stacks. tells: turns
 * that go on and on are written to standard error. */
int pb_watch_start(lua_State *L, struct pb_accounting *a, uint64_t limit, int tells);
/* Name a route or a phase, for these lines: true; or nil, message, code. */
int pb_watch_name(lua_State *L, struct pb_watch *watch, enum pf_watch_kind kind, uint32_t number, const char *text);
/* The next turn that has ended: {route=, phase=, wall_ns=, seen_ns=, uri=, call=, stack={{kind=, source=, line=, linedefined=}, ...}},
 * without a route if it is not counted; and a pointer to its counts, or nil, which is valid until the next call; nothing if there is
 * none. */
int pb_watch_take(lua_State *L, struct pb_watch *watch);
void pb_watch_stop(struct pb_accounting *a); /* idempotent */

#endif
