/* See stacks.h. */
#include "stacks.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "sys.h"

enum { FIRST_FUNCTIONS = 256, FIRST_FRAMES = 1024, FIRST_NODES = 4096, FIRST_TEXT = 16384, MOST = 1 << 28 };

/* --- memory --------------------------------------------------------------------------------------------------------- */

static void *get(size_t size)
{
	void *p;

	return pf_sys->mmap(&p, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0) < 0 ? NULL : p;
}

static void put(void *p, size_t size)
{
	if (p)
		pf_sys->munmap(p, size);
}

static uint32_t mix(uint64_t a, uint64_t b)
{
	a = (a ^ (a >> 32)) * UINT64_C(0x9e3779b97f4a7c15);
	a = (a ^ b ^ (a >> 29)) * UINT64_C(0xbf58476d1ce4e5b9);
	return (uint32_t)(a >> 32);
}

static uint32_t hash_function(const struct pf_function *f)
{
	return mix(f->source_key, ((uint64_t)f->hash << 32) | (uint32_t)f->line);
}

static uint32_t hash_frame(const struct pf_frame *f)
{
	return mix(f->key, ((uint64_t)f->kind << 32) | f->line);
}

static uint32_t hash_node(const struct pf_node *n)
{
	return mix(n->parent, (uint64_t)n->frame << 32);
}

/* A slot for the item i; the table has room. */
static void place(struct pf_array *a, uint32_t hash, uint32_t i)
{
	const uint32_t mask = a->room * 2 - 1;
	uint32_t at = hash & mask;

	while (a->slot[at])
		at = (at + 1) & mask;
	a->slot[at] = i;
}

static uint32_t hash_item(const struct pf_stacks *s, const struct pf_array *a, uint32_t i)
{
	if (a == &s->functions)
		return hash_function(pf_stacks_function_at(s, i));
	if (a == &s->frames)
		return hash_frame(pf_stacks_frame_at(s, i));
	return hash_node(pf_stacks_node_at(s, i));
}

static size_t slots_size(uint32_t room)
{
	return (size_t)room * 2 * sizeof(uint32_t);
}

static int resize(struct pf_stacks *s, struct pf_array *a, uint32_t room)
{
	struct pf_array old = *a;
	void *items = get(a->size * room);
	uint32_t *slot = get(slots_size(room));

	if (!items || !slot) {
		put(items, a->size * room);
		put(slot, slots_size(room));
		return -ENOMEM;
	}
	if (old.items)
		memcpy(items, old.items, old.size * (old.n + 1));
	a->items = items;
	a->slot = slot;
	a->room = room;
	for (uint32_t i = 1; i <= a->n; i++)
		place(a, hash_item(s, a, i), i);
	put(old.items, old.size * old.room);
	put(old.slot, slots_size(old.room));
	return 0;
}

/* The number of a new item, its bytes still to be filled and its slot to be placed; 0 without memory. */
static uint32_t grow(struct pf_stacks *s, struct pf_array *a)
{
	if (a->n + 1 == a->room && (a->room >= MOST || resize(s, a, a->room * 2) < 0)) {
		s->failed++;
		return 0;
	}
	return ++a->n;
}

int pf_stacks_init(struct pf_stacks *s)
{
	*s = (struct pf_stacks){.functions.size = sizeof(struct pf_function),
				.frames.size = sizeof(struct pf_frame),
				.nodes.size = sizeof(struct pf_node)};
	s->text = get(FIRST_TEXT);
	if (!s->text)
		return -ENOMEM;
	s->text_room = FIRST_TEXT;
	s->text_n = 1; /* 0 is no text */
	if (resize(s, &s->functions, FIRST_FUNCTIONS) < 0 || resize(s, &s->frames, FIRST_FRAMES) < 0 ||
	    resize(s, &s->nodes, FIRST_NODES) < 0)
		return -ENOMEM;
	return 0;
}

static void free_array(struct pf_array *a)
{
	put(a->items, a->size * a->room);
	put(a->slot, slots_size(a->room));
	*a = (struct pf_array){.size = a->size};
}

void pf_stacks_free(struct pf_stacks *s)
{
	free_array(&s->functions);
	free_array(&s->frames);
	free_array(&s->nodes);
	put(s->text, s->text_room);
	s->text = NULL;
	s->text_room = s->text_n = 0;
}

