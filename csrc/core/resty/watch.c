/* See watch.h. */
#include "core/resty/watch.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/signal.h"
#include "core/base/sys.h"
#include "core/base/thread.h"
#include "core/stack/own_thread.h"

enum { RUNNING = -1, UNKNOWN = -2, TRIES = 3, PATIENCE_NS = 20000, MOST_NAPS = 500 };
enum { LONG_NS = 1000000000 };
enum { IDLE, ASKED, LOOKING }; /* values of `asked` */

static _Atomic(struct pf_watch *) watcher; /* the one of this process */

static void on_signal(int sig, siginfo_t *info, void *context);

static struct pf_signal urgent = {.number = SIGURG, .handler = on_signal, .flags = SA_RESTART | SA_ONSTACK};

/* --- stacks ---------------------------------------------------------------------------------- */

struct collector {
	struct pf_blocked *b;
	const struct pf_memory *m;
};

static int add_place(void *to, const struct pf_place *place)
{
	const struct collector *c = to;
	struct pf_watch_place *p;
	size_t n = place->source_size < PF_WATCH_NAME - 1 ? place->source_size : PF_WATCH_NAME - 1;

	if (c->b->n == PF_WATCH_PLACES)
		return 1;
	p = &c->b->place[c->b->n++];
	p->kind = place->kind;
	p->line = place->line;
	p->linedefined = place->linedefined;
	if (place->kind != PF_PLACE_LUA || !place->source || c->m->read(c->m, p->name, place->source, n) < 0)
		n = 0;
	p->name[n] = '\0';
	return 0;
}

static void unwind(const struct pf_watch *w, const struct pf_registers *r, const struct pf_memory *m, struct pf_blocked *b)
{
	struct collector c = {b, m};
	struct pf_unwound u = {.found = add_place, .to = &c};

	b->n = 0;
	if (w->unwind)
		w->unwind(w->owner, r, m, &u);
}

/* Runs in the worker's thread. */
static void on_signal(int sig, siginfo_t *info, void *context)
{
	struct pf_watch *w = atomic_load(&watcher);
	struct pf_registers r;
	int before = errno, asked = ASKED;

	if (!w || info->si_code != SI_TKILL || info->si_pid != getpid() || !atomic_exchange(&w->sent, 0)) {
		pf_signal_pass_on(&urgent, sig, info, context);
		return;
	}
	if (!atomic_compare_exchange_strong(&w->asked, &asked, LOOKING))
		return; /* it comes too late */
	if (atomic_load(&w->serial) == w->asked_serial && atomic_load(&w->began)) {
		pf_own_registers(context, &r);
		unwind(w, &r, pf_own_memory(context), &w->look);
		w->look.call = RUNNING;
	}
	atomic_store(&w->asked, IDLE);
	errno = before;
}

/* Find the system call that the worker is in. Returns its number, its description in text, and the stack pointer and address in
 * r. */
static long system_call(const struct pf_watch *w, char text[256], struct pf_registers *r)
{
	ssize_t n = w->syscall_fd >= 0 ? pf_sys->pread(w->syscall_fd, text, 255, 0) : -1;
	unsigned long long sp = 0, ip = 0;
	long number;

	if (n <= 0)
		return UNKNOWN;
	text[n] = '\0';
	if (sscanf(text, "%ld %*s %*s %*s %*s %*s %*s %llx %llx", &number, &sp, &ip) != 3)
		return RUNNING;
	memset(r, 0, sizeof *r);
	r->sp = sp;
	r->ip = ip;
	return number < 0 ? RUNNING : number;
}

static void ask_thread(struct pf_watch *w, uint32_t serial)
{
	const struct timespec nap = {.tv_nsec = PATIENCE_NS};
	int asked = ASKED;

	w->asked_serial = serial;
	atomic_store(&w->asked, ASKED);
	/* A signal that has not arrived since the last time serves as well. */
	if (!atomic_exchange(&w->sent, 1) && syscall(SYS_tgkill, getpid(), w->tid, SIGURG) < 0)
		atomic_store(&w->sent, 0);
	for (int i = 0; i < MOST_NAPS && atomic_load(&w->asked) != IDLE; i++)
		nanosleep(&nap, NULL);
	/* A handler that has begun is waited for, since it writes to `look`. */
	if (!atomic_compare_exchange_strong(&w->asked, &asked, IDLE))
		while (atomic_load(&w->asked) != IDLE)
			nanosleep(&nap, NULL);
}

static void take_stack(struct pf_watch *w, uint32_t serial)
{
	char text[256], again[256];
	struct pf_registers r, other;

	w->look.n = 0;
	for (int i = 0; i < TRIES && w->look.n == 0; i++) {
		w->look.call = system_call(w, text, &r);
		if (w->look.call == RUNNING) {
			ask_thread(w, serial);
		} else if (w->look.call >= 0) {
			unwind(w, &r, pf_own_memory(NULL), &w->look);
			if (system_call(w, again, &other) != w->look.call || strcmp(text, again) != 0)
				w->look.n = 0;
		} else {
			return;
		}
	}
}

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

