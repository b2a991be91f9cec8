/* perf_event_attr as a table. */
#ifndef PB_ATTR_H
#define PB_ATTR_H

#include "core/kernel/attr.h"
#include "binding/base/binding.h"

void pb_check_attr(lua_State *L, int i, struct pf_attr *out); /* raises on unknown fields; the table keeps the strings alive */
void pb_push_attr(lua_State *L, const struct pf_attr *a);

#endif