size_t pf_stacks_memory(const struct pf_stacks *s)
{
	return s->functions.size * s->functions.room + s->frames.size * s->frames.room + s->nodes.size * s->nodes.room +
	       slots_size(s->functions.room) + slots_size(s->frames.room) + slots_size(s->nodes.room) + s->text_room;
}

/* --- text ----------------------------------------------------------------------------------------------------------- */

uint32_t pf_stacks_hash(const char *text)
{
	uint32_t h = 2166136261u;

	for (; *text; text++)
		h = (h ^ (unsigned char)*text) * 16777619u;
	return h;
}

uint32_t pf_stacks_text(struct pf_stacks *s, const char *text)
{
	const size_t n = text ? strlen(text) : 0;
	uint32_t at, room = s->text_room;

	if (n == 0 || room == 0)
		return 0;
	while (room - s->text_n <= n && room < MOST)
		room *= 2;
	if (room != s->text_room) {
		char *more = room - s->text_n > n ? get(room) : NULL;

		if (!more) {
			s->failed++;
			return 0;
		}
		memcpy(more, s->text, s->text_n);
		put(s->text, s->text_room);
		s->text = more;
		s->text_room = room;
	} else if (room - s->text_n <= n) {
		s->failed++;
		return 0;
	}
	at = s->text_n;
	memcpy(s->text + at, text, n + 1);
	s->text_n += (uint32_t)n + 1;
	return at;
}

const char *pf_stacks_text_at(const struct pf_stacks *s, uint32_t offset)
{
	return offset ? s->text + offset : "";
}

/* --- items ---------------------------------------------------------------------------------------------------------- */

uint32_t pf_stacks_find_function(const struct pf_stacks *s, uint64_t source_key, uint32_t hash, int32_t line)
{
	const struct pf_function want = {.source_key = source_key, .hash = hash, .line = line};
	const uint32_t mask = s->functions.room * 2 - 1;
	uint32_t i;

	for (uint32_t at = hash_function(&want) & mask; (i = s->functions.slot[at]) != 0; at = (at + 1) & mask) {
		const struct pf_function *f = pf_stacks_function_at(s, i);

		if (f->source_key == source_key && f->line == line && f->hash == hash)
			return i;
	}
	return 0;
}

uint32_t pf_stacks_add_function(struct pf_stacks *s, const struct pf_function *f)
{
	const uint32_t i = grow(s, &s->functions);

	if (i) {
		*pf_stacks_function_at(s, i) = *f;
		place(&s->functions, hash_function(f), i);
	}
	return i;
}

uint32_t pf_stacks_frame(struct pf_stacks *s, enum pf_frame_kind kind, uint64_t key, uint32_t line)
{
	const struct pf_frame want = {.key = key, .line = line, .kind = kind};
	const uint32_t hash = hash_frame(&want), mask = s->frames.room * 2 - 1;
	uint32_t i;

	for (uint32_t at = hash & mask; (i = s->frames.slot[at]) != 0; at = (at + 1) & mask) {
		const struct pf_frame *f = pf_stacks_frame_at(s, i);

		if (f->key == key && f->line == line && f->kind == want.kind)
			return i;
	}
	i = grow(s, &s->frames);
	if (i) {
		*pf_stacks_frame_at(s, i) = want;
		place(&s->frames, hash, i);
	}
	return i;
}

uint32_t pf_stacks_child(struct pf_stacks *s, uint32_t parent, uint32_t frame)
{
	const struct pf_node want = {.parent = parent, .frame = frame};
	const uint32_t hash = hash_node(&want), mask = s->nodes.room * 2 - 1;
	uint32_t i;

	if (frame == 0)
		return 0;
	for (uint32_t at = hash & mask; (i = s->nodes.slot[at]) != 0; at = (at + 1) & mask) {
		const struct pf_node *n = pf_stacks_node_at(s, i);

		if (n->parent == parent && n->frame == frame)
			return i;
	}
	i = grow(s, &s->nodes);
	if (i) {
		*pf_stacks_node_at(s, i) = want;
		place(&s->nodes, hash, i);
	}
	return i;
}

void pf_stacks_add(struct pf_stacks *s, uint32_t node, uint64_t weight, uint64_t count)
{
	struct pf_node *n = node ? pf_stacks_node_at(s, node) : &s->none;

	n->weight += weight;
	n->count += count;
}
