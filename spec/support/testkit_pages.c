/*
 * Simulated counter pages, read as csrc/core/counts/user_read.c reads the kernel's, with Lua functions for the CPU's
 * instructions.
 *
 *   local p = kit.pages(n)                 n pages of zeros
 *   p:set(i, field, v)                     sets a field of the i-th
 *   p:read(counters, counter, clock)       {n, enabled, running, value, id, value, id ...}, or nil if only the kernel can tell;
 *                                          counter(number) and clock() may change the pages; ids are 101, 102 ...
 */
#include <string.h>

#include "core/counts/user_page.h"
#include "testkit.h"

#define PAGES "testkit.Pages"

struct pages {
    unsigned n;
    struct pf_user_page page[PF_USER_MOST];
};

/* Negative numbers are two's complement. */
static uint64_t to_u64(lua_State *L, int i)
{
    lua_Number v = luaL_checknumber(L, i);

    return v < 0 ? (uint64_t)(int64_t)v : (uint64_t)v;
}

static struct pages *check(lua_State *L)
{
    return luaL_checkudata(L, 1, PAGES);
}

static int l_pages(lua_State *L)
{
    size_t n = tk_check_count(L, 1);
    struct pages *p;

    luaL_argcheck(L, n >= 1 && n <= PF_USER_MOST, 1, "1 to 32");
    p = lua_newuserdata(L, sizeof *p);
    memset(p, 0, sizeof *p);
    p->n = (unsigned)n;
    luaL_getmetatable(L, PAGES);
    lua_setmetatable(L, -2);
    return 1;
}

static int l_set(lua_State *L)
{
    struct pages *p = check(L);
    size_t i = tk_check_count(L, 2);
    const char *field = luaL_checkstring(L, 3);
    uint64_t v = to_u64(L, 4);
    struct pf_user_page *page;

    luaL_argcheck(L, i >= 1 && i <= p->n, 2, "no such page");
    page = &p->page[i - 1];
#define FIELD(name, type)               \
    if (strcmp(field, #name) == 0) {    \
        page->name = (type)v;           \
        return 0;                       \
    }
    FIELD(lock, uint32_t)
    FIELD(index, uint32_t)
    FIELD(offset, int64_t)
    FIELD(time_enabled, uint64_t)
    FIELD(time_running, uint64_t)
    FIELD(capabilities, uint64_t)
    FIELD(pmc_width, uint16_t)
    FIELD(time_shift, uint16_t)
    FIELD(time_mult, uint32_t)
    FIELD(time_offset, uint64_t)
    FIELD(time_cycles, uint64_t)
    FIELD(time_mask, uint64_t)
#undef FIELD
    return luaL_argerror(L, 3, "no such field");
}

static lua_State *state; /* the state of the functions to call, during p:read */

static uint64_t called(int nargs)
{
    uint64_t v;

    lua_call(state, nargs, 1);
    v = to_u64(state, -1);
    lua_pop(state, 1);
    return v;
}

static uint64_t counter(uint32_t number)
{
    lua_pushvalue(state, 3);
    lua_pushinteger(state, (lua_Integer)number);
    return called(1);
}

static uint64_t clock_now(void)
{
    lua_pushvalue(state, 4);
    return called(0);
}

static int l_read(lua_State *L)
{
    struct pages *p = check(L);
    struct pf_counters by = {(uint32_t)tk_check_count(L, 2), counter, clock_now};
    struct pf_user user[PF_USER_MOST], *users[PF_USER_MOST];
    uint64_t words[3 + 2 * PF_USER_MOST];
    int r;

    lua_settop(L, 4);
    memset(user, 0, sizeof user);
    for (unsigned i = 0; i < p->n; i++) {
        user[i].page = &p->page[i];
        user[i].id = 101 + i;
        users[i] = &user[i];
    }
    state = L;
    r = pf_user_read_by(users, p->n, &by, words);
    if (r < 0)
        return 0;
    lua_createtable(L, (int)(3 + 2 * p->n), 0);
    for (unsigned i = 0; i < 3 + 2 * p->n; i++) {
        lua_pushnumber(L, (lua_Number)(int64_t)words[i]);
        lua_rawseti(L, -2, (int)i + 1);
    }
    return 1;
}

void tk_open_pages(lua_State *L)
{
    static const luaL_Reg methods[] = {{"set", l_set}, {"read", l_read}, {NULL, NULL}};
    static const luaL_Reg functions[] = {{"pages", l_pages}, {NULL, NULL}};

    if (luaL_newmetatable(L, PAGES)) {
        tk_register(L, methods);
        lua_pushvalue(L, -1);
        lua_setfield(L, -2, "__index");
    }
    lua_pop(L, 1);
    tk_register(L, functions);
}
