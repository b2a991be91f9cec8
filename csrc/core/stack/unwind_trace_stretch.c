/* Finds the function and the lines of a stretch of compiled code: what lies between two snapshots.
 *
 * A stretch does what the bytecode does from its snapshot to the next one. In between, the code may return from the functions that
 * are compiled into the trace and call others, because the compiler makes no snapshot where no code can exit. Then the stretch
 * belongs to the innermost function that is active at both ends. */
#include "core/stack/unwind_trace_walk.h"

enum { LEVELS_MOST = 24 };

/* --- functions that are active at a snapshot -------------------------------------------------------------------------- */

struct level {
	unsigned base;
	int vararg; /* the frame that a vararg function has below its own */
	uint64_t function, link;
	uint64_t pc; /* of its next instruction; 0 if unknown */
};

struct levels {
	struct level at[LEVELS_MOST]; /* the innermost is the first */
	unsigned n;
};

static int read_levels(const struct pf_luajit_view *v, const struct pf_trace *t, const struct pf_snapshot *s, struct levels *levels)
{
	struct pf_trace_slots slots;
	struct level level = {.base = s->base, .vararg = 0, .pc = s->pc};

	pf_trace_read_slots(v, t, s, &slots);
	for (levels->n = 0; levels->n < LEVELS_MOST;) {
		unsigned size;

		level.function = pf_trace_value(v, &slots, level.base - 2);
		level.link = level.base > 2 ? pf_trace_value(v, &slots, level.base - 1) : 0;
		levels->at[levels->n++] = level;
		if (level.base == 2)
			return 1;
		if (!level.link)
			return 0;
		level.vararg = (level.link & PF_LINK_MASK_P) == PF_LINK_VARARG;
		size = pf_trace_frame_size(v, &slots, level.base, &level.pc);
		if (!size || size > level.base - 2)
			return 0;
		level.base -= size;
	}
	return 0;
}

static int same(const struct level *a, const struct level *b)
{
	return a->base == b->base && a->link == b->link && (a->function == b->function || (a->base == 2 && (!a->function || !b->function)));
}

/* Leave the innermost levels of both that are not the same. Returns how many a has left. */
static unsigned leave_different(const struct levels *a, const struct levels *b)
{
	unsigned n = 0;

	while (n < a->n && n < b->n && same(&a->at[a->n - 1 - n], &b->at[b->n - 1 - n]))
		n++;
	return a->n - n;
}

/* --- one stretch ------------------------------------------------------------------------------------------------------ */

/* The function of a place, given by its base and its pc. */
static int function_of(const struct pf_luajit_view *v, const struct pf_trace *t, uint64_t base, const struct pf_snapshot *s,
		       struct pf_luajit_function *f)
{
	struct pf_trace_slots slots;

	pf_trace_read_slots(v, t, s, &slots);
	return s->pc && pf_trace_function_at(v, t, &slots, base, s, f);
}

/* The code returns to the function of a level, and continues there up to the next snapshot or to a call. The stretch belongs to the
 * outermost of these functions that does any work; but one that does little is passed over if an inner one does more. Returns 0 if the
 * stretch belongs to the innermost one. */
static int place_after_return(const struct pf_luajit_view *v, const struct pf_trace *t, uint64_t base, uint32_t k, const struct levels *here,
			      unsigned level, const struct pf_snapshot *next, struct pf_trace_place *place)
{
	enum pf_trace_work most = PF_TRACE_NO_WORK;
	struct pf_luajit_function f;
	struct pf_snapshot s = place->s;
	struct pf_trace_place found = {.code = 0};

	while (level < here->n && here->at[level].vararg)
		level++;
	if (level >= here->n)
		return 0;
	for (unsigned i = 0; i <= level; i++) {
		struct pf_trace_walk w = {.found = 1};

		s.base = here->at[i].base;
		s.pc = here->at[i].pc;
		if (here->at[i].vararg || !function_of(v, t, base, &s, &f)) {
			if (i == level)
				return 0;
			continue;
		}
		if (i < level)
			w = pf_trace_walk_branches(v, t, &f, k, &s, PF_TRACE_AT_RETURN, 0);
		else if (next->base != s.base)
			w.work = PF_TRACE_WORK;
		else if (s.pc != next->pc)
			w = pf_trace_walk_to_next(v, t, &f, k, &s, next);
		if (!w.found)
			w.work = PF_TRACE_WORK;
		if (w.work == PF_TRACE_NO_WORK || (w.work == PF_TRACE_LITTLE_WORK && most == PF_TRACE_WORK))
			continue;
		found.s = s;
		found.lines = i < level ? w.stretch.all : pf_trace_lines(v, t, &f, k, &s).all;
		if (i > 0 && most > PF_TRACE_NO_WORK)
			pf_trace_widen(&found.lines, pf_luajit_line(v, &f, s.pc));
		most = w.work > most ? w.work : most;
	}
	if (!found.lines.first || found.s.base == here->at[0].base)
		return 0;
	place->s = found.s;
	place->lines = found.lines;
	return 1;
}

