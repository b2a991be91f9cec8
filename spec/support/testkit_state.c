/*
 * A second Lua state in this process, on this thread or another. See testkit.h.
 */
#include "testkit.h"

#include <lualib.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

struct run {
    const char *path, *cpath, *code;
    char result[256];
    int ok;
};

static void *run_state(void *arg)
{
    struct run *r = arg;
    lua_State *L = luaL_newstate();
    const char *text;

    luaL_openlibs(L);
    lua_getglobal(L, "package");
    lua_pushstring(L, r->path);
    lua_setfield(L, -2, "path");
    lua_pushstring(L, r->cpath);
    lua_setfield(L, -2, "cpath");
    lua_pop(L, 1);
    r->ok = luaL_loadstring(L, r->code) == 0 && lua_pcall(L, 0, 1, 0) == 0;
    text = lua_tostring(L, -1);
    snprintf(r->result, sizeof r->result, "%s", text ? text : "nil");
    lua_close(L);
    return NULL;
}

/*
 * state(code [, threaded]): runs code in a new Lua state that finds the same modules, on a thread of its own when
 * threaded. Returns whether it went well, and its result or error as a string.
 */
static int kit_state(lua_State *L)
{
    struct run r = { NULL, NULL, luaL_checkstring(L, 1), "", 0 };
    pthread_t thread;

    lua_getglobal(L, "package");
    lua_getfield(L, -1, "path");
    lua_getfield(L, -2, "cpath");
    r.path = lua_tostring(L, -2);
    r.cpath = lua_tostring(L, -1);
    if (!lua_toboolean(L, 2)) {
        run_state(&r);
    } else {
        int err = pthread_create(&thread, NULL, run_state, &r);

        if (err)
            return tk_refused(L, "pthread_create", err);
        pthread_join(thread, NULL);
    }
    lua_pushboolean(L, r.ok);
    lua_pushstring(L, r.result);
    return 2;
}

void tk_open_state(lua_State *L)
{
    static const luaL_Reg functions[] = { { "state", kit_state }, { NULL, NULL } };

    tk_register(L, functions);
}
