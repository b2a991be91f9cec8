/* What the files of the binding share. Each userdata has a file, and each file one pb_open_* that luaopen_perf_core
 * calls with the module's table on top of the stack. */
#ifndef PB_BINDING_H
#define PB_BINDING_H

#include <stdint.h>

#include "core/kernel/attr.h"
#include "core/event/event.h"
#include "core/event/ring.h"
#include "core/kernel/uapi.h"
#include "binding/base/class.h"

#define PB_EVENT "perf.Event"
#define PB_GROUP "perf.Group"
#define PB_METER "perf.Meter"
#define PB_COUNTS "perf.Counts"
#define PB_DESCRIPTORS "perf.Descriptors"
#define PB_RECORD "perf.Record"
#define PB_LAYOUTS "perf.Layouts"

/* error.c: nil, "what: reason", "ECODE" from a negative errno. Returns 3. */
int pb_fail(lua_State *L, int err, const char *what, ...) __attribute__((format(printf, 3, 4)));
/* The errno's symbol, "E<number>" for one that errno.def lacks. */
void pb_push_errno(lua_State *L, int err);
/* The same for a failed read of a group. */
int pb_fail_read(lua_State *L, int err);
/* The message for the use of an inherited object in the child of a fork; takes the name of its class. */
#define PB_INHERITED "%s belongs to the parent process: it was opened before a fork; open another one here"
/* Raises that message for argument i. */
void pb_refuse_inherited(lua_State *L, int i, const char *what);
/* true, or pb_fail. */
int pb_result(lua_State *L, int r, const char *what);
void pb_open_error(lua_State *L);

/* int64.c: 64-bit values by the rule of the API: exact or not a number. */
void pb_push_u64(lua_State *L, uint64_t v);
void pb_push_i64(lua_State *L, int64_t v); /* also addresses: sign-extended */
/* The value at i: an integer, a 64-bit cdata or a "0x" string. Negative numbers are two's complement and set *negative.
 * Returns 0 when it is none of these. */
int pb_to_u64(lua_State *L, int i, uint64_t *out, int *negative);
/* The same for argument i; raises. max bounds it; negative is refused. */
uint64_t pb_check_u64(lua_State *L, int i, uint64_t max);
void pb_open_int64(lua_State *L);

/* A string that can be a path. One with a zero byte is refused, since the kernel would ignore the rest. */
const char *pb_check_path(lua_State *L, int i);

/* attr.c */
void pb_check_attr(lua_State *L, int i, struct pf_attr *out); /* raises on unknown fields; strings stay pinned by the table */
void pb_push_attr(lua_State *L, const struct pf_attr *a);
void pb_open_attr(lua_State *L);

/* event.c: the userdata is a struct pb_event, of which most files need the first member only */
struct pb_event {
	struct pf_counter ev;
	struct pf_layout layout;   /* of the records it writes */
	struct pf_ring ring;       /* its own, when it is mapped */
	struct pf_layouts layouts; /* of every event that writes into that ring; itself is the first */
	int backward;              /* attr.write_backward */
	int failed;                /* -errno of an error in the ring that the next read is to report */

	/* Lost records (ring_lost.c). lost_base: the event's loss when it began to write into its current ring. lost_gone: the
	 * loss in this event's ring of events that no longer write into it. */
	uint64_t lost_seen, lost_base, lost_gone;
	struct pb_event *output, *writers, *next_writer; /* the event whose ring this one writes into; a list of those that write into
							  * this one's */
	int redirected;                                  /* its output was redirected at some time */
	struct pb_loss *loss;                            /* of the function that ev:ring_loss() has given, or NULL */
	int collected;                                   /* its finalizer has run; other finalizers may still use it */

	/* Waking a reader (ring_wait.c): the pipe is opened by the first ev:wake_fd(). */
	int wake_fd, wake_read;
	unsigned reads;
	struct pb_hold hold; /* keeps its ring and its layouts */
	volatile int woken;
};

struct pf_counter *pb_check_event(lua_State *L, int i); /* raises when closed */
/* Push the result of a read as a table: see ev:scan(). */
void pb_push_reading(lua_State *L, const struct pf_reading *rd);
void pb_open_event(lua_State *L);

/* ring.c, after event.c and record.c: adds to Event's methods */
void pb_event_begin(struct pb_event *e, const struct pf_attr *attr, uint64_t hidden);
void pb_event_end(struct pb_event *e); /* idempotent; the descriptor is still open */
void pb_event_let_go(struct pb_event *e, int outer); /* after pb_hold(&e->hold) */
void pb_open_ring(lua_State *L);

/* record.h has the rest */
void pb_open_record(lua_State *L);
void pb_open_packed(lua_State *L);
void pb_open_layouts(lua_State *L);
void pb_open_record_defs(lua_State *L);
/* data.h has the rest */
void pb_open_data(lua_State *L);
void pb_open_data_write(lua_State *L);
void pb_open_tally(lua_State *L);
void pb_open_synth(lua_State *L);
void pb_open_terminate(lua_State *L);
void pb_open_process(lua_State *L);
void pb_open_output(lua_State *L);

/* meter.c: a Group or a list's Meter; raises what a read of it gave */
struct pf_meter *pb_check_meter(lua_State *L, int i);
int pb_meter_failed(lua_State *L, const struct pf_meter *m, int r);
#define PB_CLOSED_GROUP "Group is closed, or a member of it"
#define PB_CLOSED_LIST "the events were closed, by perf.release or close, before the measurement ended"
void pb_open_meter(lua_State *L);
void pb_open_counts(lua_State *L); /* after meter.c */
/* guard.c: if the Counts at `counts`, a measurement by the Meter at `meter`, are collected before pb_unguard, the meter learns
 * that the measurement will never end. */
void pb_guard(lua_State *L, int meter, int counts);
void pb_unguard(lua_State *L, int counts);
void pb_open_guard(lua_State *L); /* after event.c and meter.c */
void pb_open_measure(lua_State *L);
void pb_open_ledger(lua_State *L);
void pb_open_defs(lua_State *L);
void pb_open_host(lua_State *L);
void pb_open_trace(lua_State *L);
void pb_open_channel(lua_State *L);
void pb_open_thread(lua_State *L);
void pb_open_bpf(lua_State *L); /* after event.c: adds to its methods */
void pb_open_msr(lua_State *L);
void pb_open_profiler(lua_State *L);
void pb_open_web_files(lua_State *L);

#endif
