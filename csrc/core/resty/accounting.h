/* Splits a worker's counters among the requests that take turns on it: the difference of two readings goes to exactly one place.
 *
 *   Lua of request A      C of the host      Lua of B       C of the host     Lua of A
 *   |-------------------|................|------------|...................|------------|
 *   enter(A)        leave(A)          enter(B)     exit(B)             back(A)      exit(A)
 *
 * The counts between an enter or back and the following leave or exit belong to the request, in the phase that was entered;
 * everything else goes to `unattributed`. A turn may end without a leave or exit (by an error, or a yield that no hook saw). Then
 * the next turn finds it open, and the counts since it began go to `unattributed` too. So
 *
 *   counter now - counter at open  ==  unattributed + sum of open accounts + sum of routes        in every word, always
 *
 * A request is identified by its address until the host reports its end. Then one more phase of it may come; anything else closes
 * its account. Several addresses may share an account: a subrequest shares its parent's. A closed account is added to its route's
 * sums and histograms.
 *
 * One thread, no locks. Memory is allocated when a request is admitted and no place is free, never when a turn begins or ends. */
#ifndef PF_ACCOUNTING_H
#define PF_ACCOUNTING_H

#include <stddef.h>
#include <stdint.h>

#include "core/counts/meter.h"

struct pf_accounting;
struct pf_watch;

/* The size of a histogram: bucket b has the values of b bits, that is 2^(b-1) .. 2^b-1; bucket 0 has the zeros. */
#define PF_ACCOUNTING_BUCKETS 65

/* These types tell pf_accounting_enter which requests it makes known by itself, since they are not to be counted. They are also text
 * for LuaJIT's FFI.
 *
 * While a sampler's number in `skip` is at least 1, its requests are not counted, and each of them reduces that number by 1. The sampler
 * of a request is that of its path in `paths` (PF_ACCOUNTING_PATHS places), or sampler 0 if `paths` is NULL. A request whose path is not
 * in `paths`, or for which the variable `header` (its name in lower case; NULL: none) has a value, is left to the caller. */
#define PF_ACCOUNTING_TYPES                                                                                                \
	enum { PF_ACCOUNTING_PATHS = 256 };                                                                                 \
	struct pf_accounting_path {                                                                                             \
		uint32_t size, sampler;                                                                                             \
		char text[120];                                                                                                     \
	};                                                                                                                      \
	struct pf_accounting_sampling {                                                                                         \
		double *skip;                                                                                                       \
		const char *header;                                                                                                 \
		size_t header_size;                                                                                                 \
		struct pf_accounting_path *paths;                                                                                   \
	};

PF_ACCOUNTING_TYPES

/* The first members of struct pf_accounting, as text for LuaJIT's FFI, so that Lua reads them without a call. Each sum has
 * `words` words, as in struct pf_counts but without ids: wall time, {enabled, running} of each group, `values` - 1 values. */
