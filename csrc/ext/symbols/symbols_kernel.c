/* The kernel's symbols, from /proc/kallsyms:
 *
 *     ffffffff81000000 T _stext
 *     ffffffffc0a01000 t ext4_readdir	[ext4]
 *
 * The kernel generates this file, of about 10 MB, at each reading; we keep a sorted array of addresses and one block of names. All
 * addresses are zero for users who may not see them (kernel.kptr_restrict). */
#include "ext/symbols/symbols.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KERNEL "perf.symbols.Kernel"
#define FARTHEST (1u << 20) /* an address more than this after a symbol does not belong to it */

struct symbol {
	uint64_t addr;
	uint32_t name; /* offset in text; a zero byte ends it, then follows the module, if any */
	uint32_t rank; /* of several symbols at one address, the one of highest rank is shown */
};

struct kernel {
	char *text;
	struct symbol *list;
	size_t n;
};

static struct kernel *check_kernel(lua_State *L, int i)
{
	struct kernel *k = pb_check(L, i, KERNEL, "Kernel");

	luaL_argcheck(L, k->text != NULL, i, "Kernel is closed");
	return k;
}

static int l_close(lua_State *L)
{
	struct kernel *k = pb_check(L, 1, KERNEL, "Kernel");

	free(k->text);
	free(k->list);
	memset(k, 0, sizeof *k);
	return 0;
}

/* The rank of a symbol: functions before data, global before local, markers last. */
static uint32_t rank_of(char type, const char *name)
{
	uint32_t rank = 0;

	if (type == 'T' || type == 'W' || type == 'V')
		rank = 3;
	else if (type == 't' || type == 'w' || type == 'v')
		rank = 2;
	else if (type >= 'A' && type <= 'Z')
		rank = 1;
	return strncmp(name, "__pfx_", 6) == 0 || strncmp(name, "_s", 2) == 0 || strncmp(name, "_e", 2) == 0 ? rank : rank + 4;
}

/* Parse the line from p to end; writes a zero byte at the end. Returns 1 if the symbol was taken. */
static int take_line(struct kernel *k, char *p, char *end)
{
	struct symbol *s = &k->list[k->n];
	char *after, *tab, type;

	*end = '\0';
	s->addr = strtoull(p, &after, 16);
	if (after == p || after[0] != ' ' || !after[1] || after[2] != ' ' || !after[3])
		return 0;
	type = after[1];
	if (type == 'A' || type == 'a' || type == 'U') /* not addresses */
		return 0;
	p = after + 3;
	tab = strchr(p, '\t');
	if (tab)
		*tab = '\0';
	s->name = (uint32_t)(p - k->text);
	s->rank = rank_of(type, p);
	k->n++;
	return 1;
}

static int compare(const void *a, const void *b)
{
	const struct symbol *x = a, *y = b;

	if (x->addr != y->addr)
		return x->addr < y->addr ? -1 : 1;
	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	return x->name > y->name ? -1 : x->name < y->name;
}

static int load(struct kernel *k, int fd)
{
	size_t size, lines = 0;
	int r = px_read_all(fd, &k->text, &size), visible = 0;
	char *last;

	if (r < 0) {
		k->text = NULL;
		return r;
	}
	last = k->text + size;
	for (char *p = k->text; (p = memchr(p, '\n', (size_t)(last - p))); p++)
		lines++;
	k->list = malloc((lines + 1) * sizeof *k->list);
	if (!k->list)
		return -ENOMEM;
	for (char *p = k->text, *end; (end = memchr(p, '\n', (size_t)(last - p))); p = end + 1)
		if (take_line(k, p, end))
			visible |= k->list[k->n - 1].addr != 0;
	if (!k->n)
		return -EBADMSG;
	if (!visible)
		return -EPERM;
	qsort(k->list, k->n, sizeof *k->list, compare);
	return 0;
}

/* ext.kernel(path): Kernel; or nil, message, code: EPERM if the addresses are hidden, EBADMSG if the file has another format */
static int l_kernel(lua_State *L)
{
	const char *path = px_check_cstring(L, 1);
	struct kernel *k = pb_new(L, sizeof *k, KERNEL);
	int fd = px_open_regular(path, 0), r;

	if (fd < 0)
		return pb_fail(L, fd, "%s", path);
	r = load(k, fd);
	close(fd);
	if (r < 0)
		return pb_fail(L, r, "%s", path);
	return 1;
}

/* kernel:find(addr): symbol, offset, module ("[ext4]" or nil); no result if there is no symbol */
static int l_find(lua_State *L)
{
	struct kernel *k = check_kernel(L, 1);
	uint64_t addr = px_check_addr(L, 2);
	size_t low = 0, high = k->n;
	const char *name;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (k->list[mid].addr <= addr)
			low = mid + 1;
		else
			high = mid;
	}
	if (low == 0 || addr - k->list[low - 1].addr > FARTHEST)
		return 0;
	name = k->text + k->list[low - 1].name;
	lua_pushstring(L, name);
	pb_push_u64(L, addr - k->list[low - 1].addr);
	/* The text after the tab. Without a tab this is the next line, which begins with a digit. */
	name += strlen(name) + 1;
	if (*name != '[')
		return 2;
	lua_pushstring(L, name);
	return 3;
}

/* kernel:address(name): its address; no result if there is no such symbol */
static int l_address(lua_State *L)
{
	struct kernel *k = check_kernel(L, 1);
	const char *name = luaL_checkstring(L, 2);
	const struct symbol *best = NULL;

	for (size_t i = 0; i < k->n; i++)
		if (strcmp(k->text + k->list[i].name, name) == 0 && (!best || k->list[i].rank > best->rank))
			best = &k->list[i];
	if (!best)
		return 0;
	return pb_i64(L, (int64_t)best->addr);
}

/* kernel:count(): the number of symbols */
static int l_count(lua_State *L)
{
	return pb_u64(L, check_kernel(L, 1)->n);
}

void px_open_kernel(lua_State *L)
{
	static const luaL_Reg methods[] = {{"find", l_find}, {"address", l_address}, {"count", l_count}, {NULL, NULL}};

	px_class(L, KERNEL, methods, l_close);
	pb_set_function(L, "kernel", l_kernel);
}
