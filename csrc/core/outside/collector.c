/* See collector.h. */
#include "core/outside/collector.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/sys.h"
#include "core/base/thread.h"
#include "core/outside/maps.h"
#include "core/stack/places.h"
#include "core/stack/sampling.h"

/* --- stacks ------------------------------------------------------------------------------------------------------------- */

enum { NATIVE = 250 }; /* the most native frames of a sample; fewer than PF_STACK_DEPTH */

struct sample {
	struct pf_places places;
	struct pf_collector *c;
	struct pf_target *t;
	const struct pf_snapshot_head *s;
	int unknown; /* a thread that the snapshot lacks */
};

/* The number of a C function, which is identified by its image and its place there. */
static uint32_t c_function(struct pf_places *p, const struct pf_place *place)
{
	const struct sample *s = (const struct sample *)(const void *)p; /* its first member */
	struct pf_function f = {.source_key = place->function, .line = PF_PLACES_C};
	uint32_t i;

	if (place->kind == PF_PLACE_BUILTIN) {
		f.source_key -= s->s->global;
		f.line = PF_PLACES_BUILTIN;
	} else {
		f.hash = pf_image_at(s->c, s->t, &f.source_key);
		if (!f.hash)
			f.source_key = 0; /* such functions get no name, so all of them have one number */
	}
	i = pf_stacks_find_function(p->stacks, f.source_key, f.hash, f.line);
	return i ? i : pf_stacks_add_function(p->stacks, &f);
}

/* The function `found` of a struct pf_unwound. It ends the stack at a thread that the snapshot lacks, which may run on meanwhile. */
static int found(void *to, const struct pf_place *place)
{
	struct sample *s = to;

	s->unknown = !pf_reader_has_thread(s->c->reader, place->thread);
	return s->unknown || pf_places_add(&s->places, place);
}

static void registers_of(const struct pf_snapshot_head *s, struct pf_registers *r)
{
#if defined __aarch64__
	r->n = PF_ARM64_REGISTERS;
	r->kept = PF_ARM64_KEPT;
#else
	r->n = PF_X86_REGISTERS;
	r->kept = PF_X86_KEPT;
#endif
	r->ip = s->ip;
	r->sp = s->sp;
	memcpy(r->general, s->general, sizeof r->general);
}

static void unwind(struct sample *s, struct pf_unwound *u)
{
	struct pf_collector *c = s->c;
	struct pf_registers r;

	registers_of(s->s, &r);
	r.stack_end = s->s->stack_end;
	s->unknown = 0;
	s->places = (struct pf_places){.stacks = &c->stacks, .memory = &c->reader->m, .frames = c->frames, .most = PF_STACK_DEPTH,
				     .c_function = c_function};
	*u = (struct pf_unwound){.found = found, .to = s, .alone = c->alone};
	if (c->interpreter.is_puc)
		pf_unwind_puc(&s->t->puc, s->s->global, &r, &c->reader->m, u);
	else
		pf_unwind_luajit(&s->t->luajit, s->s->global, &r, &c->reader->m, u);
	if (s->unknown && u->failed == PF_UNWIND_COMPLETE)
		u->failed = PF_UNWIND_NO_THREAD;
	if (s->places.deep || s->s->flags & PF_SNAPSHOT_CUT || (u->failed && s->s->flags & PF_SNAPSHOT_FULL))
		u->failed = PF_UNWIND_DEEP;
}

/* Unwind once more, with what the process has now. Returns whether the stack is the same. */
static int is_confirmed(struct sample *s, struct pf_unwound *u)
{
	const unsigned n = s->places.n;

	memcpy(s->c->frames_before, s->c->frames, n * sizeof *s->c->frames);
	pf_reader_again(s->c->reader, 1);
	unwind(s, u);
	return s->places.n == n && memcmp(s->c->frames_before, s->c->frames, n * sizeof *s->c->frames) == 0;
}

/* Most stacks need nothing but the snapshot. The others need objects which may be freed before they are read from the process; their
 * memory may then belong to other objects, and others again before the check. So the stack is unwound once more after the check, and
 * both must be the same. */
static void unwind_from(struct sample *s, struct pf_unwound *u)
{
	struct pf_reader *r = s->c->reader;

	unwind(s, u);
	if (!r->missed || (pf_reader_is_current(r) && is_confirmed(s, u)))
		return;
	pf_reader_again(r, 0);
	unwind(s, u);
	u->failed = PF_UNWIND_GONE;
}

