/* The waits of a worker's requests: sums and histograms by route and site, and the wall time of requests by route, status and method.
 *
 * The time of a request from its first turn to its end has three parts. During its turns it runs. Between two turns it waits: for
 * the call that returns in the second turn (the caller numbers these sites), or for the host itself. But if the worker was busy with
 * other requests at the end of such a gap, the request could have continued earlier: that part of the gap is late.
 *
 *   wall  ==  turns  +  waiting  +  late        in nanoseconds, for every request
 *
 * The waits of a request are kept until it ends, since its route may change until then. To bound the memory, at most PF_WAITS_KEPT
 * are kept; when they are full, they are added to the request's present route. */
#ifndef PF_WAITS_H
#define PF_WAITS_H

#include <stddef.h>
#include <stdint.h>

enum { PF_WAITS_KEPT = 32, PF_WAITS_ROWS = 4096, PF_WAITS_BUCKETS = 48 };

/* A worker that ran for all but this time (ns) of an interval outside of turns has not slept. */
enum { PF_WAITS_NO_SLEEP = 20000 };

/* The key of the row for everything that has no row of its own. */
#define PF_WAITS_OTHER UINT64_MAX

/* These are also text for LuaJIT's FFI. pf_wait is one wait of a request: `from` and `lasted` are of the call, which may overlap
 * with turns and waits of the request's other threads; `waiting` and `late` are its shares of the request's time. pf_wait_row has
 * the sums of a key, which is route << 32 | site, or route << 32 | status << 8 | method. Bucket b counts the durations of b bits;
 * the last bucket also counts the longer ones. */
#define PF_WAITS_TYPES                                                                                                  \
	struct pf_wait {                                                                                                     \
		uint64_t from, lasted, waiting, late;                                                                            \
		uint32_t site, phase;                                                                                            \
	};                                                                                                                   \
	struct pf_wait_row {                                                                                                 \
		uint64_t key, count, lasted, waiting, late;                                                                      \
		uint64_t histogram[48];                                                                                          \
	};

#define PF_WAITS_STATE                                                                                                  \
	struct pf_wait_row *row, *latency;                                                                                   \
	uint32_t rows, latencies;                                                                                            \
	/* The waits of the request that ended last, which are valid until the next one begins. */                           \
	const struct pf_wait *last;                                                                                          \
	uint32_t lasts;                                                                                                      \
	uint64_t last_wall, last_end; /* its wall time, and when it ended, */                                                \
	double clock; /* the clock at the last reading */

PF_WAITS_TYPES
_Static_assert(PF_WAITS_BUCKETS == sizeof((struct pf_wait_row *)0)->histogram / sizeof(uint64_t), "PF_WAITS_TYPES");

/* The number of bits of a value, which is its bucket in a histogram. */
static inline unsigned pf_bits(uint64_t v)
{
	return v == 0 ? 0 : 64 - (unsigned)__builtin_clzll(v);
}

struct pf_waits_table {
	uint32_t room, *slot; /* the hash table has 2 * room slots, each 0 or a row's number plus 1 */
};

/* The waits of the request that has an account. */
struct pf_waits_of {
	uint64_t began, last; /* when it was admitted; the end of its last turn */
	uint32_t n;
	struct pf_wait wait[PF_WAITS_KEPT];
};

struct pf_waits {
	PF_WAITS_STATE
	struct pf_waits_table row_table, latency_table;
	struct pf_waits_of *of; /* one for each account */
	uint32_t accounts;
	uint64_t busy_since; /* the end of the worker's last sleep outside of turns */
	long sleeps;         /* the thread's voluntary context switches at that time */
};

struct pf_waits *pf_waits_new(void); /* NULL without memory */
void pf_waits_free(struct pf_waits *w);

/* Copy five numbers of each row: its route (-1: that of PF_WAITS_OTHER), site, count, waiting and late. */
void pf_waits_copy(const struct pf_waits *w, double *to);

/* Make room for this many accounts. 0 or -ENOMEM. */
int pf_waits_room(struct pf_waits *w, uint32_t accounts);

/* Add the sums of a route to those of another one. */
void pf_waits_merge(struct pf_waits *w, uint32_t route, uint32_t other);

/* A request gets this account. All times are of one clock, in nanoseconds. */
void pf_waits_begin(struct pf_waits *w, uint32_t account, uint64_t now);
/* An interval of length `time` without a turn ends now; the thread ran for `cpu` of it. */
void pf_waits_between(struct pf_waits *w, uint64_t now, uint64_t time, uint64_t cpu);
/* The account's turn lasted until now. */
static inline void pf_waits_ran(struct pf_waits *w, uint32_t account, uint64_t now)
{
	w->of[account].last = now;
}
/* A turn of the account begins, because a call that began at `from` returns. */
void pf_waits_resume(struct pf_waits *w, uint32_t account, uint32_t route, uint32_t site, uint32_t phase, uint64_t from,
		     uint64_t now);
/* The request has ended while it waited for this site of the host. Adds its waits to its route. */
void pf_waits_end(struct pf_waits *w, uint32_t account, uint32_t route, uint32_t site, uint32_t status, uint32_t method,
		  uint64_t now);

#endif
