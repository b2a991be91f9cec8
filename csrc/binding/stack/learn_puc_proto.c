/* The third part of learn_puc.c: prototypes. */
#include "binding/stack/learn_puc.h"

#if !PB_LUAJIT
#include <string.h>

/* Is this an array of the lines of all instructions? */
static int is_lines(struct pb_learner *w, uint64_t at, const struct pb_puc_code *c)
{
	int32_t lines[PB_PUC_STEPS];

	pb_learn_grab(w, lines, at, (size_t)c->n * sizeof *lines);
	return memcmp(lines, c->lines, (size_t)c->n * sizeof *lines) == 0;
}

/* Is this an array of differences of lines, one byte each? It has all lines if the function has no wide gap. */
static int is_steps(struct pb_learner *w, uint64_t at, const struct pb_puc_code *c, int32_t line)
{
	int8_t steps[PB_PUC_STEPS];

	pb_learn_grab(w, steps, at, (size_t)c->n);
	for (int i = 0; i < c->n; i++)
		if ((line += steps[i]) != c->lines[i])
			return 0;
	return 1;
}

/* Find the instructions after a wide gap, and return how many there are. */
static int32_t gaps(const struct pb_puc_code *c, int32_t pairs[][2])
{
	int32_t n = 0;

	for (int i = 1; i < c->n; i++)
		if (c->lines[i] - c->lines[i - 1] > PB_PUC_BLANK_LINES) {
			pairs[n][0] = i;
			pairs[n++][1] = c->lines[i];
		}
	return n;
}

static void learn_lines(struct pb_learner *w, const uint8_t *plain, const uint8_t *jumps)
{
	struct pf_puc_layout *l = w->l;
	int32_t pairs[PB_PUC_STEPS][2], there[PB_PUC_STEPS][2];
	const int32_t n = gaps(&w->jumps, pairs);

	l->proto.lines = l->proto.steps = l->proto.known = l->proto.n_known = PF_PUC_NONE;
	PB_PUC_WORDS(o, PB_PUC_PROTO)
	if (is_lines(w, pb_puc_word(plain, o), &w->plain) && is_lines(w, pb_puc_word(jumps, o), &w->jumps))
		pb_puc_choose(w, o);
	if (w->choices) {
		l->proto.lines = pb_puc_chosen(w, "lineinfo");
		return;
	}
	PB_PUC_WORDS(o, PB_PUC_PROTO)
	if (is_steps(w, pb_puc_word(plain, o), &w->plain, PB_PUC_PLAIN_LINE))
		pb_puc_choose(w, o);
	l->proto.steps = pb_puc_chosen(w, "lineinfo");
	PB_PUC_WORDS(o, PB_PUC_PROTO)
	{
		pb_learn_grab(w, there, pb_puc_word(jumps, o), (size_t)n * sizeof *there);
		if (n > 0 && memcmp(there, pairs, (size_t)n * sizeof *there) == 0)
			pb_puc_choose(w, o);
	}
	l->proto.known = pb_puc_chosen(w, "abslineinfo");
	PB_PUC_INTS(o, PB_PUC_PROTO)
	if (pb_puc_number(plain, o) == 0 && pb_puc_number(jumps, o) == n)
		pb_puc_choose(w, o);
	l->proto.n_known = pb_puc_chosen(w, "sizeabslineinfo");
}

/* The functions' chunks have two short names and two long ones. */
static const char *const names[] = {"=perf a", "=perf abc", "=perf 0123456789 0123456789 0123456789 012345",
				    "=perf 0123456789 0123456789 0123456789 0123456789"};
enum { NAMES = 4, STRING = 64 };

static unsigned find_text(const uint8_t *bytes, const char *name)
{
	/* The copied bytes may end before the string does. */
	for (unsigned t = sizeof(void *); t + 8 <= STRING; t++)
		if (memcmp(bytes + t, name, strlen(name) < STRING - t ? strlen(name) : STRING - t) == 0)
			return t;
	return 0;
}

