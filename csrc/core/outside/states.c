/* See states.h. A main thread lies beside its global state, and each of them has the other's address. So a search of the memory finds
 * them without symbols. Each find is confirmed by the thread's stack. */
#include "core/outside/states.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/bytes.h"
#include "core/outside/maps.h"
#include "core/stack/unwind_trace.h"

enum {
	CHUNK = 1 << 20,
	MARGIN = 1 << 12, /* bytes by which two chunks overlap: more than a main thread and its global state take */
	PUC_NEAR = 1 << 12, LUAJIT_NEAR = 1 << 8, /* bytes from a main thread to its global state, at most */
};
static const uint64_t MOST = UINT64_C(8) << 30; /* bytes that are searched */
/* Candidates that are checked at most. A check takes some microseconds, and a large program has thousands of candidates. */
static const unsigned CHECKS = 1 << 18;
/* Larger mappings are mostly reserved, not used: by sanitizers, and by other languages' heaps. They are searched last. */
static const uint64_t LARGE = UINT64_C(1) << 30;

static uint64_t word_at(struct pf_process_memory *m, uint64_t at)
{
	uint64_t v;

	return pf_read_process(m, &v, at, sizeof v) < 0 ? 0 : v;
}

static unsigned byte_at(struct pf_process_memory *m, uint64_t at)
{
	uint8_t v;

	return pf_read_process(m, &v, at, sizeof v) < 0 ? UINT8_MAX + 1u : v;
}

/* The stack of a thread begins with the thread itself. */
static int is_luajit_main(const struct pf_luajit_layout *l, struct pf_process_memory *m, uint64_t thread)
{
	const uint64_t global = thread + l->main_below, running = word_at(m, global + l->global_running);

	return byte_at(m, thread + l->object_type) == l->type_thread && word_at(m, thread + l->thread_global) == global &&
	       word_at(m, word_at(m, thread + l->thread_stack)) == pf_luajit_value(l->tag_thread, thread) &&
	       (!running ||
		(byte_at(m, running + l->object_type) == l->type_thread && word_at(m, running + l->thread_global) == global));
}

/* Is this a main thread of a build whose threads have another size, but whose global state and compiled code are the same? The global state
 * has the main thread's address behind its vmstate, and each trace has its own number. */
static int is_other_main(const struct pf_luajit_layout *l, struct pf_process_memory *m, uint64_t thread)
{
	enum { SOME = 64 };
	const uint64_t global = thread + l->main_below, traces = l->traces ? word_at(m, global + l->traces) : 0;
	uint64_t trace;

	if (!is_luajit_main(l, m, thread) || word_at(m, global + l->global_vmstate + 8) != thread)
		return 0;
	for (unsigned i = 1; traces && i < SOME && i < (uint32_t)word_at(m, global + l->traces_n); i++) {
		trace = word_at(m, traces + i * sizeof trace);
		if (trace &&
		    (byte_at(m, trace + l->object_type) != l->type_trace || (uint16_t)word_at(m, trace + l->trace_number) != i))
			return 0;
	}
	return 1;
}

static int is_puc_main(const struct pf_puc_layout *l, struct pf_process_memory *m, uint64_t thread)
{
	const uint64_t global = word_at(m, thread + l->thread.global), ci = word_at(m, thread + l->thread.ci);
	uint64_t func;

	if (l->main == PF_PUC_NONE || byte_at(m, thread + l->thread.type) != l->thread.is_thread ||
	    word_at(m, global + l->main) != thread)
		return 0;
	func = word_at(m, ci + l->call.func);
	return func != 0;
}

int pf_states_has(const struct pf_interpreter *i, const struct pf_luajit_layout *l, struct pf_process_memory *m, uint64_t global)
{
	if (!i->is_puc)
		return is_luajit_main(l, m, global - l->main_below);
	return is_puc_main(&i->puc, m, word_at(m, global + i->puc.main));
}

/* Returns the global state of what may be a main thread in a chunk, or 0. Thousands of objects look like a main thread of PUC Lua. The
 * address in the global state, which mostly is in the chunk too, rules nearly all of them out. */
static inline uint64_t candidate(const struct pf_interpreter *i, const uint8_t *bytes, size_t n, size_t at, uint64_t address)
{
	uint64_t global;
	size_t main;

	if (!i->is_puc) {
		global = pf_load64(bytes + at + i->luajit.thread_global);
		return global - address < LUAJIT_NEAR && bytes[at + i->luajit.object_type] == i->luajit.type_thread ? global : 0;
	}
	global = pf_load64(bytes + at + i->puc.thread.global);
	if (global - address >= PUC_NEAR || global <= address || bytes[at + i->puc.thread.type] != i->puc.thread.is_thread)
		return 0;
	main = at + (size_t)(global - address) + i->puc.main;
	return main + sizeof address > n || pf_load64(bytes + main) == address ? global : 0;
}

