/* Splits a worker's counters among the requests that take turns on it: the difference of two readings goes to exactly one place.
 *
 *   Lua of request A      C of the host      Lua of B       C of the host     Lua of A
 *   |-------------------|................|------------|...................|------------|
 *   enter(A)        leave(A)          enter(B)     exit(B)             back(A)      exit(A)
 *
 * The counts between an enter or back and the following leave or exit belong to the request, in the phase that was entered;
 * everything else goes to `nobody`. A turn may end without a leave or exit (by an error, or a yield that no hook saw). The next
 * turn finds it open, and what was counted since it began goes to `nobody` too. So
 *
 *   counter now - counter at open  ==  nobody + sum of open accounts + sum of routes        in every word, always
 *
 * A request is identified by its address until the host reports its end. Then one more phase of it may come; anything else closes
 * its account. Several addresses may share an account: a subrequest shares its parent's. A closed account is added to its route's
 * sums and histograms.
 *
 * One thread, no locks. Memory is allocated when a request is admitted and no place is free, never when a turn begins or ends. */
#ifndef PF_LEDGER_H
#define PF_LEDGER_H

#include <stddef.h>
#include <stdint.h>

#include "core/counts/meter.h"

struct pf_ledger;

/* The size of a histogram: bucket b has the values of b bits, that is 2^(b-1) .. 2^b-1, and bucket 0 the zeros. */
#define PF_LEDGER_BUCKETS 65

/* meter must outlive the ledger and count the calling thread; this enables it. Phases are 1 to `phases`; those from `repeats` on
 * run within another phase of the same request; the phase `after` may come after the request's end. Returns 0 or -errno. */
int pf_ledger_open(struct pf_ledger **out, struct pf_meter *meter, uint32_t phases, uint32_t repeats, uint32_t after);
void pf_ledger_close(struct pf_ledger *l);

/* How the host reports the end of a request: add(request, n) returns a struct that begins as below, whose data points to n bytes
 * that live as long as the request, or NULL. The host calls handler(data) once, perhaps after the ledger was closed. */
struct pf_ledger_end {
	void (*handler)(void *data);
	void *data;
};
typedef struct pf_ledger_end *pf_ledger_add_end(void *request, size_t n);
void pf_ledger_host(struct pf_ledger *l, pf_ledger_add_end *add);

/* The number of words in each sum: wall time, {enabled, running} of each group, values. As in struct pf_counts, without ids. */
uint32_t pf_ledger_words(const struct pf_ledger *l);

/* A phase of a request begins. Returns 1 + the phase that it runs within (0 for none), which pf_ledger_exit wants; 0 for
 * a request that is not counted; -ENOENT for one that is not known. */
int pf_ledger_enter(struct pf_ledger *l, const void *request, uint32_t phase);
int pf_ledger_exit(struct pf_ledger *l, const void *request, uint32_t outer);

/* The phase of the open turn if it is this request's, else 0. Leaving ends it, since the request may yield. */
int pf_ledger_turn(const struct pf_ledger *l, const void *request);
int pf_ledger_leave(struct pf_ledger *l, const void *request);
/* A number that changes whenever a turn begins or ends. */
uint32_t pf_ledger_serial(const struct pf_ledger *l);
/* The request goes on after a leave. keep: only this request can have run since, so its turn goes on if it is still open. */
int pf_ledger_back(struct pf_ledger *l, const void *request, uint32_t phase, int keep);

/* Make a request known; route < 0 for one that is not counted. ended: it is in the phase `after`, and the host no longer reports
 * its end. start is what pf_ledger_last_start will return. Returns 0 or -ENOMEM. */
int pf_ledger_admit(struct pf_ledger *l, const void *request, int32_t route, int ended, double start);
/* Another address for the account of a known request. Returns 1, or 0 for one that is not counted, -ENOENT or -ENOMEM. */
int pf_ledger_alias(struct pf_ledger *l, const void *request, const void *known);
/* The host has ended the request. */
void pf_ledger_end(struct pf_ledger *l, const void *request);

/* Let a request be added to another route. Returns 1, or 0 for one that is not counted. */
int pf_ledger_reroute(struct pf_ledger *l, const void *request, uint32_t route);

/* Close the account of a request that has ended, and forget its aliases. Returns 1 + its route, with its counts in
 * pf_ledger_last; 0 if it was not counted. If the address is an alias, only that is forgotten: 0. */
int pf_ledger_finish(struct pf_ledger *l, const void *request);
/* Put the counts of a request so far into pf_ledger_last. Returns 1, or 0 if it is not counted. */
int pf_ledger_peek(struct pf_ledger *l, const void *request);
const uint64_t *pf_ledger_last(const struct pf_ledger *l);
double pf_ledger_last_start(const struct pf_ledger *l); /* the start of the request that was finished last */

/* Add a route. Returns its number, from 0, or -ENOMEM. */
int pf_ledger_route(struct pf_ledger *l);
/* What a route's finished requests counted in a phase; how many there were; how many had a value (0 = wall time,
 * 1 = the first event) of each number of bits. */
const uint64_t *pf_ledger_sums(const struct pf_ledger *l, uint32_t route, uint32_t phase);
uint64_t pf_ledger_requests(const struct pf_ledger *l, uint32_t route);
const uint64_t *pf_ledger_histogram(const struct pf_ledger *l, uint32_t route, uint32_t value);

/* Read the counters. Then: everything that was counted since the ledger was opened, the part that belongs to no request, and the
 * sum of the open accounts (into pf_ledger_last); how many turns were found open, and how many requests are known. */
int pf_ledger_settle(struct pf_ledger *l);
const uint64_t *pf_ledger_whole(struct pf_ledger *l);
const uint64_t *pf_ledger_nobody(const struct pf_ledger *l);
void pf_ledger_pending(struct pf_ledger *l);
uint64_t pf_ledger_abandoned(const struct pf_ledger *l);
uint32_t pf_ledger_known(const struct pf_ledger *l);

#endif