/* Add the kernel's functions, and the C functions, to a stack. Here the callers of Lua are not distinguished from what Lua has called. */
static uint32_t with_native(struct sample *s, uint32_t node)
{
	struct pf_stacks *to = &s->c->stacks;
	const struct pf_piece *kernel = s->c->reader->kernel;
	struct pf_c_frame f = {.called = 0};
	uint32_t *frames = s->c->frames;
	unsigned n = 0;
	uint64_t ip;

	for (; kernel && n < kernel->size / sizeof ip; n++) {
		memcpy(&ip, (const uint8_t *)(kernel + 1) + n * sizeof ip, sizeof ip);
		frames[n] = pf_stacks_frame(to, PF_FRAME_KERNEL, ip, 0);
	}
	registers_of(s->s, &f.r);
	while (n < NATIVE && s->t->maps && f.r.ip) {
		uint64_t at = f.r.ip;
		const unsigned image = pf_image_at(s->c, s->t, &at);

		frames[n++] = pf_stacks_frame(to, PF_FRAME_USER, at, image);
		if (pf_c_frame_leave(&s->t->code, &s->c->reader->m, &f) < 0)
			break;
	}
	return pf_stacks_path(to, node, frames, n);
}

/* The node of a sample's stack, on top of which is what the thread did instead of running Lua; 0 without memory. */
static uint32_t node_of(struct sample *s, int state)
{
	struct pf_stacks *to = &s->c->stacks;
	const uint32_t label = s->t ? pf_label_frame(s->c, s->t, s->s->label) : 0, below = label ? pf_stacks_child(to, 0, label) : 0;
	uint32_t node = pf_stacks_path(to, below, s->places.frames, s->places.n);

	if ((s->places.n || label) && !node)
		return 0;
	if (state != PF_AT_LUA)
		node = pf_stacks_child(to, node, pf_stacks_frame(to, PF_FRAME_STATE, (uint64_t)state, 0));
	/* Without a target, the reader still points to the sample before, which is freed; this sample may have its address. */
	return s->c->native && node && s->t && s->c->reader->s == s->s ? with_native(s, node) : node;
}

/* Search for the states of a process that the BPF program does not know. Returns whether the snapshot has a state, as it has if the
 * process still has those of its ancestor. */
static int is_known(struct pf_collector *c, struct pf_target *t, const struct pf_snapshot_head *s)
{
	if (t->n <= 0)
		pf_target_search_again(c, t);
	if (s->global && !t->maps)
		pf_target_adopt(c, t, (pid_t)s->ancestor);
	return s->global != 0;
}

void pf_collector_weight(struct pf_collector *c, uint32_t node, uint64_t weight)
{
	pf_stacks_add(&c->stacks, node, weight, 0); /* cannot fail: the node has a sum already */
	c->sum += weight;
}

static void take(struct pf_collector *c, const struct pf_snapshot_head *s, size_t size)
{
	struct pf_target *t = pf_target_of(c, (pid_t)s->pid);
	struct sample sample = {.c = c, .s = s, .t = t};
	struct pf_unwound u = {.state = PF_UNSAMPLED, .failed = PF_UNWIND_NO_STATE};
	uint32_t node;
	int state;
	int begun = -EINVAL;

	if (pf_counted_has(c, s))
		return;
	if (t) {
		pf_target_seen(c, t, s);
		pf_process_choose(&c->reader->process, t->pid, t->program);
		begun = pf_reader_begin(c->reader, s, size, &t->fixed);
	}
	if (begun > 0)
		pf_collector_tell(c->maps.known, &s->objects, &c->ns);
	if (begun < 0) {
		u.failed = PF_UNWIND_UNREADABLE;
	} else if (s->flags & PF_SNAPSHOT_UNKNOWN && !is_known(c, t, s)) {
		if (t->n <= 0) { /* it runs no Lua */
			u.state = PF_OUTSIDE;
			u.failed = PF_UNWIND_COMPLETE;
		}
	} else if (!s->global) {
		u.state = PF_OUTSIDE;
		u.failed = PF_UNWIND_COMPLETE;
	} else {
		if (!t->maps)
			pf_target_search_again(c, t);
		unwind_from(&sample, &u);
	}
	if (t && u.state == PF_OUTSIDE)
		pf_target_search_again(c, t);
	c->samples++; /* not before, since the collector may be paused in a search */
	c->failures[u.failed]++;
	state = pf_places_state(&sample.places, &u);
	c->resolved += sample.places.n > 0;
	node = node_of(&sample, state);
	if (pf_stacks_add(&c->stacks, node, 0, 1) < 0) {
		node = 0;
		pf_stacks_add(&c->stacks, 0, 0, 1);
	}
	if (s->stack && node && u.failed == PF_UNWIND_COMPLETE && sample.places.n)
		pf_counted_know(c, s->stack, node);
	if (s->flags & PF_SNAPSHOT_SWITCH)
		pf_off_cpu_add(c, s, node);
	else
		pf_collector_weight(c, node, s->weight);
}