/* Is this candidate a main thread? The first one of a process decides how far below their global states its main threads lie. */
static int is_main(const struct pf_interpreter *i, struct pf_luajit_layout *l, struct pf_process_memory *m, uint64_t thread,
		   uint64_t global, int is_first)
{
	struct pf_luajit_layout other = *l;

	if (i->is_puc)
		return is_puc_main(&i->puc, m, thread);
	other.main_below = (uint16_t)(global - thread);
	if (other.main_below == l->main_below)
		return is_luajit_main(l, m, thread);
	if (!is_first || !is_other_main(&other, m, thread))
		return 0;
	*l = other;
	return 1;
}

static int search(const struct pf_interpreter *i, struct pf_luajit_layout *l, struct pf_process_memory *m, const uint8_t *bytes,
		  size_t n, uint64_t from, uint64_t *global, int found, unsigned *checks)
{
	const size_t fields = i->is_puc ? i->puc.thread.global : i->luajit.thread_global;

	for (size_t at = 0; at + fields + 8 <= n && found < PF_SNAPSHOT_STATES && *checks < CHECKS; at += 8) {
		const uint64_t g = candidate(i, bytes, n, at, from + at);
		int known = 0;

		for (int k = 0; k < found && g; k++)
			known |= global[k] == g;
		*checks += g && !known;
		if (g && !known && is_main(i, l, m, from + at, g, found == 0))
			global[found++] = g;
	}
	return found;
}

/* Search the large mappings, or the others. Returns the number of states that have been found so far, or -errno. */
static int search_maps(const struct pf_interpreter *i, struct pf_luajit_layout *l, struct pf_process_memory *m, const char *maps,
		       int large, uint8_t *bytes, uint64_t *global, const struct pf_search_end *end)
{
	uint64_t left = MOST;
	struct pf_map map;
	unsigned checks = 0;
	int found = 0;

	while ((maps = pf_maps_next(maps, &map)) != NULL && found < PF_SNAPSHOT_STATES && checks < CHECKS) {
		if (!map.readable || !map.writable || map.shared || map.is_stack || (map.to - map.from > LARGE) != large)
			continue;
		for (uint64_t at = map.from; at < map.to && left >= CHUNK; at += CHUNK, left -= CHUNK) {
			const uint64_t rest = map.to - at;
			const size_t n = rest < CHUNK + MARGIN ? (size_t)rest : CHUNK + MARGIN;
			const int r = end->ends(end->owner) ? -EINTR : pf_read_process(m, bytes, at, n);

			if (r == 0)
				found = search(i, l, m, bytes, n, at, global, found, &checks);
			else if (r == -EPERM || r == -ESRCH || r == -ENOSYS || r == -EINTR)
				return r;
		}
	}
	return found == 0 && checks >= CHECKS ? -E2BIG : found;
}

int pf_states_find(const struct pf_interpreter *i, struct pf_luajit_layout *l, struct pf_process_memory *m, const char *maps,
		   uint64_t *global, const struct pf_search_end *end)
{
	uint8_t *bytes = malloc(CHUNK + MARGIN);
	int found;

	if (!bytes)
		return -ENOMEM;
	found = search_maps(i, l, m, maps, 0, bytes, global, end);
	if (found == 0)
		found = search_maps(i, l, m, maps, 1, bytes, global, end);
	free(bytes);
	return found;
}

/* --- layouts ----------------------------------------------------------------------------------------------------------- */

static uint32_t larger(uint32_t a, uint32_t b)
{
	return a > b ? a : b;
}

/* The end of the last one of some fields that are as large as a pointer. */
#define BEHIND(a, b) larger((a) + 8u, (b) + 8u)
#define FIELD(f) (uint32_t)((f) == PF_PUC_NONE ? 0 : (f) + 8u)

