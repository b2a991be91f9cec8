/* The processes of a collector: their Lua states, and what the BPF program knows of them. See collector.h. */
#include "core/outside/collector.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/sys.h"
#include "core/outside/maps.h"
#include "core/stack/label.h"

enum { MAP_LOOKUP = 1, MAP_UPDATE = 2, MAP_DELETE = 3, FEW = 64 /* processes */ };
static const uint64_t SECOND = 1000000000, LONGEST_PAUSE = UINT64_C(64) * 1000000000;
/* A program that has just begun has no Lua state yet. The pause is doubled by each search that finds nothing new, so it grows with the
 * program's age. */
static const uint64_t FIRST_PAUSE = 1000000000 / 1000;
static const uint64_t YOUNG_PAUSE = 1000000000 / 10;
static const uint64_t COST = 4; /* a pause is at least so many times as long as the search */

/* Room for one more item in an array. Returns NULL without memory. */
static void *grown(void *items, unsigned n, unsigned *room, size_t size)
{
	void *more;

	if (n < *room)
		return items;
	more = realloc(items, (*room ? *room * 2 : 16) * size);
	if (more)
		*room = *room ? *room * 2 : 16;
	return more;
}

static void translate(const struct pf_collector *c, uint64_t *from, uint64_t *end, const char *maps)
{
	const uint64_t size = *end - *from;

	*from = *from && c->own_maps ? pf_maps_translate(c->own_maps, *from, maps) : 0;
	*end = *from ? *from + size : 0;
}

/* Find the functions of PUC Lua's interpreter in this process that the unwinder must know. In another build of the interpreter they are
 * not found, and the unwinder guesses the line. */
static void find_code(struct pf_collector *c, struct pf_target *t, const char *maps)
{
	struct pf_puc_layout *l = &t->puc;

	*l = c->interpreter.puc;
	translate(c, &l->loop.from, &l->loop.end, maps);
	translate(c, &l->collector.loop.from, &l->collector.loop.end, maps);
	for (unsigned i = 0; i < PF_PUC_COLLECTORS; i++)
		translate(c, &l->collector.functions[i].from, &l->collector.functions[i].end, maps);
	l->loop.code = &t->code;
	l->loop.unknown = c->interpreter.puc.loop.from && !l->loop.from;
}

static void set_luajit(struct pf_target *t, const struct pf_luajit_layout *l)
{
	t->luajit = *l;
	t->luajit.code = &t->code;
}

struct pf_target *pf_target_of(struct pf_collector *c, pid_t pid)
{
	struct pf_target **more, *t;

	for (unsigned i = 0; i < c->targets_n; i++)
		if (c->targets[i]->pid == pid) {
			c->targets[i]->has_ended = 0;
			return c->targets[i];
		}
	more = grown(c->targets, c->targets_n, &c->targets_room, sizeof *more);
	if (!more)
		return NULL;
	c->targets = more;
	t = calloc(1, sizeof *t);
	if (!t)
		return NULL;
	t->pid = pid;
	t->pause = FIRST_PAUSE;
	set_luajit(t, &c->interpreter.luajit);
	find_code(c, t, ""); /* it may end before its mappings are read */
	c->targets[c->targets_n++] = t;
	return t;
}

/* Does the chosen process have the states of another one? */
static int has_states_of(const struct pf_collector *c, const struct pf_target *other)
{
	for (int i = 0; i < other->n; i++)
		if (!pf_states_has(&c->interpreter, &other->luajit, &c->reader->process, other->global[i]))
			return 0;
	return 1;
}

/* A forked process has the states of its parent. If none of the other processes has states that all exist in this one, it gets none. */
static int find_inherited(struct pf_collector *c, struct pf_target *t)
{
	for (unsigned i = 0; i < c->targets_n; i++) {
		const struct pf_target *other = c->targets[i];

		if (other == t || other->n <= 0 || !has_states_of(c, other))
			continue;
		memcpy(t->global, other->global, sizeof t->global);
		set_luajit(t, &other->luajit);
		t->n = other->n;
		return t->n;
	}
	return 0;
}

