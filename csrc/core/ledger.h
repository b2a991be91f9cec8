/* A worker's counters split among the requests that take turns on it: every reading's difference goes to exactly one place.
 *
 *   Lua of request A      C of the host      Lua of B       C of the host     Lua of A
 *   |-------------------|................|------------|...................|------------|
 *   enter(A)        leave(A)          enter(B)     exit(B)             back(A)      exit(A)
 *
 * Between an enter or back and the leave or exit that follows, what is counted is A's, in the phase that was entered;
 * all else is nobody's. A turn that ends without saying so (an error in it, a yield that nobody saw) is found open by the next
 * one, and what was counted since it began is nobody's too. So
 *
 *   counter now - counter at open  ==  nobody + sum of open accounts + sum of routes        in every word, always
 *
 * A request is known by its address until the host says that it has ended, which it is asked to; then one phase may still come,
 * and whatever comes instead closes its account. Several addresses may share an account: a subrequest's is its parent's. A closed
 * account is added to its route's sums and histograms.
 *
 * One thread, no locks; memory is taken when a request is admitted and there is no free place, never on the way of a turn. */
#ifndef PF_LEDGER_H
#define PF_LEDGER_H

#include <stddef.h>
#include <stdint.h>

#include "meter.h"

struct pf_ledger;

/* What fits a histogram: bucket b has the values of b bits, so those in 2^(b-1) .. 2^b-1, and bucket 0 the zeros. */
#define PF_LEDGER_BUCKETS 65

/* meter must outlive the ledger and count the calling thread; it is enabled. Phases are 1 to `phases`; those from `repeats` on run
 * within another phase of the same request; `after` may come when it has ended. Returns 0 or -errno. */
int pf_ledger_open(struct pf_ledger **out, struct pf_meter *meter, uint32_t phases, uint32_t repeats, uint32_t after);
void pf_ledger_close(struct pf_ledger *l);

/* How the host tells that a request has ended: add(request, n) gives what begins as below, with data at n bytes that live as
 * long as the request, or NULL; handler(data) is called once. It may be called when the ledger is closed already. */
struct pf_ledger_end {
	void (*handler)(void *data);
	void *data;
};
typedef struct pf_ledger_end *pf_ledger_add_end(void *request, size_t n);
void pf_ledger_host(struct pf_ledger *l, pf_ledger_add_end *add);

/* Words of a place: wall time, {enabled, running} of each group, values. Those of struct pf_counts without the ids. */
uint32_t pf_ledger_words(const struct pf_ledger *l);

/* A phase of a request begins. Returns 1 + the phase that it runs within (0 for none), which pf_ledger_exit wants; 0 for
 * a request that is not counted; -ENOENT for one that is not known. */
int pf_ledger_enter(struct pf_ledger *l, const void *request, uint32_t phase);
int pf_ledger_exit(struct pf_ledger *l, const void *request, uint32_t outer);

/* The phase of the open turn if it is this request's, else 0. Leaving ends it, since the request may yield. */
int pf_ledger_turn(const struct pf_ledger *l, const void *request);
int pf_ledger_leave(struct pf_ledger *l, const void *request);
/* Another number after each time that a turn began or ended. */
uint32_t pf_ledger_serial(const struct pf_ledger *l);
/* It goes on. keep: nothing but the same request can have run since, so a turn of it that is still open simply lasts. */
int pf_ledger_back(struct pf_ledger *l, const void *request, uint32_t phase, int keep);

/* Make a request known; route < 0 for one that is not counted. ended: in the phase `after`, when the host tells no more. start is
 * for pf_ledger_last_start. Returns 0 or -ENOMEM. */
int pf_ledger_admit(struct pf_ledger *l, const void *request, int32_t route, int ended, double start);
/* Another address for the account of a known request. Returns 1, or 0 for one that is not counted, -ENOENT or -ENOMEM. */
int pf_ledger_alias(struct pf_ledger *l, const void *request, const void *known);
/* The host has ended it. */
void pf_ledger_end(struct pf_ledger *l, const void *request);

/* Sum a request up under another route. Returns 1, or 0 for one that is not counted. */
int pf_ledger_reroute(struct pf_ledger *l, const void *request, uint32_t route);

/* Close the account of a request that has ended, and forget its aliases; or an alias alone. Returns 1 + its route and leaves its counts in pf_ledger_last
 * when it was counted, else 0. */
int pf_ledger_finish(struct pf_ledger *l, const void *request);
/* Its counts so far, into pf_ledger_last. Returns 1 or 0. */
int pf_ledger_peek(struct pf_ledger *l, const void *request);
const uint64_t *pf_ledger_last(const struct pf_ledger *l);
double pf_ledger_last_start(const struct pf_ledger *l); /* what the request finished last was admitted with */

/* The next route's number, from 0. Returns it, or -ENOMEM. */
int pf_ledger_route(struct pf_ledger *l);
/* What a route's finished requests counted in a phase; how many there were; how many had a value (0 = wall time,
 * 1 = the first event) of each number of bits. */
const uint64_t *pf_ledger_sums(const struct pf_ledger *l, uint32_t route, uint32_t phase);
uint64_t pf_ledger_requests(const struct pf_ledger *l, uint32_t route);
const uint64_t *pf_ledger_histogram(const struct pf_ledger *l, uint32_t route, uint32_t value);

/* Bring the account up to this moment. Then: the whole since open, nobody's share, and what open accounts hold (into
 * pf_ledger_last); how many turns were found open, and requests are known. */
int pf_ledger_settle(struct pf_ledger *l);
const uint64_t *pf_ledger_whole(struct pf_ledger *l);
const uint64_t *pf_ledger_nobody(const struct pf_ledger *l);
void pf_ledger_pending(struct pf_ledger *l);
uint64_t pf_ledger_abandoned(const struct pf_ledger *l);
uint32_t pf_ledger_known(const struct pf_ledger *l);

#endif
