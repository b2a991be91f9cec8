/* The interpreter's table of strings. When it has too many, the next new string, wherever it is made, makes the table larger.
 *
 * In the global state it is a pointer to the table followed by two numbers of 32 bits: in LuaJIT the length less one, and how many
 * strings there are; in PUC Lua how many there are, and the length. It is found by making strings: one number counts them, and the other
 * is that of a length, a power of two. */
#include "binding/stack/stack.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

struct strings {
	void *table;
	uint32_t number[2];
};

enum { LENGTH = PB_LUAJIT ? 0 : 1, COUNT = 1 - LENGTH, MADE = 3, WORD = sizeof(void *) };
/* Bytes of the global state that are searched; no version's is smaller. */
enum { SEARCHED = 320, PLACES = (SEARCHED - (int)sizeof(struct strings)) / WORD };

static atomic_int place; /* its index in words, from 1; 0: not known yet; -1: not found */

static void look(uint64_t global, struct strings *found)
{
	for (int i = 0; i < PLACES; i++)
		memcpy(&found[i], (const char *)(uintptr_t)global + i * WORD, sizeof *found);
}

static uint32_t length(const struct strings *s)
{
	return s->number[LENGTH] + PB_LUAJIT;
}

static int is_it(const struct strings *before, const struct strings *after)
{
	const uint32_t n = length(before);

	return before->table && (uintptr_t)before->table % WORD == 0 && before->table == after->table && n >= 2 && (n & (n - 1)) == 0 &&
	       n == length(after) && after->number[COUNT] - before->number[COUNT] == MADE;
}

/* The strings are new: each has a number that none had before, and the address of a variable. */
static void make_strings(lua_State *L)
{
	static atomic_uint last;
	char text[64];

	for (int i = 0; i < MADE; i++) { /* not lua_pushfstring, which makes a string of each part */
		const int n = snprintf(text, sizeof text, "perf %u %p", atomic_fetch_add(&last, 1), (void *)&last);

		lua_pushlstring(L, text, (size_t)n);
	}
	lua_pop(L, MADE);
}

static int find(lua_State *L, uint64_t global)
{
	struct strings before[PLACES], after[PLACES];
	int found = 0, n = 0;

	look(global, before);
	make_strings(L);
	look(global, after);
	for (int i = 0; i < PLACES; i++)
		if (is_it(&before[i], &after[i])) {
			found = i + 1;
			n++;
		}
	return n == 1 ? found : 0;
}

const void *pb_strings_find(lua_State *L, uint64_t global)
{
	enum { TRIES = 3 }; /* the table may be made larger, or the collector may free strings */
	int at = atomic_load(&place);

	for (int i = 0; at == 0 && i < TRIES; i++)
		at = find(L, global);
	atomic_store(&place, at ? at : -1);
	return at > 0 ? (const char *)(uintptr_t)global + (size_t)(at - 1) * WORD : NULL;
}

/* LuaJIT and Lua 5.1 make a new table, and it is larger by the factor 2; the others make the old one larger or smaller. That two's smaller
 * tables are not recognized: LuaJIT makes them in the collector, which has a frame. */
int pb_strings_resize(const void *strings, const void *old, size_t size)
{
	const struct strings *s = strings;

	if (LUA_VERSION_NUM > 501)
		return old && old == s->table;
	return !old && size == 2 * (size_t)length(s) * WORD && s->number[COUNT] > length(s);
}