#define PF_ACCOUNTING_STATE                                                                                                 \
	/* The start of the request that was finished last; how many turns were found open. */                                  \
	double last_start;                                                                                                      \
	uint64_t abandoned;                                                                                                     \
	/* The counts of the last finish or settle; the counts since pf_accounting_open, as of the last settle; the part of these \
	 * that belongs to no request. */                                                                                       \
	uint64_t *last, *whole, *unattributed;                                                                                  \
	/* Of the finished requests of each route: [routes][phases][words] sums; [routes][values][PF_ACCOUNTING_BUCKETS] how many had \
	 * a value (0: wall time, 1: the first event) of each number of bits; [routes] how many there were. */                  \
	uint64_t *route_sums, *histogram, *requests;                                                                            \
	/* int (*)(void *request) of the host, or NULL: a request's status, and a bit for its method. Negative: unknown. */     \
	void *get_status, *get_method;                                                                                          \
	/* A pf_accounting_get_variable of the host, or NULL. */                                                                \
	void *get_variable;                                                                                                     \
	/* A number (uintptr_t) that the host changes whenever it goes round its event loop, or NULL. */                        \
	void *beat;                                                                                                             \
	/* The zone of a route's turns, for each of `zones` routes (pf_zone_set); NULL: turns have no zone. */                  \
	const uint32_t *zone_of;                                                                                                \
	uint32_t words, values, routes, zones;                                                                                  \
	/* Each request uses the following members, even one that is not counted, so they are together, in few cache lines.     \
	 * First, a pf_accounting_add_end of the host, or NULL. The caller of pf_accounting_open sets it. */                    \
	void *add_end;                                                                                                          \
	/* double (*)(void *request) of the host, or NULL: the time at which a request began, in seconds since 1970. */         \
	void *get_start;                                                                                                        \
	/* A request that takes this many seconds is slow. pf_accounting_open sets it to infinity. */                           \
	double slow;                                                                                                            \
	/* The struct pf_accounting_sampling of the caller, or NULL. */                                                         \
	void *sampling;                                                                                                         \
	/* How many requests became known, without those that an accounting from number `first` on knew before. */              \
	double seen;                                                                                                            \
	uint64_t first;                                                                                                         \
	uint64_t number; /* that no other accounting of this thread has had; later ones have greater numbers */                 \
	/* The open turn: its request (NULL: none), its phase, a number that changes whenever a turn begins or ends, and the    \
	 * phase that the turn runs within, or 0. */                                                                            \
	const void *owner;                                                                                                      \
	uint32_t phase, serial, outer;                                                                                          \
	uint32_t known; /* addresses */                                                                                         \
	uint32_t phases;

/* meter must count the calling thread and stay open until pf_accounting_close; this enables it. Phases are 1 to `phases`; those
 * from `nested` on run within another phase of the same request; the phase `after` may come after the request's end. Returns 0 or
 * -errno. */
int pf_accounting_open(struct pf_accounting **out, struct pf_meter *meter, uint32_t phases, uint32_t nested, uint32_t after);
void pf_accounting_close(struct pf_accounting *a);

/* How the host reports the end of a request: add(request, n) returns NULL, or a struct that begins as below and whose data points
 * to n bytes that live as long as the request. The host calls handler(data) once, perhaps after pf_accounting_close, but in the same
 * thread. The structs of a request form a list, the newest first; the host empties it before it calls the handlers. It does so
 * twice for a request that it terminates, before the phase `after`. */
struct pf_accounting_end {
	void (*handler)(void *data);
	void *data;
	const struct pf_accounting_end *next;
};
typedef struct pf_accounting_end *pf_accounting_add_end(void *request, size_t n);

/* A variable of a request, by its name in lower case: 0, or another number. `room` has as many bytes as the name. */
typedef int pf_accounting_get_variable(void *request, const char *name, size_t n, char *room, int capture, const char **value,
				       size_t *size, const char **error);

/* A phase of a request begins. If the request is unknown, is not to be counted (struct pf_accounting_sampling) and is a main request
 * whose end is to come, it becomes known. Returns 1 + the phase that it runs within (0 for none), which the caller passes to
 * pf_accounting_exit; 0 for a request that is neither counted nor watched; -ENOENT for an unknown request. -EBUSY: a turn of the
 * request is open, and the phase cannot run within it. Either the caller is called by the code of that turn, which goes on, or an
 * error has interrupted the turn; then the caller adds PF_ACCOUNTING_ANEW to the phase. */
#define PF_ACCOUNTING_ANEW 256
int pf_accounting_enter(struct pf_accounting *a, const void *request, uint32_t phase);
/* The phase ends. If a turn within it is still open, an error has interrupted that turn, and the counts since its beginning go to
 * `unattributed`. The same holds for leave. */
int pf_accounting_exit(struct pf_accounting *a, const void *request, uint32_t outer);

/* End the request's turn, since the request may yield. A nested phase cannot yield: if its turn is open, an error has interrupted it.
 * Returns the phase in which the request continues, with the bit PF_ACCOUNTING_WATCHED if the request is not counted; 0 if no turn is
 * open; -errno. */