static void learn_names(struct pb_learner *w)
{
	struct pf_puc_layout *l = w->l;
	uint8_t proto[PB_PUC_PROTO], s[NAMES][STRING];
	uint64_t protos[NAMES], p;
	int sizes[NAMES];

	for (int i = 0; i < NAMES; i++) {
		sizes[i] = (int)strlen(names[i]);
		p = 0;
		if (luaL_loadbuffer(w->S, "return", 6, names[i]) == 0)
			p = (uintptr_t)lua_topointer(w->S, -1);
		pb_learn_grab(w, proto, p, sizeof proto);
		protos[i] = pb_puc_word(proto, l->closure.proto);
	}
	PB_PUC_WORDS(o, PB_PUC_PROTO)
	{
		unsigned t[NAMES];

		for (int i = 0; i < NAMES; i++) {
			pb_learn_grab(w, proto, protos[i], sizeof proto);
			pb_learn_grab(w, s[i], pb_puc_word(proto, o), STRING);
			t[i] = find_text(s[i], names[i]);
		}
		if (t[0] && t[0] == t[1] && t[0] == t[2] && t[0] == t[3]) {
			l->string.text = w->choices ? l->string.text : (uint16_t)t[0];
			pb_puc_choose(w, o);
		}
	}
	l->proto.source = pb_puc_chosen(w, "source");
	for (int i = 0; i < NAMES; i++) {
		pb_learn_grab(w, proto, protos[i], sizeof proto);
		pb_learn_grab(w, s[i], pb_puc_word(proto, l->proto.source), STRING);
	}
	PB_PUC_WORDS(o, l->string.text)
	if (pb_puc_word(s[2], o) == (uint64_t)sizes[2] && pb_puc_word(s[3], o) == (uint64_t)sizes[3])
		pb_puc_choose(w, o);
	l->string.size = pb_puc_chosen(w, "length of a string");
	l->string.kind = l->string.short_size = PF_PUC_NONE;
	if (pb_puc_word(s[0], l->string.size) != (uint64_t)sizes[0] || pb_puc_word(s[1], l->string.size) != (uint64_t)sizes[1]) {
		for (unsigned o = sizeof(void *); o < l->string.text; o++)
			if (s[0][o] == s[1][o] && s[2][o] == s[3][o] && s[0][o] != s[2][o])
				pb_puc_choose(w, o);
		l->string.kind = pb_puc_chosen(w, "type of a string");
		l->string.is_short = s[0][l->string.kind];
		for (unsigned o = sizeof(void *); o < l->string.text; o++)
			if (s[0][o] == sizes[0] && s[1][o] == sizes[1])
				pb_puc_choose(w, o);
		l->string.short_size = pb_puc_chosen(w, "length of a short string");
	}
	lua_pop(w->S, NAMES);
}

/* The bytes up to the last field that the unwinder reads; there may be no more that can be read. */
static void learn_sizes(struct pf_puc_layout *l)
{
	const uint16_t call[] = {l->call.func, l->call.pc, l->call.previous};
	const uint16_t proto[] = {l->proto.code,  l->proto.counts[0], l->proto.counts[1],   l->proto.lines, l->proto.steps,
				  l->proto.known, l->proto.n_known,   l->proto.linedefined, l->proto.source};

	for (unsigned i = 0; i < sizeof call / sizeof *call && l->call.previous != PF_PUC_NONE; i++)
		if (call[i] + sizeof(void *) > l->call.size)
			l->call.size = (uint16_t)(call[i] + sizeof(void *));
	for (unsigned i = 0; i < sizeof proto / sizeof *proto; i++)
		if (proto[i] != PF_PUC_NONE && proto[i] + sizeof(void *) > l->proto.size)
			l->proto.size = (uint16_t)(proto[i] + sizeof(void *));
}

void pb_puc_learn_prototypes(struct pb_learner *w)
{
	struct pf_puc_layout *l = w->l;
	uint8_t plain[PB_PUC_PROTO], jumps[PB_PUC_PROTO];

	pb_learn_grab(w, plain, w->protos[PB_PUC_PLAIN - PB_PUC_ONE], sizeof plain);
	pb_learn_grab(w, jumps, w->protos[PB_PUC_JUMPS - PB_PUC_ONE], sizeof jumps);
	PB_PUC_WORDS(o, PB_PUC_PROTO)
	if (pb_puc_word(plain, o) == w->plain.code && pb_puc_word(jumps, o) == w->jumps.code)
		pb_puc_choose(w, o);
	l->proto.code = pb_puc_chosen(w, "code");
	/* The size of the code, and that of lineinfo, which is the same unless the function is stripped. */
	PB_PUC_INTS(o, PB_PUC_PROTO)
	if (w->choices < 2 && pb_puc_number(plain, o) == w->plain.n && pb_puc_number(jumps, o) == w->jumps.n)
		l->proto.counts[w->choices++] = (uint16_t)o;
	if (w->choices == 0)
		pb_learn_fail(w, "sizes of code");
	if (w->choices == 1)
		l->proto.counts[1] = l->proto.counts[0];
	w->choices = 0;
	PB_PUC_INTS(o, PB_PUC_PROTO)
	if (pb_puc_number(plain, o) == PB_PUC_PLAIN_LINE && pb_puc_number(jumps, o) == PB_PUC_JUMPS_LINE)
		pb_puc_choose(w, o);
	l->proto.linedefined = pb_puc_chosen(w, "linedefined");
	learn_lines(w, plain, jumps);
	learn_names(w);
	learn_sizes(l);
}
#endif
