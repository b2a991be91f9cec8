/* See watch_stack.h. */
#include "core/resty/watch_stack.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "core/base/signal.h"
#include "core/base/signal_stack.h"
#include "core/base/sys.h"
#include "core/base/thread.h"
#include "core/stack/own_thread.h"
#include "core/stack/sampling.h"

enum { TRIES = 3, PATIENCE_NS = 20000, MOST_NAPS = 500 };
enum { IDLE, ASKED, LOOKING }; /* values of `asked` */

static _Atomic(struct pf_watch *) watcher; /* the one of this process */
static PF_THREAD_LOCAL const struct pf_watch *watches_me; /* set in the worker's thread */

static void on_signal(int sig, siginfo_t *info, void *context, unsigned layer);
static struct pf_signal urgent;
PF_SIGNAL_HANDLERS(on_signal, &urgent)

static struct pf_signal urgent = {.number = SIGURG, .flags = SA_RESTART | SA_ONSTACK, .layer = PF_SIGNAL_LAYERS_OF(on_signal)};

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
	b->outside = w->unwind && u.state == PF_OUTSIDE && u.failed == PF_UNWIND_COMPLETE;
}

/* Runs in the worker's thread. */
static void on_signal(int sig, siginfo_t *info, void *context, unsigned layer)
{
	struct pf_watch *w = atomic_load(&watcher);
	struct pf_registers r;
	int before = errno, asked = ASKED;

	if (!w || !info || info->si_code != SI_TKILL || info->si_pid != getpid() || !atomic_exchange(&w->sent, 0)) {
		pf_signal_pass_on(&urgent, layer, sig, info, context);
		return;
	}
	if (!atomic_compare_exchange_strong(&w->asked, &asked, LOOKING))
		return; /* it comes too late */
	if (!pf_signal_stack_is_small(context) && atomic_load(&w->serial) == w->asked_serial) {
		pf_own_registers(context, &r);
		r.stack_end = pf_own_stack_end(r.sp);
		unwind(w, &r, pf_own_memory(context), &w->look);
		w->look.call = PF_WATCH_RUNNING;
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
		return PF_WATCH_UNKNOWN;
	text[n] = '\0';
	if (sscanf(text, "%ld %*s %*s %*s %*s %*s %*s %llx %llx", &number, &sp, &ip) != 3)
		return PF_WATCH_RUNNING;
	memset(r, 0, sizeof *r);
	r->sp = sp;
	r->ip = ip;
	return number < 0 ? PF_WATCH_RUNNING : number;
}

/* A worker waits for events in this system call, and blocks in any other one. */
int pf_watch_is_loop_wait(long call)
{
#ifdef SYS_epoll_wait
	if (call == SYS_epoll_wait)
		return 1;
#endif
#ifdef SYS_epoll_pwait2
	if (call == SYS_epoll_pwait2)
		return 1;
#endif
	return call == SYS_epoll_pwait;
}

static void ask_thread(struct pf_watch *w, uint32_t serial)
{
	const struct timespec nap = {.tv_nsec = PATIENCE_NS};
	int asked = ASKED;

	w->asked_serial = serial;
	atomic_store(&w->asked, ASKED);
	/* If the signal of the last time has not arrived yet, it serves for this time too. */
	if (!atomic_exchange(&w->sent, 1) && syscall(SYS_tgkill, getpid(), w->tid, SIGURG) < 0)
		atomic_store(&w->sent, 0);
	for (int i = 0; i < MOST_NAPS && atomic_load(&w->asked) != IDLE; i++)
		nanosleep(&nap, NULL);
	/* Wait for the end of a handler that has begun, since it writes to `look`. */
	if (!atomic_compare_exchange_strong(&w->asked, &asked, IDLE))
		while (atomic_load(&w->asked) != IDLE)
			nanosleep(&nap, NULL);
}

void pf_watch_take_stack(struct pf_watch *w, uint32_t serial)
{
	char text[256], again[256];
	struct pf_registers r, other;

	w->look.n = w->look.outside = 0;
	for (int i = 0; i < TRIES && w->look.n == 0 && !w->look.outside; i++) {
		w->look.call = system_call(w, text, &r);
		if (w->look.call == PF_WATCH_RUNNING) {
			ask_thread(w, serial);
		} else if (w->look.call >= 0) {
			unwind(w, &r, pf_own_memory(NULL), &w->look);
			if (system_call(w, again, &other) != w->look.call || strcmp(text, again) != 0)
				w->look.n = w->look.outside = 0;
		} else {
			return;
		}
	}
}

int pf_watch_waits(const struct pf_watch *w)
{
	char text[256];
	struct pf_registers r;

	return pf_watch_is_loop_wait(system_call(w, text, &r));
}

int pf_watch_open_stacks(struct pf_watch *w)
{
	struct pf_watch *none = NULL;
	char path[64];

	if (!atomic_compare_exchange_strong(&watcher, &none, w))
		return -EBUSY;
	w->tid = (int)syscall(SYS_gettid);
	pf_own_stack_find();
	pf_signal_stack_take();
	watches_me = w;
	snprintf(path, sizeof path, "/proc/self/task/%d/syscall", w->tid);
	w->syscall_fd = pf_sys->open(path, O_RDONLY, 0); /* without it, turns are seen without a stack */
	pf_signal_take(&urgent);
	return 0;
}

void pf_watch_close_stacks(struct pf_watch *w)
{
	pf_signal_give(&urgent, w->generation);
	if (watches_me == w) {
		pf_signal_stack_give();
		watches_me = NULL;
	}
	if (w->syscall_fd >= 0)
		pf_sys->close(w->syscall_fd);
	atomic_store(&watcher, NULL);
}
