/* Catches the turns that block a worker's loop, while they run.
 *
 * A thread of its own looks at the worker's open turn four times in each limit. If a turn has lasted longer than the limit, it takes
 * the Lua stack of the worker's thread. A thread that runs gets a signal, whose handler unwinds the stack from the registers. A
 * thread that is in a system call gets none, since a signal would cut a sleep short: the kernel tells its stack pointer
 * (/proc/self/task/TID/syscall), and the watcher unwinds it from there, and looks again whether it still was in that call.
 *
 * The worker's side costs two stores for each turn. When a turn ends that has been longer than the limit, the counts of the turn are
 * added to what was seen of it. */
#ifndef PF_WATCH_H
#define PF_WATCH_H

#include <pthread.h>
#include <stdatomic.h>

#include "core/stack/unwind.h"

enum { PF_WATCH_PLACES = 32, PF_WATCH_NAME = 120, PF_WATCH_KEPT = 16 };

/* One turn that was longer than the limit. */
struct pf_blocked {
	uint32_t serial, route, phase;
	uint32_t ended;     /* `words` are its counts; 0: it had no single reading that was longer than the limit */
	uint64_t seen_ns;   /* for how long it had run when its stack was taken; 0: it ended before */
	long call;          /* the number of the system call that it was in; -1: none; -2: unknown */
	unsigned n;
	struct pf_watch_place {
		enum pf_place_kind kind;
		uint32_t line;
		int32_t linedefined;
		char name[PF_WATCH_NAME]; /* of the chunk */
	} place[PF_WATCH_PLACES];
	uint64_t *words;
};

struct pf_watch {
	/* Written by the worker: the turn that is open. */
	_Atomic uint32_t serial, route, phase;
	_Atomic uint64_t began; /* by CLOCK_MONOTONIC; 0: none is open */
	/* Set by the caller before pf_watch_start. unwind may be NULL. */
	uint64_t limit;
	uint32_t words;
	void (*unwind)(void *owner, const struct pf_registers *r, const struct pf_memory *m, struct pf_unwound *u);
	void *owner;

	int tid, syscall_fd, running, stop;
	uint32_t generation;
	pthread_t thread;
	pthread_mutex_t mutex; /* of all below, and `stop` */
	pthread_cond_t changed;
	struct pf_blocked kept[PF_WATCH_KEPT]; /* a ring, without `words` of those that were taken */
	uint32_t first, next;                  /* numbers of the oldest, and of the next one, modulo PF_WATCH_KEPT */
	uint64_t lost;                         /* for lack of room */
	uint32_t seen;                         /* the turn whose stack was taken last */
	/* A look at the running thread: whether the handler is to do it, or does it; whether a signal is on its way. */
	atomic_int asked, sent;
	uint32_t asked_serial;
	struct pf_blocked look;
};

/* Watch the calling thread, for turns longer than `limit` ns. 0 or -errno. One watcher in a process. */
int pf_watch_start(struct pf_watch *w);
void pf_watch_stop(struct pf_watch *w); /* idempotent */

/* A turn begins; or none is open from now on. */
static inline void pf_watch_turn(struct pf_watch *w, uint32_t serial, uint32_t route, uint32_t phase, uint64_t began)
{
	atomic_store_explicit(&w->began, 0, memory_order_relaxed);
	atomic_store_explicit(&w->serial, serial, memory_order_release);
	atomic_store_explicit(&w->route, route, memory_order_relaxed);
	atomic_store_explicit(&w->phase, phase, memory_order_relaxed);
	atomic_store_explicit(&w->began, began, memory_order_release);
}

/* The open turn has lasted longer than the limit, and ends: with these counts. */
void pf_watch_ended(struct pf_watch *w, const uint64_t *now, const uint64_t *before);

/* The oldest turn that has ended, into *b, whose words must have room for w->words. Returns 0 if there is none. */
int pf_watch_take(struct pf_watch *w, struct pf_blocked *b);

#endif