static void luajit_layout(const struct pf_luajit_layout *l, struct pf_snapshot_layout *s)
{
	s->thread_global = l->thread_global;
	s->thread_base = l->thread_base;
	s->thread_stack = l->thread_stack;
	s->thread_slots = l->thread_slots;
	s->thread_cframe = l->thread_cframe;
	s->thread_size = larger(larger(BEHIND(l->thread_global, l->thread_base), BEHIND(l->thread_stack, l->thread_slots)),
				BEHIND(l->thread_cframe, l->object_type));
	s->object_type = l->object_type;
	s->type_thread = l->type_thread;
	s->cframe_previous = l->cframe_previous;
	s->cframe_thread = l->cframe_thread;
	s->cframe_pc = l->cframe_pc;
	s->cframe_results = l->cframe_results;
	s->global_vmstate = l->global_vmstate;
	s->global_running = l->global_running;
	s->main_below = l->main_below;
	s->global_size = larger(BEHIND(l->global_vmstate, l->global_running), l->trace_base + 8u);
	s->compiler_from = l->traces < l->traces_n ? l->traces : l->traces_n;
	s->compiler_size = BEHIND(l->traces, l->traces_n) - s->compiler_from;
	s->function_size = larger(BEHIND(l->function_id, l->function_code), l->function_c + 8u);
	s->function_id = l->function_id;
	s->function_code = l->function_code;
	s->prototype_end = l->prototype_end;
	s->prototype_size = l->prototype_end + 4u; /* with the first instruction */
	s->prototype_source = l->prototype_source;
	s->prototype_n = l->prototype_n;
	s->prototype_first = l->prototype_first;
	s->prototype_lines = l->prototype_lines;
	s->prototype_lineinfo = l->prototype_lineinfo;
	s->tag_function = l->tag_function;
	s->string_kind = PF_PUC_NONE;
	s->string_size = l->string_size;
	s->string_text = l->string_text;
	s->trace_base = l->trace_base;
	s->traces = l->traces;
	s->traces_n = l->traces_n;
	s->trace_exit = l->trace_exit;
	s->trace_size = PF_TRACE_HEAD;
	s->trace_code = l->trace_code;
	s->trace_code_size = l->trace_code_size;
	s->trace_ir = l->trace_ir;
	s->trace_ir_low = l->trace_ir_low;
	s->trace_snapshots = l->trace_snapshots;
	s->trace_map = l->trace_map;
	s->trace_start = l->trace_start;
	s->trace_adjust = l->trace_adjust;
	s->trace_number = l->trace_number;
}

static void puc_layout(const struct pf_puc_layout *l, struct pf_snapshot_layout *s)
{
	s->thread_global = l->thread.global;
	s->object_type = l->thread.type;
	s->type_thread = l->thread.is_thread;
	s->ci = l->thread.ci;
	s->base = l->thread.base;
	s->error = l->thread.error;
	s->error_previous = l->previous;
	s->thread_pc = l->thread.pc;
	s->thread_stack_relative = l->relative ? l->thread.stack : 0;
	s->thread_top = l->thread.top;
	s->thread_size = larger(larger(BEHIND(l->thread.global, l->thread.ci), BEHIND(l->thread.stack, l->thread.error)),
				larger(BEHIND(l->thread.base, l->thread.type), larger(BEHIND(l->thread.status, l->thread.top), FIELD(l->thread.pc))));
	s->main = l->main;
	s->call_size = l->call.size;
	s->call_func = l->call.func;
	s->call_previous = l->call.previous;
	s->call_pc = l->call.pc;
	s->value_tag = l->value.tag;
	s->tag_lua = l->value.lua;
	s->tag_c = l->value.c;
	s->closure_kind = l->closure.kind;
	s->closure_proto = l->closure.proto;
	s->kind_lua = l->closure.lua;
	s->function_size = l->closure.size;
	s->prototype_size = l->proto.size;
	s->proto_source = l->proto.source;
	s->proto_code = l->proto.code;
	s->proto_counts[0] = l->proto.counts[0];
	s->proto_counts[1] = l->proto.counts[1];
	s->proto_first = l->proto.linedefined;
	s->proto_lines = l->proto.lines;
	s->proto_steps = l->proto.steps;
	s->proto_known = l->proto.known;
	s->proto_n_known = l->proto.n_known;
	s->string_size = l->string.size;
	s->string_text = l->string.text;
	s->string_kind = l->string.kind;
	s->string_short_size = l->string.short_size;
	s->string_is_short = l->string.is_short;
}

int pf_states_layout(const struct pf_interpreter *i, struct pf_snapshot_layout *l)
{
	if (i->is_puc)
		puc_layout(&i->puc, l);
	else
		luajit_layout(&i->luajit, l);
	if (sizeof(void *) != 8 || (i->is_puc && i->puc.pointer != 8) || l->thread_size > PF_SNAPSHOT_OBJECT ||
	    l->function_size > PF_SNAPSHOT_OBJECT || l->prototype_size > PF_SNAPSHOT_OBJECT || l->global_size > PF_SNAPSHOT_PIECE ||
	    l->compiler_size > PF_SNAPSHOT_PIECE)
		return -ENOTSUP;
	return 0;
}

