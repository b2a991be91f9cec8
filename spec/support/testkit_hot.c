/* A C function that spends its time in three others, each at many addresses, to compare a profile's native frames with. */
#include <stdint.h>

#include "testkit.h"

#define STEP_ADD(i) x += (x >> 3) ^ (uint64_t)(i);
#define STEP_MIX(i) x ^= x << 7; x ^= x >> 9; x *= (uint64_t)(i) * 2 + 3;
#define STEP_DIVIDE(i) x = (x | 1) / ((x & 7) + 2) + UINT64_C(0xfedcba9876543210) + (uint64_t)(i);
#define TEN(s, i) s(i) s(i + 1) s(i + 2) s(i + 3) s(i + 4) s(i + 5) s(i + 6) s(i + 7) s(i + 8) s(i + 9)
/* Functions that the compiler must not specialize: gcc's noipa forbids copies for known arguments, clang makes none. */
#ifdef __clang__
#define APART __attribute__((noinline, visibility("default")))
#else
#define APART __attribute__((noinline, noipa, visibility("default")))
#endif
#define HOT(name, step) \
    uint64_t name(uint64_t x, unsigned n); \
    APART uint64_t name(uint64_t x, unsigned n) \
    { \
        while (n--) { \
            TEN(step, 0) TEN(step, 10) TEN(step, 20) TEN(step, 30) \
        } \
        return x; \
    }

HOT(hot_add, STEP_ADD)
HOT(hot_mix, STEP_MIX)
HOT(hot_divide, STEP_DIVIDE)

/* hot_spots(n): runs n rounds of some milliseconds */
static int kit_hot_spots(lua_State *L)
{
    size_t n = tk_check_count(L, 1);
    uint64_t x = 1;

    while (n--) {
        x = hot_add(x, 40000);
        x = hot_mix(x, 20000);
        x = hot_divide(x, 10000);
    }
    lua_pushboolean(L, x != 0);
    return 1;
}

#define PLACE(i) \
    for (m = n; m--;) \
        x = (x ^ x >> 7) * UINT64_C(0x9e3779b97f4a7c15) + (uint64_t)(i);
#define TWENTY(i) TEN(PLACE, i) TEN(PLACE, i + 10)

uint64_t hot_places(uint64_t x, unsigned n);
/* 200 loops, so that samples have many addresses, even on an emulated machine, which takes them only at some instructions. */
APART uint64_t hot_places(uint64_t x, unsigned n)
{
    unsigned m;

    TWENTY(0) TWENTY(20) TWENTY(40) TWENTY(60) TWENTY(80) TWENTY(100) TWENTY(120) TWENTY(140) TWENTY(160) TWENTY(180)
    return x;
}

/* hot_places(n): runs n rounds of some milliseconds */
static int kit_hot_places(lua_State *L)
{
    size_t n = tk_check_count(L, 1);
    uint64_t x = 1;

    while (n--)
        x = hot_places(x, 10000);
    lua_pushboolean(L, x != 0);
    return 1;
}

static int kit_hang(lua_State *L)
{
    return kit_hot_spots(L);
}

/* nowhere(): like hot_spots, but a function that is in no table */
static int kit_nowhere(lua_State *L)
{
    lua_pushcfunction(L, kit_hang);
    return 1;
}

static const luaL_Reg functions[] = {
    { "hot_spots", kit_hot_spots }, { "hot_places", kit_hot_places }, { "nowhere", kit_nowhere }, { NULL, NULL },
};

void tk_open_hot(lua_State *L)
{
    tk_register(L, functions);
}