/* Leave the levels that cannot be active at both ends, although they look the same: an unrolled loop calls a function again. That
 * loop's index tells it, or else that code cannot go back in a function, except in a loop or by a snapshot that has the address of the
 * branch that was not taken. */
static unsigned leave_ended(const struct pf_luajit_view *v, const struct pf_trace *t, uint64_t base, const struct pf_snapshot *s,
			    const struct pf_snapshot *next, const struct levels *here, const struct levels *there, unsigned level)
{
	struct pf_luajit_function f;
	struct pf_snapshot at = *s;
	struct pf_trace_loop loop;

	for (unsigned i = here->n; i-- > level + 1;) {
		at.base = here->at[i].base;
		at.pc = here->at[i].pc - PF_LUAJIT_INSTRUCTION; /* the call */
		if (!here->at[i].vararg && here->at[i].pc && function_of(v, t, base, &at, &f) &&
		    pf_trace_goes_round(v, t, &f, &at, next, at.pc, &loop))
			return i;
	}
	for (unsigned i = level; i + 1 < here->n; i++) {
		const uint64_t pc = here->at[i].pc, to = there->at[there->n - (here->n - i)].pc;

		at.base = here->at[i].base;
		at.pc = pc;
		if (to > pc || next->ref == s->ref + 1 || (i == 0 && pf_trace_begins_with_comparison(v, t, s)) || here->at[i].vararg ||
		    !function_of(v, t, base, &at, &f) || pf_trace_may_go_back(v, &f, pc))
			return level;
		level = i + 1;
	}
	return level;
}

int pf_trace_place_of(const struct pf_luajit_view *v, const struct pf_trace *t, uint64_t base, uint32_t k, struct pf_trace_place *place, int *crosses)
{
	struct levels here, there;
	struct pf_luajit_function f;
	struct pf_snapshot next;

	*crosses = 0;
	place->code = 0;
	if (!pf_trace_read_snapshot(v, t, k, &place->s))
		return 0;
	if (pf_trace_next_snapshot(v, t, k, &next) && read_levels(v, t, &place->s, &here) && read_levels(v, t, &next, &there)) {
		const unsigned level = leave_ended(v, t, base, &place->s, &next, &here, &there, leave_different(&here, &there));

		*crosses = level > 0 || there.n > here.n;
		if (level > 0 && place_after_return(v, t, base, k, &here, level, &next, place))
			return 1;
	}
	if (!function_of(v, t, base, &place->s, &f))
		return 0;
	place->code = f.code;
	place->whole = pf_trace_lines(v, t, &f, k, &place->s);
	place->lines = place->whole.all;
	return 1;
}

/* The lines on which the function of s, which the code leaves or to which it returns, may call C code. */
static struct pf_luajit_lines calls_of(const struct pf_luajit_view *v, const struct pf_trace *t, const struct pf_luajit_function *f, uint32_t k,
				       const struct pf_snapshot *s, const struct pf_snapshot *next, int leaves)
{
	const struct pf_luajit_lines none = {0, 0};
	struct pf_trace_loop loop;

	if (leaves)
		return pf_trace_walk_branches(v, t, f, k, s, PF_TRACE_AT_RETURN, 0).stretch.calls;
	if (s->pc == next->pc && !pf_trace_goes_round(v, t, f, s, next, s->pc, &loop))
		return none;
	return pf_trace_lines(v, t, f, k, s).calls;
}

/* The code leaves the functions below a level. The place is the one that calls, of these and that of the level; the outermost one if
 * several call. Returns how many call. */
static unsigned call_after_return(const struct pf_luajit_view *v, const struct pf_trace *t, uint64_t base, uint32_t k, const struct levels *here,
			      unsigned level, const struct pf_snapshot *next, struct pf_trace_place *place)
{
	const struct pf_luajit_lines none = {0, 0};
	struct pf_snapshot s = place->s;
	struct pf_luajit_function f;
	unsigned calling = 0;

	while (level < here->n && here->at[level].vararg)
		level++;
	for (unsigned i = 0; i <= level && i < here->n; i++) {
		struct pf_luajit_lines calls;

		s.base = here->at[i].base;
		s.pc = here->at[i].pc;
		if (here->at[i].vararg || !function_of(v, t, base, &s, &f))
			continue;
		calls = calls_of(v, t, &f, k, &s, next, i < level);
		if (!calls.first)
			continue;
		place->s = s;
		place->lines = calls;
		if (calling++)
			pf_trace_widen(&place->lines, pf_luajit_line(v, &f, s.pc));
	}
	if (calling == 1)
		place->lines = none;
	return calling;
}