/* --- the ring ------------------------------------------------------------------------------------------------------------- */

/* The format of BPF's ring: a record has a head of 8 bytes, its size with two flags, and is padded to 8 bytes. */
enum { HEAD = 8, QUEUE = 1 << 28 /* bytes */ };
static const uint32_t BUSY = UINT32_C(1) << 31, DISCARDED = UINT32_C(1) << 30;

/* There is no memory for a sample. */
static void drop(struct pf_collector *c, const struct pf_snapshot_head *s)
{
	c->dropped++;
	c->dropped_weight += s->weight;
}

/* Take a record out of the ring, into the queue. Returns 0 if there is none, or no room for it. A sample for which there is no memory is
 * dropped; the return of a thread to its CPU stays in the ring. */
static int take_out(struct pf_collector *c)
{
	const uint8_t *const data = c->producer + sysconf(_SC_PAGESIZE);
	const uint64_t at = *c->consumer, end = __atomic_load_n((const uint64_t *)(const void *)c->producer, __ATOMIC_ACQUIRE);
	const uint8_t *record = data + (at & (c->data_size - 1));
	struct pf_queued *q = NULL;
	uint32_t size;

	if (at >= end || c->queue.bytes > QUEUE)
		return 0;
	size = __atomic_load_n((const uint32_t *)(const void *)record, __ATOMIC_ACQUIRE);
	if (size & BUSY)
		return 0;
	if (!(size & DISCARDED)) {
		q = malloc(sizeof *q + size);
		if (!q && size == sizeof(struct pf_switched_in))
			return 0;
		if (!q)
			drop(c, (const void *)(record + HEAD));
	}
	if (q) {
		memcpy(q + 1, record + HEAD, size);
		q->size = size;
		q->at = at;
		q->next = NULL;
		*c->queue.last = q;
		c->queue.last = &q->next;
		c->queue.bytes += size;
		c->queue.n++;
	}
	__atomic_store_n(c->consumer, at + (((size & ~DISCARDED) + HEAD + 7) & ~UINT64_C(7)), __ATOMIC_RELEASE);
	return 1;
}

/* The CPU time of this thread. */
static void set_time(struct pf_collector *c)
{
	struct timespec now;

	if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now) == 0)
		c->ns = (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static void wait_for(sem_t *s)
{
	while (sem_wait(s) < 0) /* EINTR */
		;
}

static void pause_now(struct pf_collector *c)
{
	pf_off_cpu_so_far(c, pf_clock_ns(CLOCK_MONOTONIC));
	pf_counted_add(c);
	set_time(c);
	c->before_pause = 0;
	atomic_store(&c->pausing, 0);
	sem_post(&c->paused);
	wait_for(&c->resumed);
}

/* If the owner asks for a pause, it begins when those that are queued now have been read. */
static void pause_if_asked(struct pf_collector *c)
{
	if (!atomic_load(&c->pausing))
		return;
	if (!c->before_pause)
		c->before_pause = c->queue.n + 1;
	if (--c->before_pause == 0)
		pause_now(c);
}

int pf_collector_ends(void *owner)
{
	struct pf_collector *c = owner;

	while (take_out(c))
		;
	if (atomic_load(&c->pausing))
		pause_now(c);
	return atomic_load(&c->stopping);
}

/* Read the samples that are in the ring or in the queue now, and no later ones, which may come faster than they are read. Before each
 * sample the ring is emptied into the queue, since the ring is small and unwinding takes long. */
static void drain(struct pf_collector *c)
{
	const uint64_t end = __atomic_load_n((const uint64_t *)(const void *)c->producer, __ATOMIC_ACQUIRE);

	for (;;) {
		struct pf_queued *q;

		while (take_out(c))
			;
		pause_if_asked(c);
		pf_keys_renew(c);
		q = c->queue.first;
		if (!q || q->at >= end)
			return;
		if (q->size == sizeof(struct pf_switched_in))
			pf_off_cpu_return(c, (const void *)(q + 1));
		else
			take(c, (const void *)(q + 1), q->size);
		c->queue.first = q->next;
		if (!q->next)
			c->queue.last = &c->queue.first;
		c->queue.bytes -= q->size;
		c->queue.n--;
		free(q);
	}
}

/* The BPF program wakes this thread only for samples that cannot wait. */
static void *run(void *p)
{
	enum { LOOK_MS = 50 };

	struct pf_collector *c = p;
	struct pollfd fds[] = {{.fd = c->maps.ring, .events = POLLIN}, {.fd = c->wake[0], .events = POLLIN}};
	char byte;

	while (!atomic_load(&c->stopping)) {
		drain(c);
		pf_off_cpu_ended(c);
		pf_targets_forget(c);
		if (pf_sys->poll(fds, 2, c->queue.first ? 0 : LOOK_MS) > 0 && fds[1].revents)
			pf_sys->read(c->wake[0], &byte, 1);
	}
	drain(c);
	pf_off_cpu_so_far(c, c->stopped);
	pf_counted_add(c);
	set_time(c);
	return NULL;
}

/* --- the collector ---------------------------------------------------------------------------------------------------------- */

int pf_collector_init(struct pf_collector *c, const struct pf_interpreter *i, const struct pf_snapshot_maps *maps,
		      size_t ring_size, unsigned cpus)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	void *map = NULL;
	int r;

	c->interpreter = *i;
	c->generation = pf_fork_generation();
	c->wake[0] = c->wake[1] = -1;
	c->maps = *maps;
	c->data_size = ring_size;
	c->cpus = cpus;
	c->queue.last = &c->queue.first;
	sem_init(&c->paused, 0, 0);
	sem_init(&c->resumed, 0, 0);
	c->reader = malloc(sizeof *c->reader);
	c->frames = malloc(2 * PF_STACK_DEPTH * sizeof *c->frames);
	c->keys = calloc((size_t)2 * PF_SNAPSHOT_STACKS, sizeof *c->keys);
	c->runs = calloc((size_t)2 * cpus, sizeof *c->runs);
	if (!c->reader || pf_reader_init(c->reader) < 0 || !c->frames || !c->keys || !c->runs)
		return -ENOMEM;
	c->frames_before = c->frames + PF_STACK_DEPTH;
	pf_states_stable(&c->interpreter, c->reader);
	r = pf_stacks_init(&c->stacks);
	if (r == 0)
		r = pf_stacks_add(&c->stacks, 0, 0, 0);
	if (r == 0)
		r = pf_sys->pipe(c->wake);
	if (r == 0)
		r = pf_sys->mmap(&map, page, PROT_READ | PROT_WRITE, MAP_SHARED, maps->ring, 0);
	if (r == 0) {
		c->consumer = map;
		r = pf_sys->mmap(&map, page + 2 * ring_size, PROT_READ, MAP_SHARED, maps->ring, (off_t)page);
	}
	if (r < 0)
		return r;
	c->producer = map;
	c->own_maps = pf_maps_text(0, &r);
	return c->own_maps ? 0 : r;
}

