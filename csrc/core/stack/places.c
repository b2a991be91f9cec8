/* See places.h.
 *
 * A Lua function is identified by its chunk's name, which has an address, a length and bytes, and by the line of its definition.
 * The address of its prototype, or of the name alone, may be used again for another one when a chunk is collected. In other processes the
 * same name may be at different addresses, so there a name that is not long is identified by its bytes alone. */
#include "core/stack/places.h"

#include <string.h>

#include "core/stack/sampling.h"

/* At most this many bytes at the beginning and at the end of a chunk's name are compared; and this many are kept of a name that
 * is the chunk's text. */
enum { HEAD = 64, TAIL = 16, MOST_TEXT = 16384 };
/* At most this many bytes of a name are compared as a whole: less than snapshots of other processes have. */
enum { WHOLE = 224 };

uint32_t pf_places_hash(const unsigned char *bytes, size_t n, uint32_t h)
{
	uint64_t word;

	for (; n >= sizeof word; n -= sizeof word, bytes += sizeof word) {
		memcpy(&word, bytes, sizeof word);
		word = (word ^ h) * UINT64_C(0x9e3779b97f4a7c15);
		h = (uint32_t)(word >> 32) ^ (uint32_t)word;
	}
	for (; n > 0; n--)
		h = (h ^ *bytes++) * 16777619u;
	return h;
}

/* Find p->chunk; its members are 0 if the function has no name that can be read. */
static void look_at_name(struct pf_places *p, const struct pf_place *place)
{
	const size_t n = place->source_size;
	const int by_bytes = p->c_function && n <= WHOLE;
	const size_t head = by_bytes || n < HEAD ? n : HEAD, tail = n - head < TAIL ? n - head : TAIL;
	unsigned char bytes[WHOLE];

	if (place->source == p->chunk.address && n == p->chunk.n)
		return;
	memset(&p->chunk, 0, sizeof p->chunk);
	if (!place->source || p->memory->read(p->memory, bytes, place->source, head) < 0 ||
	    (tail && p->memory->read(p->memory, bytes + head, place->source + n - tail, tail) < 0))
		return;
	p->chunk.address = place->source;
	p->chunk.key = by_bytes ? pf_places_hash(bytes, n, ~(uint32_t)n) : place->source;
	p->chunk.n = (uint32_t)n;
	p->chunk.hash = pf_places_hash(bytes, head + tail, (uint32_t)n);
}

static uint32_t is_hidden(const struct pf_places *p, const char *text)
{
	return p->hidden && (strcmp(text, p->hidden->source[0]) == 0 || strcmp(text, p->hidden->source[1]) == 0);
}

/* The text of a chunk's name, as an offset; kept once for all functions of the chunk. */
static uint32_t text_of(struct pf_places *p)
{
	struct pf_stacks *s = p->stacks;
	struct pf_function chunk = {.source_key = p->chunk.key, .hash = p->chunk.hash, .line = PF_PLACES_CHUNK};
	const size_t n = p->chunk.n < MOST_TEXT ? p->chunk.n : MOST_TEXT;
	const uint32_t known = pf_stacks_find_function(s, chunk.source_key, chunk.hash, PF_PLACES_CHUNK);
	char *text;

	if (known)
		return pf_stacks_function_at(s, known)->source;
	chunk.source = pf_stacks_text(s, n, &text);
	if (chunk.source) {
		if (p->memory->read(p->memory, text, p->chunk.address, n) < 0)
			*text = '\0';
		pf_stacks_add_function(s, &chunk);
	}
	return chunk.source;
}

/* The function's number; 0 without memory. */
static uint32_t find_function(struct pf_places *p, const struct pf_place *place)
{
	struct pf_function f = {.line = place->linedefined};
	uint32_t i;

	look_at_name(p, place);
	f.source_key = p->chunk.key;
	f.hash = p->chunk.hash;
	i = pf_stacks_find_function(p->stacks, f.source_key, f.hash, f.line);
	if (i)
		return i;
	f.source = p->chunk.n ? text_of(p) : 0;
	f.hidden = is_hidden(p, pf_stacks_text_at(p->stacks, f.source));
	return pf_stacks_add_function(p->stacks, &f);
}

static uint32_t lua_function(struct pf_places *p, const struct pf_place *place)
{
	const unsigned at = (unsigned)(place->source >> 4 ^ (uint32_t)place->linedefined) % PF_PLACES_KNOWN;

	if (!p->known[at].function || p->known[at].source != place->source || p->known[at].line != place->linedefined) {
		p->known[at].source = place->source;
		p->known[at].line = place->linedefined;
		p->known[at].function = find_function(p, place);
	}
	return p->known[at].function;
}

uint32_t pf_places_c_function(struct pf_stacks *s, uint64_t code)
{
	const struct pf_function f = {.source_key = code, .line = PF_PLACES_C};
	const uint32_t i = pf_stacks_find_function(s, code, 0, PF_PLACES_C);

	return i ? i : pf_stacks_add_function(s, &f);
}

static uint32_t lua_frame(struct pf_places *p, const struct pf_place *place)
{
	if (p->last.function == p->function && p->last.line == place->line && p->last.end == place->end)
		return p->last.number;
	p->last.function = p->function;
	p->last.line = place->line;
	p->last.end = place->end;
	if (place->end > place->line)
		p->last.number = pf_stacks_frame(p->stacks, PF_FRAME_RANGE, p->function | (uint64_t)place->end << 32, place->line);
	else
		p->last.number = pf_stacks_frame(p->stacks, PF_FRAME_LUA, p->function, place->line);
	return p->last.number;
}

static unsigned is_c(const struct pf_places *p)
{
	return p->n && pf_stacks_frame_at(p->stacks, p->frames[p->n - 1])->kind == PF_FRAME_C;
}

int pf_places_add(void *to, const struct pf_place *place)
{
	struct pf_places *p = to;
	uint32_t frame = 0;

	p->deep = p->n == p->most;
	if (p->deep)
		return 1;
	if (place->kind == PF_PLACE_LUA) {
		p->function = lua_function(p, place);
		if (p->function && pf_stacks_function_at(p->stacks, p->function)->hidden) {
			p->n -= is_c(p); /* the pcall by which it called the program's function */
			p->function = 0;
			return 0;
		}
		if (p->function)
			frame = lua_frame(p, place);
	} else {
		p->function = p->c_function ? p->c_function(p, place) : pf_places_c_function(p->stacks, place->function);
		if (p->function)
			frame = pf_stacks_frame(p->stacks, PF_FRAME_C, p->function, 0);
	}
	p->frames[p->n++] = frame;
	return 0;
}

int pf_places_state(struct pf_places *p, const struct pf_unwound *u)
{
	if (u->state == PF_OUTSIDE)
		p->n = 0;
	else if (p->n == 0 && u->failed && u->state <= PF_AT_C)
		return PF_UNSAMPLED;
	else if (p->n && u->state == PF_AT_C)
		return PF_AT_LUA; /* the innermost frame is the C function */
	return u->state;
}
