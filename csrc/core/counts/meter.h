/* Measuring by difference: read, run, read, subtract. */
#ifndef PF_METER_H
#define PF_METER_H

#include <stdint.h>

#include "core/counts/counter.h"
#include "core/memory/allocator.h"

/* A meter reads one or more kernel groups, each by a single read(2) of its leader, or without a system call if user_read.h
 * can. The groups are opened with read_format PF_METER_FORMAT, and with PF_FORMAT(LOST) if the leader writes records. A group of
 * one event may have PF_COUNTER_FORMAT instead: the kernel reads it in two thirds of the time, since it locks no list of members.
 * With ngroups == 0 the meter reads the kernel's accounting of the thread instead. */
struct pf_meter_group {
	struct pf_counter *leader;
	uint32_t n;
	uint16_t lost;  /* 1: each value is followed by the number of records that its event lost; else 0 */
	uint16_t alone; /* 1: one event of PF_COUNTER_FORMAT; else 0 */
	struct pf_user *const *users; /* one for each event; NULL if only read(2) reads the group */
	const struct pf_block_reader *blocks; /* for events of Lua's memory, which have pf_no_leader and need no call; otherwise NULL */
};

/* Of groups that the kernel does not count: it is always on, and has no descriptor. */
extern struct pf_counter pf_no_leader;

/* The values of a meter that reads the kernel's accounting, for machines where perf_event_open is refused. */
enum { PF_USAGE_TASK_CLOCK, PF_USAGE_PAGE_FAULTS, PF_USAGE_CONTEXT_SWITCHES, PF_USAGE_COUNT };

enum pf_meter_needs { /* when a measurement has begun */
	PF_METER_GUARD = 1, /* its Counts need a guard, since the meter rests otherwise */
	PF_METER_MEMORY = 2 /* Lua's memory is read once more, when the interpreter has what the measurement itself needs */
};

struct pf_meter {
	uint32_t ngroups;
	uint32_t nvalues;
	uint32_t fresh;   /* 1: its groups are disabled and were never enabled, so all counts are 0 */
	uint32_t owner;  /* the pf_thread_token of the only thread that may use it; 0 = any thread may */
	uint32_t rests;   /* 1: its groups are enabled only while a measurement runs, since they take counters from other events */
	uint32_t needs;   /* a sum of enum pf_meter_needs */
	uint32_t is_group; /* it was made by the program from one kernel group */
	uint32_t running; /* measurements that have begun but not ended, including those that an error ended */
	uint64_t used_ns; /* when the last measurement began, by CLOCK_MONOTONIC */
	uint64_t reset_ns; /* when one of its events was last reset; 0 = never */
	uint32_t generation; /* pf_fork_generation when it was made */
	uint64_t wall_ns;  /* the time for which it was enabled before since_ns */
	uint64_t since_ns; /* when it was last enabled, by CLOCK_MONOTONIC; 0 while it is disabled */
	struct pf_meter_group group[];
};

#define PF_METER_FORMAT \
	(PF_FORMAT(GROUP) | PF_FORMAT(TOTAL_TIME_ENABLED) | PF_FORMAT(TOTAL_TIME_RUNNING) | PF_FORMAT(ID))

/* The result: wall time, then {enabled, running} of each group, then every value, then every id, in the order of
 * opening. pf_meter_begin fills it with the start, pf_meter_end turns it into the difference: one object a
 * measurement, and nested, recursive or interleaved measurements never share one. layout belongs to the caller. */
struct pf_counts {
	uint32_t layout;
	uint32_t n; /* words in v: 1 + 2 * max(ngroups, 1) + 2 * nvalues */
	uint64_t reset_ns; /* pf_meter_snap: the meter's; if it differs in two readings, the counts were reset in between */
	uint64_t v[];
};

/* Stands for an unknown difference: the count is lower at the end than at the start (the event was reset, or its counter wrapped
 * around), or the event was reset in between. */
#define PF_COUNT_FELL UINT64_MAX

static inline uint64_t pf_count_since(uint64_t from, uint64_t to)
{
	return to < from ? PF_COUNT_FELL : to - from;
}

#define PF_METER_MAX_GROUP 128 /* events in one kernel group */

static inline uint32_t pf_meter_words(const struct pf_meter *m)
{
	return 1 + 2 * (m->ngroups ? m->ngroups : 1) + 2 * m->nvalues;
}

/* The times of Counts that began in the parent of a fork and ended in the child, where the events count nothing: enabled is 0,
 * and running is longer than any program. */
#define PF_METER_INHERITED (UINT64_C(1) << 52)

/* Both return -errno: -EBADF when a group is closed. pf_meter_begin returns m->needs, pf_meter_end m->rests; or -ESRCH when another
 * thread owns the meter, -ECHILD when the meter was made before a fork, by the parent. A pinned group that lost its counter (end of
 * file) reads as zero running time. In the child of a fork, a measurement that the parent began ends with times of PF_METER_INHERITED.
 *
 * pf_meter_begin enables a disabled group. The group stays enabled, since a disable and an enable would cost more than the two
 * reads; but if m->rests, the last measurement that ends disables it. Then the caller must call pf_meter_abandon for a measurement
 * that will never end. */
int pf_meter_begin(struct pf_meter *m, struct pf_counts *c);
int pf_meter_end(struct pf_meter *m, struct pf_counts *c);

/* Read the start of Lua's memory again: PF_METER_MEMORY. */
void pf_meter_begin_memory(const struct pf_meter *m, struct pf_counts *c);

/* Tell the meter that a measurement which has begun will never end. */
void pf_meter_abandon(struct pf_meter *m);

/* Its events are about to be closed: from now on the functions return -EBADF. */
void pf_meter_forget(struct pf_meter *m);

/* Counts since the groups were made or reset, and the wall time for which they were enabled. -ECHILD: made by the parent before a
 * fork. */
int pf_meter_snap(const struct pf_meter *m, struct pf_counts *c);

/* The same for callers that compute differences: without the system calls of measurements (counts/own_calls.h). */
int pf_meter_mark(const struct pf_meter *m, struct pf_counts *c);

/* into += from, or with take != 0 into -= from; both of this meter. Ids stay, and a time never gets below 0. A value that would,
 * or that is PF_COUNT_FELL in either, becomes PF_COUNT_FELL. Returns 0, or -EINVAL if their number of words is not the meter's.
 * */
int pf_counts_add(const struct pf_meter *m, struct pf_counts *into, const struct pf_counts *from, int take);

/* ENABLE or DISABLE the leader of every group, or RESET every event; updates the wall time.
 * -ECHILD: made by the parent before a fork. */
int pf_meter_ioctl(struct pf_meter *m, unsigned long request);

#endif
