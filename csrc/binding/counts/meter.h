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
/* guard.c: what the Meter at `meter` needs when pf_meter_begin has returned more than 0. c: the Counts, which are on top of the stack;
 * NULL: they are no userdata, and the caller calls pf_meter_begin_memory. If the Counts are collected before pb_unguard, a meter that rests
 * learns that the measurement will never end. */
void pb_begun(lua_State *L, int meter, struct pf_counts *c);
void pb_unguard(lua_State *L, int counts);

#endif