static int map_call(int command, int map, const void *key, const void *value)
{
	struct {
		uint32_t map, pad;
		uint64_t key, value, flags;
	} attr = {.map = (uint32_t)map, .key = (uintptr_t)key, .value = (uintptr_t)value};
	const long r = pf_sys->bpf(command, &attr, sizeof attr);

	return r < 0 ? (int)r : 0;
}

int pf_collector_tell(int map, const void *key, const void *value)
{
	return map_call(value ? MAP_UPDATE : MAP_DELETE, map, key, value);
}

int pf_collector_ask(int map, const void *key, void *value)
{
	return map_call(MAP_LOOKUP, map, key, value);
}

static uint64_t larger(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* Search the memory of a process for Lua states. */
static int search(struct pf_collector *c, struct pf_target *t, const struct pf_search_end *end)
{
	const int had = t->n, is_puc = c->interpreter.is_puc;
	const uint64_t began = pf_clock_ns(CLOCK_THREAD_CPUTIME_ID);
	struct pf_process_memory *const process = &c->reader->process;
	struct pf_snapshot_process p = {.n = 0};
	uint64_t before[PF_SNAPSHOT_STATES];
	struct pf_code code = {.n = 0};
	int r, error, found_new;
	char *maps, byte;

	if (t->fixed.has_no_memory)
		return -ESRCH;
	pf_process_choose(process, t->pid, t->program);
	maps = pf_maps_text(t->pid, &error);
	t->searched = pf_clock_ns(CLOCK_MONOTONIC);
	if (!maps) {
		t->fixed.has_no_memory = error == -ESRCH;
		return error == -ENOENT ? -ESRCH : error;
	}
	memcpy(before, t->global, sizeof before);
	if (is_puc && t->maps) /* the BPF program finds PUC Lua's states by itself */
		t->n = had;
	else if (t->maps || find_inherited(c, t) == 0)
		t->n = pf_states_find(&c->interpreter, &t->luajit, process, maps, t->global, end);
	pf_maps_fixed(maps, &t->fixed);
	pf_maps_stack(maps, &p.first_stack.from, &p.first_stack.to);
	p.label = c->own_maps ? pf_maps_translate(c->own_maps, (uintptr_t)&pf_label_place, maps) : 0;
	if (is_puc)
		find_code(c, t, maps);
	if (t->luajit.trace_exit || t->puc.loop.from || t->puc.collector.loop.from || c->native)
		pf_maps_code(process, maps, &code);
	/* If it has ended meanwhile, perhaps not all was found. */
	if (t->n == -EINTR || pf_read_known(&t->fixed, process, &byte, 0, 1) == -ESRCH) {
		r = t->n == -EINTR ? -EINTR : -ESRCH;
		t->n = had;
		memcpy(t->global, before, sizeof before);
		free(maps);
		return r;
	}
	t->code = code;
	if (t->n > 0 || t->runs_lua) /* not of others: there may be thousands */
		pf_images_keep(c, t, maps);
	else
		free(maps);
	/* A search takes time: the less it finds, the longer is the pause until the next one. */
	found_new = t->n != had || (t->n > 0 && memcmp(before, t->global, (size_t)t->n * sizeof *before) != 0);
	t->pause = found_new ? SECOND / 10 : t->pause * 2 < LONGEST_PAUSE ? t->pause * 2 : LONGEST_PAUSE;
	t->pause = larger(t->pause, COST * (pf_clock_ns(CLOCK_THREAD_CPUTIME_ID) - began));
	p.n = t->n > 0 ? (uint32_t)t->n : 0;
	p.young = t->n <= 0 && t->pause < YOUNG_PAUSE;
	p.program = t->program;
	p.main_below = t->luajit.main_below;
	_Static_assert((int)PF_SNAPSHOT_COLLECTORS == (int)PF_PUC_COLLECTORS, "the BPF program must know all of them");
	for (unsigned i = 0; i < PF_PUC_COLLECTORS && is_puc; i++) {
		p.collectors[i].from = t->puc.collector.functions[i].from;
		p.collectors[i].size = t->puc.collector.functions[i].end - t->puc.collector.functions[i].from;
	}
	memcpy(p.global, t->global, sizeof p.global);
	r = pf_collector_tell(c->maps.processes, &t->pid, &p);
	return r < 0 ? r : t->n;
}

int pf_collector_attach(struct pf_collector *c, pid_t pid, const struct pf_search_end *end)
{
	struct pf_target *t = pf_target_of(c, pid);

	return t ? search(c, t, end) : -ENOMEM;
}

void pf_target_seen(struct pf_collector *c, struct pf_target *t, const struct pf_snapshot_head *s)
{
	if (t->program ? t->program != s->program : (s->flags & PF_SNAPSHOT_EXECUTED) != 0) {
		pf_images_forget(c, t);
		memset(t->labels, 0, sizeof t->labels);
		t->fixed.n = 0;
		t->n = t->runs_lua = 0;
		t->searched = 0;
		t->pause = FIRST_PAUSE;
	}
	if (t->program != s->program)
		t->fixed.has_no_memory = 0;
	t->program = s->program;
	if (s->global && !t->runs_lua) {
		t->runs_lua = 1;
		t->searched = 0; /* the interpreter may have been mapped since then */
	}
}

void pf_target_search_again(struct pf_collector *c, struct pf_target *t)
{
	const struct pf_search_end end = {pf_collector_ends, c};

	if (pf_clock_ns(CLOCK_MONOTONIC) - t->searched >= t->pause)
		search(c, t, &end);
}

/* A process that was forked and has ended since had the mappings of its ancestor. Its siblings may have other libraries at these
 * places. */
void pf_target_adopt(struct pf_collector *c, struct pf_target *t, pid_t ancestor)
{
	const int has_no_memory = t->fixed.has_no_memory;

	for (unsigned i = 0; i < c->targets_n; i++) {
		const struct pf_target *other = c->targets[i];

		if (other->pid != ancestor || other == t)
			continue;
		pf_images_adopt(t, other);
		memcpy(t->labels, other->labels, sizeof t->labels);
		t->code = other->code;
		t->fixed = other->fixed;
		t->fixed.has_no_memory = has_no_memory;
		set_luajit(t, &other->luajit);
		t->puc = other->puc;
		t->puc.loop.code = &t->code;
		return;
	}
}

void pf_target_free(struct pf_target *t)
{
	free(t->maps);
	free(t->code_maps);
	free(t);
}

void pf_targets_forget(struct pf_collector *c)
{
	const uint64_t now = pf_clock_ns(CLOCK_MONOTONIC);
	unsigned n = 0, ended = 0;

	if ((c->targets_n < c->targets_most || c->targets_n < FEW) && now - c->targets_looked_at < SECOND)
		return;
	c->targets_looked_at = now;
	pf_off_cpu_forget(c);
	/* All targets are still in the list here: another target may take over the images of one that has ended. */
	for (unsigned i = 0; i < c->targets_n; i++) {
		if (!c->targets[i]->has_ended)
			continue;
		pf_collector_tell(c->maps.processes, &c->targets[i]->pid, NULL);
		pf_images_forget(c, c->targets[i]);
	}
	for (unsigned i = 0; i < c->targets_n; i++) {
		struct pf_target *t = c->targets[i];

		if (t->has_ended) {
			pf_target_free(t);
			continue;
		}
		t->has_ended = pf_sys->kill(t->pid, 0) == -ESRCH;
		ended += (unsigned)t->has_ended;
		c->targets[n++] = t;
	}
	c->targets_n = n;
	c->targets_most = ended ? 0 : 2 * n;
}