int pf_collector_start(struct pf_collector *c)
{
	sigset_t all, before;
	int r;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	r = -pthread_create(&c->thread, NULL, run, c);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	c->running = c->started = r == 0;
	return r;
}

void pf_collector_pause(struct pf_collector *c)
{
	atomic_store(&c->pausing, 1);
	pf_sys->write(c->wake[1], "", 1);
	wait_for(&c->paused);
	c->is_paused = 1;
}

void pf_collector_resume(struct pf_collector *c)
{
	c->is_paused = 0;
	sem_post(&c->resumed);
}

void pf_collector_stop(struct pf_collector *c)
{
	if (!c->running)
		return;
	c->running = 0;
	if (pf_inherited(c->generation)) /* the thread is the parent's */
		return;
	c->stopped = pf_clock_ns(CLOCK_MONOTONIC);
	atomic_store(&c->stopping, 1);
	if (c->is_paused) /* a finalizer has closed the Lua state while the results were read */
		pf_collector_resume(c);
	pf_sys->write(c->wake[1], "", 1);
	pthread_join(c->thread, NULL);
}

static void free_results(struct pf_collector *c)
{
	for (unsigned i = 0; i < c->targets_n; i++)
		pf_target_free(c->targets[i]);
	for (unsigned i = 0; i < c->images_n; i++)
		free(c->images[i].maps);
	free(c->targets);
	free(c->off);
	free(c->images);
	pf_reader_free(c->reader);
	free(c->frames);
	free(c->keys);
	free(c->runs);
	free(c->own_maps);
	pf_stacks_free(&c->stacks);
}

void pf_collector_free(struct pf_collector *c)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);

	pf_collector_stop(c);
	if (!c->started || !pf_inherited(c->generation)) /* in the child of a fork, they may be half changed: the thread is the parent's */
		free_results(c);
	else
		pf_process_choose(&c->reader->process, 0, 0);
	if (c->consumer)
		pf_sys->munmap(c->consumer, page);
	if (c->producer)
		pf_sys->munmap((void *)(uintptr_t)c->producer, page + 2 * c->data_size);
	for (int i = 0; i < 2; i++)
		if (c->data_size && c->wake[i] >= 0) /* one may be 0, if the program had closed its standard input */
			pf_sys->close(c->wake[i]);
	memset(c, 0, sizeof *c);
}
