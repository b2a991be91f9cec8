/* See watch.h. The stacks are in resty/watch_stack.c, the lines in resty/watch_line.c. */
#include "core/resty/watch_stack.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/sys.h"
#include "core/base/thread.h"

enum { LONG_NS = 1000000000, BEAT_NS = 4000000 /* the coarsest clock that may be the beat */ };

/* --- the ring of blocked turns ---------------------------------------------------------------- */

/* A free entry; NULL if the ring is full. */
static struct pf_blocked *new_blocked(struct pf_watch *w)
{
	struct pf_blocked *b = &w->kept[w->next % PF_WATCH_KEPT];

	if (w->next - w->first == PF_WATCH_KEPT) {
		w->lost++;
		return NULL;
	}
	w->next++;
	return b;
}

/* Note all that can be seen of the open turn, or of the code between two turns. */
static void look_at(struct pf_watch *w, uint32_t serial, uint64_t ns)
{
	w->look.serial = serial;
	w->look.route = atomic_load(&w->route);
	w->look.phase = atomic_load(&w->phase);
	w->look.seen_ns = ns;
	w->look.ended = w->look.uri_size = 0;
	pthread_mutex_unlock(&w->mutex);
	pf_watch_take_stack(w, serial);
	pthread_mutex_lock(&w->mutex);
}

/* Whether the worker waits for events, or no Lua runs in the turn that was looked at: it has ended, or an error, or a yield that no
 * hook saw, has left it. */
static int is_left(const struct pf_watch *w)
{
	return pf_watch_is_loop_wait(w->look.call) || (w->look.phase && w->look.outside);
}

static void keep(struct pf_watch *w, uint32_t serial, uint64_t ns)
{
	struct pf_blocked *b;
	uint64_t *words;

	w->seen = serial;
	look_at(w, serial, ns);
	if (is_left(w))
		return;
	/* The turn may have ended meanwhile. Then the ring's newest entry is this turn, without a stack. */
	b = &w->kept[(w->next - 1) % PF_WATCH_KEPT];
	if (w->next == w->first || b->serial != serial) {
		if (atomic_load(&w->serial) != serial)
			return; /* it ended and was taken already */
		b = new_blocked(w);
	} else {
		w->look.ended = 1;
		w->look.route = b->route;
		w->look.phase = b->phase;
		w->look.uri_size = b->uri_size;
		memcpy(w->look.uri, b->uri, b->uri_size);
	}
	if (!b)
		return;
	words = b->words;
	if (!w->look.ended)
		memset(words, 0, w->words * sizeof *words);
	*b = w->look;
	b->words = words;
}

static const char *name_of(const struct pf_watch *w, enum pf_watch_kind kind, uint32_t number)
{
	return number < w->names[kind] && w->name[kind][number] ? w->name[kind][number] : "(other)";
}

static const char *route_name(const struct pf_watch *w)
{
	if (w->look.route == PF_WATCH_UNCOUNTED)
		return w->look.phase ? "(not counted)" : "(nginx)";
	return name_of(w, PF_WATCH_ROUTE, w->look.route);
}

static void tell(struct pf_watch *w, uint32_t serial, uint64_t ns)
{
	struct pollfd error = {.fd = STDERR_FILENO, .events = POLLOUT};
	char line[PF_WATCH_LINE];
	size_t n;

	if (pf_sys->poll(&error, 1, 0) != 1 || !(error.revents & POLLOUT))
		return; /* a full pipe: the next look tries again */
	look_at(w, serial, ns);
	w->told = serial;
	if (is_left(w) || atomic_load(&w->serial) != serial)
		return;
	n = pf_watch_line(line, &w->look, route_name(w), name_of(w, PF_WATCH_PHASE, w->look.phase), ns, atomic_load(&w->gmt_offset));
	pthread_mutex_unlock(&w->mutex);
	/* Another process may have filled the pipe since. */
	if (pf_sys->write_now(STDERR_FILENO, line, n) == -EAGAIN)
		w->told = 0;
	pthread_mutex_lock(&w->mutex);
}

static uint64_t patience(const struct pf_watch *w)
{
	return 2 * w->limit > LONG_NS ? 2 * w->limit : LONG_NS;
}

