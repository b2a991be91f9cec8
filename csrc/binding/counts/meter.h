/* Group and Meter, which event/group.c makes and counts.c reads; and readings of one event. */
#ifndef PB_METER_H
#define PB_METER_H

#include "core/counts/meter.h"
#include "binding/base/binding.h"

#define PB_GROUP "perf.Group"
#define PB_METER "perf.Meter"
#define PB_COUNTS "perf.Counts"

/* Set the fields of a read in the table on top of the stack: see ev:scan(). */
void pb_set_reading(lua_State *L, const struct pf_reading *rd);

/* meter.c: a Group, or a Meter of a list; raises the error of a failed read */
struct pf_meter *pb_check_meter(lua_State *L, int i);
int pb_meter_failed(lua_State *L, const struct pf_meter *m, int r);
#define PB_CLOSED_GROUP "Group is closed, or a member of it"
#define PB_CLOSED_LIST "the events were closed, by perf.release or close, before the measurement ended"
/* guard.c: if the Counts at `counts`, a measurement by the Meter at `meter`, are collected before pb_unguard, the meter learns
 * that the measurement will never end. */
void pb_guard(lua_State *L, int meter, int counts);
void pb_unguard(lua_State *L, int counts);

#endif