/* The code enters functions: the n innermost ones of the next snapshot. The place is the outermost function that calls before it enters the
 * next one. After a tail call, an entered function that calls is not on the stack any more; if that is possible, the place is the line that
 * entered it. Returns 0 if none calls. */
static int call_before_entry(const struct pf_luajit_view *v, const struct pf_trace *t, uint64_t base, uint32_t k, const struct levels *there,
			     unsigned n, const struct pf_snapshot *next, struct pf_trace_place *place)
{
	struct pf_snapshot s = *next;
	struct pf_luajit_function f;
	struct pf_trace_loop loop;
	uint32_t entry = 0; /* the line that enters the outermost of the functions */

	for (unsigned i = n + 1; i-- > 0;) {
		const uint64_t to = i ? there->at[i].pc - PF_LUAJIT_INSTRUCTION : next->pc;

		struct pf_trace_walk w;

		s.base = there->at[i].base;
		s.pc = there->at[i].pc;
		if (there->at[i].vararg)
			continue;
		if (!function_of(v, t, base, &s, &f))
			return 1;
		s.pc = f.code + PF_LUAJIT_INSTRUCTION;
		if (i == n)
			entry = pf_luajit_line(v, &f, to + PF_LUAJIT_INSTRUCTION);
		w = i == 0 && s.pc != to ? pf_trace_walk_to_next(v, t, &f, k, &s, next)
					 : pf_trace_walk_branches(v, t, &f, k, i == n ? &place->s : &s, PF_TRACE_AT, to);
		if (w.found && !w.stretch.calls.first && (i < n || !pf_trace_goes_round(v, t, &f, &place->s, next, to, &loop)))
			continue;
		if (i < n && pf_trace_may_tail_call(v, t)) {
			place->lines.first = place->lines.last = entry;
			return entry != 0;
		}
		if (i < n)
			place->s = s;
		return 1;
	}
	return 0;
}

void pf_trace_place_of_call(const struct pf_luajit_view *v, const struct pf_trace *t, uint64_t base, uint32_t k, struct pf_trace_place *place)
{
	struct pf_snapshot next;
	struct levels here, there;
	unsigned level;

	if (!pf_trace_next_snapshot(v, t, k, &next) || !read_levels(v, t, &place->s, &here) || !read_levels(v, t, &next, &there))
		return;
	level = leave_ended(v, t, base, &place->s, &next, &here, &there, leave_different(&here, &there));
	for (unsigned i = 0; i < 2; i++) {
		if (level ? call_after_return(v, t, base, k, &here, level, &next, place)
			  : there.n <= here.n || call_before_entry(v, t, base, k, &there, there.n - here.n, &next, place))
			return;
		v->memo->operators = PF_TRACE_OPERATORS; /* something calls */
	}
}

int pf_trace_join(const struct pf_luajit_view *v, const struct pf_trace *t, uint64_t base, struct pf_trace_place *place,
		const struct pf_trace_place *other)
{
	struct levels here, there;
	struct pf_luajit_function f;
	struct pf_snapshot s = place->s;
	struct pf_luajit_lines lines = other->lines;
	unsigned level, of_other;

	if (!read_levels(v, t, &s, &here) || !read_levels(v, t, &other->s, &there))
		return 0;
	level = leave_different(&here, &there);
	while (level < here.n && here.at[level].vararg)
		level++;
	if (level >= here.n || here.n - level > there.n)
		return 0;
	of_other = there.n - (here.n - level);
	s.base = here.at[level].base;
	s.pc = here.at[level].pc;
	if ((level > 0 || of_other > 0) && !function_of(v, t, base, &s, &f))
		return 0;
	if (level > 0)
		place->lines.first = place->lines.last = pf_luajit_line(v, &f, s.pc);
	if (of_other > 0)
		lines.first = lines.last = pf_luajit_line(v, &f, there.at[of_other].pc);
	place->s = s;
	pf_trace_widen(&place->lines, lines.first);
	pf_trace_widen(&place->lines, lines.last);
	return place->lines.first != 0;
}

int pf_trace_find_place(const struct pf_luajit_view *v, const struct pf_trace *t, uint64_t base, uint32_t k, uint64_t offset,
			struct pf_trace_place *place)
{
	const uint32_t loop = t->loop ? pf_trace_snapshot_at(v, t, t->loop) : t->snapshots_n;
	struct pf_trace_place copied;
	const struct pf_snapshot s = place->s;
	int crosses;

	if (!pf_trace_place_of(v, t, base, k, place, &crosses))
		return 0;
	if (loop > 0 && k >= loop && (crosses || place->lines.first != place->lines.last) &&
	    pf_trace_place_of_copy(v, t, base, k, offset, loop, &copied)) {
		*place = copied;
		return 1;
	}
	return place->s.base != s.base;
}