static int beats(const struct pf_watch *w)
{
	return __atomic_load_n(w->beat, __ATOMIC_RELAXED) != w->loop.beat || atomic_load(&w->serial) != w->loop.serial;
}

/* The worker has gone round its event loop, or waits there, or a turn has begun. */
static void begin_loop(struct pf_watch *w, uint64_t now)
{
	struct pf_blocked *b = w->loop.seen ? new_blocked(w) : NULL;

	if (b) {
		uint64_t *words = b->words;

		*b = w->loop.blocked;
		b->words = words;
		memset(words, 0, w->words * sizeof *words);
		words[0] = now - w->loop.since;
		b->ended = 1;
	}
	w->loop.beat = __atomic_load_n(w->beat, __ATOMIC_RELAXED);
	w->loop.serial = atomic_load(&w->serial);
	w->loop.seen = 0;
	w->loop.since = now;
	w->told = 0;
}

static void look_between(struct pf_watch *w, uint64_t now)
{
	const int waits = pf_watch_waits(w);
	const uint64_t ns = now - w->loop.since;

	w->loop.waits |= waits;
	if (waits || beats(w) || !w->loop.waits) {
		begin_loop(w, now);
	} else if (!w->loop.seen && ns > w->limit + BEAT_NS) {
		look_at(w, w->loop.serial, ns);
		w->loop.blocked = w->look;
		w->loop.seen = !beats(w) && !pf_watch_is_loop_wait(w->look.call);
	} else if (w->loop.seen && w->tells && w->told != w->loop.serial && ns >= patience(w)) {
		tell(w, w->loop.serial, ns);
	}
}

static void look(struct pf_watch *w)
{
	uint32_t serial = atomic_load(&w->serial);
	uint64_t began = atomic_load(&w->began), now = pf_wall_ns();

	if (atomic_load(&w->serial) != serial)
		return; /* `began` may be of another turn */
	if (w->beat && began && w->loop.seen)
		begin_loop(w, now);
	else if (w->beat && !began)
		look_between(w, now);
	if (began && now >= began + w->limit / 2)
		atomic_store(&w->half, serial);
	if (!began || now < began + w->limit)
		return;
	if (w->seen != serial)
		keep(w, serial, now - began);
	else if (w->tells && w->told != serial && now >= began + patience(w))
		tell(w, serial, now - began);
}

int pf_watch_name(struct pf_watch *w, enum pf_watch_kind kind, uint32_t number, const char *text)
{
	char *copy, **names;
	int r;

	if (pf_inherited(w->generation))
		return -ECHILD;
	copy = strdup(text);
	r = copy ? 0 : -ENOMEM;
	pthread_mutex_lock(&w->mutex);
	if (r == 0 && number >= w->names[kind]) {
		names = realloc(w->name[kind], (number + (size_t)1) * sizeof *names);
		if (names) {
			memset(names + w->names[kind], 0, (number + (size_t)1 - w->names[kind]) * sizeof *names);
			w->name[kind] = names;
			w->names[kind] = number + 1;
		} else {
			r = -ENOMEM;
		}
	}
	if (r == 0) {
		free(w->name[kind][number]);
		w->name[kind][number] = copy;
		copy = NULL;
	}
	pthread_mutex_unlock(&w->mutex);
	free(copy);
	return r;
}

void pf_watch_ended(struct pf_watch *w, uint64_t ns, const uint64_t *now, const uint64_t *before, const char *uri, size_t size)
{
	uint32_t serial = atomic_load(&w->serial);
	struct pf_blocked *b;

	if (pf_inherited(w->generation))
		return;
	pthread_mutex_lock(&w->mutex);
	b = &w->kept[(w->next - 1) % PF_WATCH_KEPT];
	if (w->next == w->first || b->serial != serial) {
		b = new_blocked(w);
		if (b) {
			b->serial = serial;
			b->phase = atomic_load(&w->phase);
			b->seen_ns = 0;
			b->call = PF_WATCH_UNKNOWN;
			b->n = b->ended = 0;
		}
	}
	if (b) {
		if (!b->ended)
			memset(b->words, 0, w->words * sizeof *b->words);
		b->words[0] += ns;
		for (uint32_t i = 1; now && i < w->words; i++)
			b->words[i] += now[i] - before[i];
		b->ended = 1;
		b->route = atomic_load(&w->route); /* it may have changed since the turn was seen */
		b->uri_size = (uint32_t)(size < PF_WATCH_URI ? size : PF_WATCH_URI);
		if (b->uri_size)
			memcpy(b->uri, uri, b->uri_size);
	}
	pthread_mutex_unlock(&w->mutex);
}