/* Are some bytes in the array of this size that a field points to? */
static int is_in(uint64_t address, size_t n, const uint8_t *field, uint64_t size)
{
	const uint64_t at = address - pf_load64(field);

	return at < size && n <= size - at;
}

/* The unwinder for PUC Lua looks at each word that may be the address of a thread. The snapshot has all threads; what was written there
 * later may only look like one. So nothing but names and lines is read from the process. */
static int puc_may_read(const struct pf_reader *r, uint64_t address, size_t size)
{
	const struct pf_puc_layout *l = &((const struct pf_interpreter *)r->owner)->puc;

	for (unsigned i = 0; i < r->objects->n; i++) {
		const struct pf_piece *p = r->objects->at[i].piece;
		const uint8_t *bytes = (const uint8_t *)(p + 1);
		uint32_t n;

		if (p->kind == PF_PIECE_NAME && p->size == l->string.text + (uint32_t)PF_SNAPSHOT_NAME &&
		    address - p->address - l->string.text < pf_load64(bytes + l->string.size))
			return 1; /* a long name */
		if (p->kind != PF_PIECE_PROTOTYPE || p->size != l->proto.size)
			continue;
		n = larger(pf_load32(bytes + l->proto.counts[0]), pf_load32(bytes + l->proto.counts[1]));
		if (l->proto.lines != PF_PUC_NONE ? size == 4 && is_in(address, size, bytes + l->proto.lines, n * UINT64_C(4))
						  : is_in(address, size, bytes + l->proto.steps, n) ||
							    is_in(address, size, bytes + l->proto.known, n * UINT64_C(8)))
			return 1;
	}
	return 0;
}

void pf_states_stable(const struct pf_interpreter *i, struct pf_reader *r)
{
	const struct pf_luajit_layout *l = &i->luajit;
	const struct pf_puc_layout *p = &i->puc;
	const struct stable {
		enum pf_piece_kind of;
		uint32_t at, size;
	} luajit[] = {
		{PF_PIECE_FUNCTION, l->object_type, 1},
		{PF_PIECE_FUNCTION, l->function_id, 1},
		{PF_PIECE_FUNCTION, l->function_code, 8},
		{PF_PIECE_PROTOTYPE, l->prototype_n, 4},
		{PF_PIECE_PROTOTYPE, l->prototype_first, 4},
		{PF_PIECE_PROTOTYPE, l->prototype_lines, 4},
		{PF_PIECE_PROTOTYPE, l->prototype_lineinfo, 8},
		{PF_PIECE_PROTOTYPE, l->prototype_source, 8},
		{PF_PIECE_NAME, l->string_size, 4},
		{PF_PIECE_NAME, l->string_text, PF_SNAPSHOT_NAME},
		{PF_PIECE_TRACE, l->trace_code, 8},
		{PF_PIECE_TRACE, l->trace_code_size, 4},
		{PF_PIECE_TRACE, l->trace_ir, 8},
		{PF_PIECE_TRACE, l->trace_snapshots, 8},
		{PF_PIECE_TRACE, l->trace_map, 8},
		{PF_PIECE_TRACE, l->trace_start, 8},
		{PF_PIECE_TRACE, l->trace_number, 2},
	}, puc[] = {
		{PF_PIECE_FUNCTION, p->closure.kind, 1},
		{PF_PIECE_FUNCTION, p->closure.proto, 8},
		{PF_PIECE_PROTOTYPE, p->proto.code, 8},
		{PF_PIECE_PROTOTYPE, p->proto.counts[0], 4},
		{PF_PIECE_PROTOTYPE, p->proto.counts[1], 4},
		{PF_PIECE_PROTOTYPE, p->proto.lines, 8},
		{PF_PIECE_PROTOTYPE, p->proto.steps, 8},
		{PF_PIECE_PROTOTYPE, p->proto.linedefined, 4},
		{PF_PIECE_PROTOTYPE, p->proto.source, 8},
		{PF_PIECE_NAME, p->string.text, PF_SNAPSHOT_NAME},
	}, *fields = i->is_puc ? puc : luajit;
	const size_t n = i->is_puc ? sizeof puc / sizeof *puc : sizeof luajit / sizeof *luajit;
	unsigned used[PF_PIECE_KINDS] = {0};

	memset(r->stable, 0, sizeof r->stable);
	r->owner = i;
	r->may_read = i->is_puc ? puc_may_read : NULL;
	for (size_t k = 0; k < n; k++) {
		const struct stable *f = &fields[k];

		if (f->at != PF_PUC_NONE && used[f->of] + 1 < PF_READER_FIELDS) /* the last one ends the list */
			r->stable[f->of][used[f->of]++] = (struct pf_reader_field){f->at, f->size};
	}
}
