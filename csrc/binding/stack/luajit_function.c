/* LuaJIT: the C function that ran when the signal came. At the safe point its frame is gone, so the signal handler finds it. For
 * that we determine, from a function while it runs, where a thread keeps its frame, and where a C function keeps the address of
 * its code. */
#include "binding/stack/stack.h"

#if PB_LUAJIT
#include "core/base/peek.h"
#include "core/stack/unwind_luajit_internal.h"

enum { THREAD_WORDS = 12, FUNCTION_WORDS = 6 };

static struct {
	int base, code; /* indexes of words in a thread and in a C function; code == 0: unknown */
	int kind;       /* index of the byte in a function's first two words that is 0 if it is a Lua function */
} vm;

/* The index of the last byte that is 1 in the C function and 0 in its caller, a Lua function; 0 if there is none. The first word,
 * the link of the collector's list, is left out. */
static int kind_byte(lua_State *L, const void *c_function)
{
	const unsigned char *c = c_function, *caller;
	lua_Debug ar;
	int k;

	if (!lua_getstack(L, 1, &ar) || !lua_getinfo(L, "f", &ar))
		return 0;
	caller = lua_topointer(L, -1);
	for (k = sizeof(void *) + 3; k >= (int)sizeof(void *) && !(c[k] == 1 && caller[k] == 0); k--)
		;
	return k >= (int)sizeof(void *) ? k : 0;
}

/* Called in a C function. The thread refers to the base of its frame, which is two slots above the function itself. */
void pb_function_learn(lua_State *L)
{
	const uintptr_t *thread = (const uintptr_t *)(const void *)L, *fn;
	uintptr_t slots[2];
	lua_Debug ar;
	int found = 0;

	vm.base = vm.code = 0;
	lua_settop(L, 3); /* so that the frame's end differs from its base */
	if (!lua_getstack(L, 0, &ar) || !lua_getinfo(L, "f", &ar))
		return;
	fn = lua_topointer(L, -1);
	for (int i = 1; i < THREAD_WORDS; i++)
		if (thread[i] % sizeof *fn == 0 && thread[i] > sizeof slots &&
		    pf_peek_call(slots, thread[i] - sizeof slots, sizeof slots) == 0 && pf_luajit_address(slots[0]) == (uintptr_t)fn) {
			vm.base = i;
			found++;
		}
	for (int i = 1; found == 1 && i < FUNCTION_WORDS; i++)
		if (fn[i] == pb_function_address(L, -1))
			vm.code = i;
	vm.kind = kind_byte(L, fn);
	if (!vm.kind)
		vm.code = 0;
	lua_settop(L, 0);
}

/* The code of the running C function; 0 if unknown. The thread's frame can be wrong at two moments: while the stack is moved, it
 * is in the old one; and when compiled code returns to a C function, vmstate already says C while the frame is still that of the
 * Lua function that returns. */
uint64_t pb_function_running(const uintptr_t *L)
{
	uintptr_t slot, words[FUNCTION_WORDS];

	if (!vm.code || !L || pf_peek_call(&slot, L[vm.base] - 2 * sizeof slot, sizeof slot) < 0 ||
	    pf_peek_call(words, pf_luajit_address(slot), (size_t)(vm.code + 1) * sizeof *words) < 0)
		return 0;
	return ((const unsigned char *)words)[vm.kind] ? words[vm.code] : 0;
}

#endif