/* Take what is to be seen of the open turn. */
static void look_at(struct pf_watch *w, uint32_t serial, uint64_t ns)
{
	w->look.serial = serial;
	w->look.route = atomic_load(&w->route);
	w->look.phase = atomic_load(&w->phase);
	w->look.seen_ns = ns;
	w->look.ended = w->look.uri_size = 0;
	pthread_mutex_unlock(&w->mutex);
	take_stack(w, serial);
	pthread_mutex_lock(&w->mutex);
}

static void keep(struct pf_watch *w, uint32_t serial, uint64_t ns)
{
	struct pf_blocked *b;
	uint64_t *words;

	w->seen = serial;
	look_at(w, serial, ns);
	/* The turn may have ended meanwhile. Then the ring's newest entry is this turn, without a stack. */
	b = &w->kept[(w->next - 1) % PF_WATCH_KEPT];
	if (w->next == w->first || b->serial != serial) {
		if (atomic_load(&w->serial) != serial)
			return; /* it ended and was taken already */
		b = new_blocked(w);
	} else {
		w->look.ended = 1;
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

static void tell(struct pf_watch *w, uint32_t serial, uint64_t ns)
{
	w->told = serial;
	look_at(w, serial, ns);
	if (atomic_load(&w->serial) == serial)
		pf_watch_tell(&w->look, name_of(w, PF_WATCH_ROUTE, w->look.route), name_of(w, PF_WATCH_PHASE, w->look.phase), ns);
}

static void look(struct pf_watch *w)
{
	uint32_t serial = atomic_load(&w->serial);
	uint64_t began = atomic_load(&w->began), now = pf_wall_ns();
	uint64_t patience = 2 * w->limit > LONG_NS ? 2 * w->limit : LONG_NS;

	if (!began || now < began + w->limit)
		return;
	if (w->seen != serial)
		keep(w, serial, now - began);
	else if (w->tells && w->told != serial && now >= began + patience)
		tell(w, serial, now - began);
}

int pf_watch_name(struct pf_watch *w, enum pf_watch_kind kind, uint32_t number, const char *text)
{
	char *copy = strdup(text), **names;
	int r = copy ? 0 : -ENOMEM;

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

void pf_watch_ended(struct pf_watch *w, const uint64_t *now, const uint64_t *before, const char *uri, size_t size)
{
	uint32_t serial = atomic_load(&w->serial);
	struct pf_blocked *b;

	pthread_mutex_lock(&w->mutex);
	b = &w->kept[(w->next - 1) % PF_WATCH_KEPT];
	if (w->next == w->first || b->serial != serial) {
		b = new_blocked(w);
		if (b) {
			b->serial = serial;
			b->route = atomic_load(&w->route);
			b->phase = atomic_load(&w->phase);
			b->seen_ns = 0;
			b->call = UNKNOWN;
			b->n = b->ended = 0;
		}
	}
	if (b) {
		for (uint32_t i = 0; i < w->words; i++)
			b->words[i] = (b->ended ? b->words[i] : 0) + now[i] - before[i];
		b->ended = 1;
		b->uri_size = (uint32_t)(size < PF_WATCH_URI ? size : PF_WATCH_URI);
		if (b->uri_size)
			memcpy(b->uri, uri, b->uri_size);
	}
	pthread_mutex_unlock(&w->mutex);
}

int pf_watch_take(struct pf_watch *w, struct pf_blocked *b)
{
	uint64_t *words = b->words;
	const struct pf_blocked *from = &w->kept[w->first % PF_WATCH_KEPT];
	int found;

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
	struct pf_watch *none = NULL;
	sigset_t all, before;
	char path[64];
	int r;

	for (int i = 0; i < PF_WATCH_KEPT; i++) {
		w->kept[i].words = calloc(w->words, sizeof *w->kept[i].words);
		if (!w->kept[i].words)
			return -ENOMEM;
	}
	if (!atomic_compare_exchange_strong(&watcher, &none, w))
		return -EBUSY;
	w->tid = (int)syscall(SYS_gettid);
	w->generation = pf_fork_generation();
	snprintf(path, sizeof path, "/proc/self/task/%d/syscall", w->tid);
	w->syscall_fd = pf_sys->open(path, O_RDONLY, 0); /* without it, turns are seen without a stack */
	pthread_mutex_init(&w->mutex, NULL);
	pf_clock_condition(&w->changed);
	pf_signal_take(&urgent);
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
	if (w->running) {
		pf_signal_give(&urgent, w->generation);
		if (w->syscall_fd >= 0)
			pf_sys->close(w->syscall_fd);
		atomic_store(&watcher, NULL);
	}
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