#define PF_ACCOUNTING_WATCHED 256
int pf_accounting_leave(struct pf_accounting *a, const void *request);
/* The request continues after a leave. keep: no other request can have run meanwhile, so a turn that is still open continues.
 * site: where it has waited (waits.h) since `from`, a value of `clock`; 0: it waited for the host. */
int pf_accounting_back(struct pf_accounting *a, const void *request, uint32_t phase, int keep, uint32_t site, double from);

/* Make a request known. With route < 0 it is not counted. ended: the request is in the phase `after`, and the host no longer
 * reports its end. start: for last_start. Returns 0 or -errno.
 *
 * With a known parent, the request shares the parent's account, and a route >= 0 replaces the account's route. To change only the
 * route of a request, pass it as its own parent. Returns 1; 0 if the parent is not counted; -errno. */
int pf_accounting_admit(struct pf_accounting *a, const void *request, const void *parent, int32_t route, int ended, double start);
/* Returns the main request of a request, which may be the request itself; NULL if it is unknown. Call it with a main request
 * first, from which the place of the pointer is learned. */
const void *pf_accounting_main(struct pf_accounting *a, const void *request);
/* A request becomes known: count it in `seen`, unless an accounting from number `first` on has counted it. */
void pf_accounting_see(struct pf_accounting *a, const void *request);
/* Note in `paths` that requests with this one's path have this sampler. A path that is too long is not noted; another path may lose
 * its place. */
void pf_accounting_learn(const struct pf_accounting *a, const void *request, uint32_t sampler);
/* The host has ended the request. data: that of the handler which the host has called, or NULL. */
void pf_accounting_end(struct pf_accounting *a, const void *request, void *data);

/* Close the account of a request that has ended, and forget all its addresses. Returns 1 + its route, with its counts in `last`;
 * 0 if it was not counted; -ENOENT if it is unknown. If the address is an alias, only the alias is forgotten, and the result is
 * -ENOENT. If the phase `after` is entered once more for the request, pf_accounting_enter returns 0. */
int pf_accounting_finish(struct pf_accounting *a, const void *request);

/* The same as pf_accounting_finish, but -ENOENT for a request that was neither counted nor slow. */
int pf_accounting_report(struct pf_accounting *a, const void *request);

/* Add a route. Returns its number, from 0, or -ENOMEM. */
int pf_accounting_route(struct pf_accounting *a);
/* Give a route the name by which a profiler in another process labels the samples of its turns. If memory is lacking, it has no name. */
void pf_accounting_label(struct pf_accounting *a, uint32_t route, const char *text, size_t n);
/* Add a route's sums to another route, to which its open accounts also move. Its number is then free. */
void pf_accounting_merge(struct pf_accounting *a, uint32_t route, uint32_t other);

/* Count waits from now on. cpu: the number of the value that counts CPU time, from 1; if it is 0, no time counts as late. Sites 1
 * to `phases` are waits for the host until that phase begins, and `phases` + 1 until the request ends. Returns NULL without
 * memory. */
struct pf_waits *pf_accounting_waits(struct pf_accounting *a, uint32_t cpu);

/* Report turns to a watcher (watch.h), or to none (NULL), until pf_accounting_close; sets its `words` and `beat`. Then requests that
 * are not counted have turns too, which are only watched: they cost a reading of the clock, and none of the counters. */
void pf_accounting_watch(struct pf_accounting *a, struct pf_watch *watch);

/* The next phase after `phase`, or 0, in which the route has other sums than those with these wall times, one for each phase. */
int pf_accounting_ran(const struct pf_accounting *a, uint32_t route, uint32_t phase, const uint64_t *walls);
/* Add the growth of a route's histogram of a value since `before` to an array, and update `before`. */
void pf_accounting_histogram(const struct pf_accounting *a, uint32_t route, uint32_t value, double *before, double *to);

/* Read the counters and update `whole` and `unattributed`. `last` gets the counts of the request so far; if request is NULL, of
 * all unfinished requests. Returns 1; 0 for a request that is not counted; -errno. */
int pf_accounting_settle(struct pf_accounting *a, const void *request);

#endif
