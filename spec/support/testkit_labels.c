/*
 * The label of the open turn of resty.perf, as a profiler in another process finds it.
 */
#include "testkit.h"

#include <string.h>

#include "core/base/thread.h"
#include "core/resty/accounting.h"
#include "core/stack/label.h"

static struct pf_accounting *open_labelled(lua_State *L, struct pf_meter *meter, const char *label)
{
    struct pf_accounting *a;

    if (pf_accounting_open(&a, meter, 1, 2, 0) < 0 || pf_accounting_route(a) != 0)
        luaL_error(L, "cannot open an accounting");
    pf_accounting_label(a, 0, label, strlen(label));
    pf_accounting_admit(a, a, NULL, 0, 0, 0);
    pf_accounting_enter(a, a, 1);
    return a;
}

/* Pushes the label that is shown, or nil. */
static void push_shown(lua_State *L)
{
    const struct pf_label_place *p = &pf_label_place;
    const struct pf_label *label = NULL;
    uint32_t index = p->index ? *(const uint32_t *)(uintptr_t)p->index : p->none;

    if (index != p->none) {
        const char *item = *(char **)(uintptr_t)p->items + (size_t)index * p->size;

        label = (*(const struct pf_label ***)(uintptr_t)p->names)[*(const uint32_t *)(const void *)(item + p->number)];
    }
    if (label)
        lua_pushlstring(L, label->text, label->size);
    else
        lua_pushnil(L);
}

/*
 * labels_of_two(): the labels that are shown while a turn of each of two accountings is open: before the older one grows, after it
 * has more requests, after it has more labels, and after it is closed
 */
static int kit_labels_of_two(lua_State *L)
{
    struct pf_meter meter = { .nvalues = PF_USAGE_COUNT, .generation = pf_fork_generation() };
    struct pf_accounting *older = open_labelled(L, &meter, "older"), *newer = open_labelled(L, &meter, "newer");

    push_shown(L);
    for (uintptr_t request = 1; request < 100; request++)
        pf_accounting_admit(older, (const void *)request, NULL, 0, 0, 0);
    push_shown(L);
    for (uint32_t i = 1; i < 100; i++)
        pf_accounting_label(older, (uint32_t)pf_accounting_route(older), "more", 4);
    push_shown(L);
    pf_accounting_close(older);
    push_shown(L);
    pf_accounting_close(newer);
    return 4;
}

static const luaL_Reg functions[] = { { "labels_of_two", kit_labels_of_two }, { NULL, NULL } };

void tk_open_labels(lua_State *L)
{
    tk_register(L, functions);
}
