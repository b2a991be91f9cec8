/*
 * Reads and writes this process's own memory, and replaces rings by ordinary memory, so that they can contain bytes that the
 * kernel would not write. See testkit.h.
 */
#include "testkit.h"

#include <errno.h>
#include <linux/bpf.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* rings(): an array of {addr=, size=} of the mapped rings, in the order of their addresses */
static int kit_rings(lua_State *L)
{
    FILE *f = fopen("/proc/self/maps", "re");
    char line[512];
    int n = 0;

    if (f == NULL)
        return luaL_error(L, "/proc/self/maps cannot be read");
    lua_newtable(L);
    while (fgets(line, sizeof line, f) != NULL) {
        unsigned long long from, to;

        if (strstr(line, "[perf_event]") == NULL || sscanf(line, "%llx-%llx", &from, &to) != 2)
            continue;
        lua_createtable(L, 0, 2);
        tk_push_u64(L, from);
        lua_setfield(L, -2, "addr");
        tk_push_u64(L, to - from);
        lua_setfield(L, -2, "size");
        lua_rawseti(L, -2, ++n);
    }
    fclose(f);
    return 1;
}

static char *address(lua_State *L, int arg)
{
    return (char *)(uintptr_t)(uint64_t)luaL_checknumber(L, arg);
}

/* peek(addr, n): n bytes of memory */
static int kit_peek(lua_State *L)
{
    lua_pushlstring(L, address(L, 1), tk_check_count(L, 2));
    return 1;
}

/* poke(addr, bytes): writes bytes to memory */
static int kit_poke(lua_State *L)
{
    size_t n;
    const char *bytes = luaL_checklstring(L, 2, &n);

    memcpy(address(L, 1), bytes, n);
    return 0;
}

/* poke_map(fd, value): sets the first value of a BPF map, also in a child of the process that loaded the map */
static int kit_poke_map(lua_State *L)
{
    const uint32_t first = 0;
    union bpf_attr attr;

    memset(&attr, 0, sizeof attr);
    attr.map_fd = (uint32_t)luaL_checkinteger(L, 1);
    attr.key = (uintptr_t)&first;
    attr.value = (uintptr_t)luaL_checkstring(L, 2);
    if (syscall(SYS_bpf, BPF_MAP_UPDATE_ELEM, &attr, sizeof attr) != 0)
        return tk_refused(L, "bpf", errno);
    lua_pushboolean(L, 1);
    return 1;
}

/* take(addr, size): replaces a mapping by private zero bytes */
static int kit_take(lua_State *L)
{
    if (mmap(address(L, 1), tk_check_count(L, 2), PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
        return tk_refused(L, "mmap", errno);
    lua_pushboolean(L, 1);
    return 1;
}

static const luaL_Reg functions[] = {
    { "rings", kit_rings }, { "peek", kit_peek }, { "poke", kit_poke }, { "poke_map", kit_poke_map },
    { "take", kit_take },
    { NULL, NULL },
};

void tk_open_memory(lua_State *L)
{
    tk_register(L, functions);
}
