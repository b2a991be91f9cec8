/* The waits of a worker's requests: sums and histograms by route and site, and the wall time of requests by route, status and method.
 *
 * A request's time from its first turn to its end is divided without rest. Within its turns it runs. Between two of them it waits:
 * for the call that the second turn returns from, a site that the caller has numbered, or for the host itself. If the worker has
 * been busy with other requests, the end of such a gap was not spent on waiting: the request could have gone on, and is late.
 *
 *   wall  ==  turns  +  waiting  +  late        in nanoseconds, for every request
 *
 * The waits of a request are kept until it ends, since only then its route is final; but at most PF_WAITS_KEPT of them, so that
 * memory is bounded. A request with more adds the earlier ones to the route that it has then. */
#ifndef PF_WAITS_H
#define PF_WAITS_H

#include <stddef.h>
#include <stdint.h>

enum { PF_WAITS_KEPT = 32, PF_WAITS_ROWS = 4096, PF_WAITS_BUCKETS = 48 };

/* The key of the row that has everything for which there is no room. */
#define PF_WAITS_OTHER UINT64_MAX

/* As text for LuaJIT's FFI too. wait: one wait of a request; `from` and `lasted` are of the call, which may overlap with turns and
 * waits of the request's other threads; `waiting` and `late` are its parts of the request's own time. row: the sums of a key, which
 * is route << 32 | site, or route << 32 | status << 8 | method. Bucket b has the durations of b bits, the last one the longer ones
 * too. */
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
	double clock; /* by the clock of the last reading */

PF_WAITS_TYPES
_Static_assert(PF_WAITS_BUCKETS == sizeof((struct pf_wait_row *)0)->histogram / sizeof(uint64_t), "PF_WAITS_TYPES");

/* The number of bits of a value, which is its bucket in a histogram. */
static inline unsigned pf_bits(uint64_t v)
{
	return v == 0 ? 0 : 64 - (unsigned)__builtin_clzll(v);
}

struct pf_waits_table {
	uint32_t room, *slot; /* the hash table has 2 * room slots: the number of a row plus 1, or 0 */
};

/* The state of an account's request. */
struct pf_waits_of {
	uint64_t began, last; /* when it was admitted, and the end of its last turn so far */
	uint32_t n;
	struct pf_wait wait[PF_WAITS_KEPT];
};

struct pf_waits {
	PF_WAITS_STATE
	struct pf_waits_table row_table, latency_table;
	struct pf_waits_of *of; /* by account */
	uint32_t accounts;
	uint64_t busy_since; /* since when the worker has not slept outside of turns */
	long sleeps;         /* the thread's voluntary context switches, when it last seemed to have slept */
};

struct pf_waits *pf_waits_new(void); /* NULL without memory */
void pf_waits_free(struct pf_waits *w);

/* Make room for this many accounts. 0 or -ENOMEM. */
int pf_waits_room(struct pf_waits *w, uint32_t accounts);

/* Add the sums of a route to those of another one. */
void pf_waits_merge(struct pf_waits *w, uint32_t route, uint32_t other);

/* A request gets an account. Times are of one clock, in nanoseconds. */
void pf_waits_begin(struct pf_waits *w, uint32_t account, uint64_t now);
/* The worker did something outside of all turns, until now: of this time, it ran for cpu. */
void pf_waits_between(struct pf_waits *w, uint64_t now, uint64_t time, uint64_t cpu);
/* The account's turn lasted until now. */
static inline void pf_waits_ran(struct pf_waits *w, uint32_t account, uint64_t now)
{
	w->of[account].last = now;
}
/* A turn of it begins, as a call returns that began at `from`. */
void pf_waits_resume(struct pf_waits *w, uint32_t account, uint32_t route, uint32_t site, uint32_t phase, uint64_t from,
		     uint64_t now);
/* The request has ended, in a wait for this site of the host. Adds its waits to its route. */
void pf_waits_end(struct pf_waits *w, uint32_t account, uint32_t route, uint32_t site, uint32_t status, uint32_t method,
		  uint64_t now);

#endif
