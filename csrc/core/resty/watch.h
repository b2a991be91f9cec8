/* Catches the turns that block a worker's event loop, while they run.
 *
 * A separate thread, the watcher, looks at the worker's open turn four times in each limit. When a turn has taken longer than the
 * limit, the watcher takes the Lua stack of the worker's thread. If that thread is running, it gets a signal, whose handler unwinds
 * the stack from the registers. If it is in a system call, it gets no signal, which could end a sleep early: the watcher unwinds the
 * stack from the stack pointer that the kernel reports (/proc/self/task/TID/syscall), and keeps the result only if the thread is
 * still in the same call afterwards.
 *
 * A turn costs the worker a few stores. When a turn that was longer than the limit ends, its counts are added to its record.
 *
 * Between two turns the worker runs the host's own code, and Lua that no hook sees. This blocks the event loop if, for the limit,
 * the worker neither goes round its loop (`beat`) nor is seen to wait there. The worker does nothing for this: the thread
 * determines the beginning and the end, with an error of a quarter of the limit.
 *
 * A turn that goes on for a second or twice the limit, whichever is longer, may never end, and then the worker never reports it. So
 * the thread writes a line to standard error, which a server redirects to its error log, in one write(2). While standard error is a
 * full pipe it writes nothing: nobody may read that pipe, and the worker waits for the thread at its end. */
#ifndef PF_WATCH_H
#define PF_WATCH_H

#include <pthread.h>
#include <stdatomic.h>

#include "core/stack/unwind.h"

enum { PF_WATCH_PLACES = 32, PF_WATCH_NAME = 120, PF_WATCH_KEPT = 16, PF_WATCH_URI = 257, PF_WATCH_NAMES = 65536 };
enum { PF_WATCH_LINE = 1024 };
enum { PF_WATCH_RUNNING = -1, PF_WATCH_UNKNOWN = -2 }; /* instead of the number of a system call */

enum pf_watch_kind { PF_WATCH_ROUTE, PF_WATCH_PHASE, PF_WATCH_KINDS };

/* The route of a turn that is only watched, and of the worker's code between two turns: `words` has no more than the wall time. The
 * phase of the latter is 0. */
#define PF_WATCH_UNCOUNTED UINT32_MAX

/* One turn that was longer than the limit. */
struct pf_blocked {
	uint32_t serial, route, phase;
	uint32_t ended;     /* 1: `words` are its counts; 0: no single reading has covered more than the limit */
	uint64_t seen_ns;   /* how long it had run when its stack was taken; 0: it ended before that */
	long call;          /* the number of the system call that it was in, or one of the above */
	unsigned outside;   /* no Lua was running */
	uint32_t uri_size;
	char uri[PF_WATCH_URI]; /* its beginning, if the turn has ended; one byte more than is shown, to tell whether it was cut */
	unsigned n;
	struct pf_watch_place {
		enum pf_place_kind kind;
		uint32_t line;
		int32_t linedefined;
		char name[PF_WATCH_NAME]; /* the chunk's name */
	} place[PF_WATCH_PLACES];
	uint64_t *words;
};

struct pf_watch {
	/* Written by the worker: the turn that is open. */
	_Atomic uint32_t serial, route, phase;
	_Atomic uint64_t began; /* when it began, by CLOCK_MONOTONIC; 0: no turn is open */
	/* Written by the thread: the turn that it has seen after half of the limit. Others end without a reading of the clock. */
	_Atomic uint32_t half;
	/* Set by the caller before pf_watch_start. unwind may be NULL. */
	uint64_t limit;
	uint32_t words;
	const uintptr_t *beat; /* changes whenever the worker goes round its event loop; NULL: only turns are watched */
	int tells; /* writes a line about a turn that goes on */
	void (*unwind)(void *owner, const struct pf_registers *r, const struct pf_memory *m, struct pf_unwound *u);
	void *owner;

	atomic_long gmt_offset; /* of the local time, in seconds */
	int tid, syscall_fd, running, stop;
	uint32_t generation;
	pthread_t thread;
	pthread_mutex_t mutex; /* protects everything below, and `stop` */
	pthread_cond_t changed;
	struct pf_blocked kept[PF_WATCH_KEPT]; /* a ring, without `words` of those that were taken */
	uint32_t first, next;                  /* numbers of the oldest and the next entry; their index is modulo PF_WATCH_KEPT */
	uint64_t lost;                         /* turns that had no room in the ring */
	uint32_t seen, told;                   /* the turn whose stack was taken last, and the one that a line was about */
	char **name[PF_WATCH_KINDS];           /* name[kind][number], or NULL */
	uint32_t names[PF_WATCH_KINDS];
	/* asked: whether the signal handler is to take the stack, or does; sent: a signal has been sent and has not arrived
	 * yet. */
	atomic_int asked, sent;
	uint32_t asked_serial;
	struct pf_blocked look;
	/* The worker between two turns: the beat and the serial; since when neither has changed and it was not seen to wait. */
	struct {
		uintptr_t beat;
		uint32_t serial;
		int waits;     /* it was seen to wait in its event loop, by the system call that this library knows */
		int seen;      /* `blocked` has been taken */
		uint64_t since;
		struct pf_blocked blocked;
	} loop;
};

/* Watch the calling thread for turns longer than `limit` ns. Returns 0 or -errno. A process has one watcher. */
int pf_watch_start(struct pf_watch *w);
void pf_watch_stop(struct pf_watch *w); /* idempotent */

/* Name a route or a phase, for the lines about turns that go on. Returns 0, -ENOMEM, or in the child of a fork -ECHILD: there is no
 * watcher there, and the copy of its mutex may be locked for ever. */
int pf_watch_name(struct pf_watch *w, enum pf_watch_kind kind, uint32_t number, const char *text);

/* A turn begins; with began == 0, no turn is open from now on. */
static inline void pf_watch_turn(struct pf_watch *w, uint32_t serial, uint32_t route, uint32_t phase, uint64_t began)
{
	atomic_store_explicit(&w->began, 0, memory_order_relaxed);
	atomic_store_explicit(&w->serial, serial, memory_order_release);
	atomic_store_explicit(&w->route, route, memory_order_release); /* not to be seen before the serial */
	atomic_store_explicit(&w->phase, phase, memory_order_release);
	atomic_store_explicit(&w->began, began, memory_order_release);
}

/* The open turn ends after ns, more than the limit, in a request of this URI. now - before: its counts, if they are known. */
void pf_watch_ended(struct pf_watch *w, uint64_t ns, const uint64_t *now, const uint64_t *before, const char *uri, size_t size);

/* The turns of a route are those of another one from now on. */
void pf_watch_merge(struct pf_watch *w, uint32_t route, uint32_t other);

/* Copy the oldest turn that has ended to *b, whose words must have room for w->words. Returns 0 if there is none, and in a child. */
int pf_watch_take(struct pf_watch *w, struct pf_blocked *b);

/* The name of a system call in which a thread may sleep, or NULL. */
const char *pf_watch_call(long number);

/* Make the line about a turn that has run for so long and goes on, without a lock. Returns its length. */
size_t pf_watch_line(char to[PF_WATCH_LINE], const struct pf_blocked *b, const char *route, const char *phase, uint64_t ns,
		     long gmt_offset);

#endif