void pf_watch_merge(struct pf_watch *w, uint32_t route, uint32_t other)
{
	uint32_t of_turn = route;

	if (pf_inherited(w->generation))
		return;
	atomic_compare_exchange_strong(&w->route, &of_turn, other);
	pthread_mutex_lock(&w->mutex);
	for (uint32_t i = w->first; i != w->next; i++)
		if (w->kept[i % PF_WATCH_KEPT].route == route)
			w->kept[i % PF_WATCH_KEPT].route = other;
	pthread_mutex_unlock(&w->mutex);
}

/* Note the time zone for the watcher. Its thread must not call localtime_r: the C library locks a mutex there, which the child of a fork
 * would find locked. */
static void note_offset(struct pf_watch *w)
{
	const time_t now = time(NULL);
	struct tm tm = {0};

	localtime_r(&now, &tm);
	atomic_store(&w->gmt_offset, tm.tm_gmtoff);
}

int pf_watch_take(struct pf_watch *w, struct pf_blocked *b)
{
	uint64_t *words = b->words;
	const struct pf_blocked *from = &w->kept[w->first % PF_WATCH_KEPT];
	int found;

	if (pf_inherited(w->generation))
		return 0;
	note_offset(w);
	pthread_mutex_lock(&w->mutex);
	found = w->next != w->first && (from->ended || from->serial != atomic_load(&w->serial) || !atomic_load(&w->began));
	if (found) {
		w->first++;
		*b = *from;
		b->words = words;
		memcpy(words, from->words, w->words * sizeof *words);
	}
	pthread_mutex_unlock(&w->mutex);
	return found;
}

/* --- the thread ------------------------------------------------------------------------------- */

static void *watch(void *arg)
{
	struct pf_watch *w = arg;

	pthread_mutex_lock(&w->mutex);
	while (!w->stop) {
		struct timespec until = pf_clock_after((int64_t)w->limit / 4);

		while (!w->stop && pthread_cond_timedwait(&w->changed, &w->mutex, &until) == 0)
			continue;
		if (!w->stop)
			look(w);
	}
	pthread_mutex_unlock(&w->mutex);
	return NULL;
}

int pf_watch_start(struct pf_watch *w)
{
	sigset_t all, before;
	int r;

	for (int i = 0; i < PF_WATCH_KEPT; i++) {
		w->kept[i].words = calloc(w->words, sizeof *w->kept[i].words);
		if (!w->kept[i].words)
			return -ENOMEM;
	}
	r = pf_watch_open_stacks(w);
	if (r < 0)
		return r;
	note_offset(w);
	w->generation = pf_fork_generation();
	pthread_mutex_init(&w->mutex, NULL);
	pf_clock_condition(&w->changed);
	/* The program's signals must be handled by its own threads. */
	sigfillset(&all);
	sigdelset(&all, SIGSEGV);
	sigdelset(&all, SIGBUS);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	r = -pthread_create(&w->thread, NULL, watch, w);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	w->running = 1;
	if (r < 0) {
		w->running = 2;
		pf_watch_stop(w);
	}
	return r;
}

void pf_watch_stop(struct pf_watch *w)
{
	if (w->running == 1 && !pf_inherited(w->generation)) {
		pthread_mutex_lock(&w->mutex);
		w->stop = 1;
		pthread_cond_signal(&w->changed);
		pthread_mutex_unlock(&w->mutex);
		pthread_join(w->thread, NULL);
	}
	if (w->running)
		pf_watch_close_stacks(w);
	w->running = 0;
	for (int i = 0; i < PF_WATCH_KEPT; i++) {
		free(w->kept[i].words);
		w->kept[i].words = NULL;
	}
	for (int kind = 0; kind < PF_WATCH_KINDS; kind++) {
		for (uint32_t i = 0; i < w->names[kind]; i++)
			free(w->name[kind][i]);
		free(w->name[kind]);
		w->name[kind] = NULL;
		w->names[kind] = 0;
	}
}
