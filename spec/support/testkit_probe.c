/*
 * Asks the kernel itself what this machine permits. If the probes used the module, a bug there would look like an unmet need, and
 * the specs that would find it would be skipped.
 */
#include "testkit.h"

#include <errno.h>
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static uint64_t field(lua_State *L, const char *name, uint64_t otherwise)
{
    uint64_t v = otherwise;

    lua_getfield(L, 1, name);
    if (!lua_isnil(L, -1))
        v = (uint64_t)luaL_checknumber(L, -1);
    lua_pop(L, 1);
    return v;
}

/*
 * can_open{type=, config=, sample_period=, bp_type=, bp_addr=, bp_len=, name=, kernel=true, pid=, cpu=}:
 * true if such an event opens (in user space only, unless kernel), else nil, message, errno; name: the function of a kprobe, or
 * the file at whose beginning a uprobe is
 */
static int kit_can_open(lua_State *L)
{
    struct perf_event_attr attr;
    long fd;

    luaL_checktype(L, 1, LUA_TTABLE);
    memset(&attr, 0, sizeof attr);
    attr.size = sizeof attr;
    attr.type = (uint32_t)field(L, "type", 0);
    attr.config = field(L, "config", 0);
    attr.sample_period = field(L, "sample_period", 0);
    attr.bp_type = (uint32_t)field(L, "bp_type", 0);
    if (attr.bp_type != 0) {
        attr.bp_addr = field(L, "bp_addr", 0);
        attr.bp_len = field(L, "bp_len", 8);
    }
    lua_getfield(L, 1, "name");
    if (lua_isstring(L, -1))
        attr.config1 = (uintptr_t)lua_tostring(L, -1);
    lua_pop(L, 1);
    attr.disabled = 1;
    lua_getfield(L, 1, "kernel");
    attr.exclude_kernel = !lua_toboolean(L, -1);
    attr.exclude_hv = 1;
    lua_getfield(L, 1, "pid");
    lua_getfield(L, 1, "cpu");
    fd = syscall(SYS_perf_event_open, &attr, (int)luaL_optinteger(L, -2, 0),
                 (int)luaL_optinteger(L, -1, -1), -1, PERF_FLAG_FD_CLOEXEC);
    if (fd < 0)
        return tk_refused(L, "perf_event_open", errno);
    close((int)fd);
    lua_pushboolean(L, 1);
    return 1;
}

/* can_bpf(): true if a BPF program for events loads */
static int kit_can_bpf(lua_State *L)
{
    /* r0 = 0; exit */
    struct bpf_insn code[] = {
        { .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0 },
        { .code = BPF_JMP | BPF_EXIT },
    };
    union bpf_attr attr;
    long fd;

    memset(&attr, 0, sizeof attr);
    attr.prog_type = BPF_PROG_TYPE_PERF_EVENT;
    attr.insns = (uintptr_t)code;
    attr.insn_cnt = sizeof code / sizeof code[0];
    attr.license = (uintptr_t) "GPL";
    fd = syscall(SYS_bpf, BPF_PROG_LOAD, &attr, sizeof attr);
    if (fd < 0)
        return tk_refused(L, "bpf", errno);
    close((int)fd);
    lua_pushboolean(L, 1);
    return 1;
}

/* setenv(name [, value]): for child processes; nil removes it */
static int kit_setenv(lua_State *L)
{
    const char *name = luaL_checkstring(L, 1);

    if (lua_isnoneornil(L, 2))
        unsetenv(name);
    else
        setenv(name, luaL_checkstring(L, 2), 1);
    return 0;
}

static const luaL_Reg functions[] = {
    { "can_open", kit_can_open },
    { "can_bpf", kit_can_bpf },
    { "setenv", kit_setenv },
    { NULL, NULL },
};

void tk_open_probe(lua_State *L)
{
    tk_register(L, functions);
}
