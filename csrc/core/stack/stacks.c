/* See stacks.h. */
#include "core/stack/stacks.h"

#include <errno.h>
#include <string.h>

#include "core/base/pages.h"

enum { FIRST_FUNCTIONS = 256, FIRST_FRAMES = 1024, FIRST_NODES = 4096, FIRST_SUMS = 1024, FIRST_TEXT = 16384 };
enum { GRADUAL = 1 << 16, MOST = 1 << 28 };

/* --- memory --------------------------------------------------------------------------------------------------------- */

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

/* Enter item i into the hash table, which must have room. */
static void insert_slot(struct pf_array *a, uint32_t hash, uint32_t i)
{
	const uint32_t mask = a->slots - 1;
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

static size_t slots_size(uint32_t slots)
{
	return slots * sizeof(uint32_t);
}

static size_t items_size(const struct pf_array *a, uint32_t room)
{
	return (size_t)a->size * room;
}

static int more_items(struct pf_array *a)
{
	const uint32_t room = a->room < GRADUAL ? a->room * 2 : a->room + a->room / 4;

	if (room > MOST || pf_sys->mremap(&a->items, items_size(a, a->room), items_size(a, room)) < 0)
		return -ENOMEM;
	a->room = room;
	return 0;
}

static int more_slots(struct pf_stacks *s, struct pf_array *a)
{
	const uint32_t before = a->slots;
	uint32_t *slot = pf_pages_get(slots_size(before * 2));

	if (!slot)
		return -ENOMEM;
	pf_pages_put(a->slot, slots_size(before));
	a->slot = slot;
	a->slots = before * 2;
	for (uint32_t i = 1; i <= a->n; i++)
		insert_slot(a, hash_item(s, a, i), i);
	return 0;
}

/* Returns the number of a new item, 0 without memory. The caller fills the item and inserts its slot. */
static uint32_t new_item(struct pf_stacks *s, struct pf_array *a)
{
	if ((a->n + 1 == a->room && more_items(a) < 0) ||
	    (a->slots && (uint64_t)a->n * 4 >= (uint64_t)a->slots * 3 && more_slots(s, a) < 0))
		return 0;
	return ++a->n;
}

static int init_array(struct pf_array *a, size_t size, uint32_t room, uint32_t slots)
{
	*a = (struct pf_array){.size = (uint32_t)size, .items = pf_pages_get(size * room), .slot = slots ? pf_pages_get(slots_size(slots)) : NULL};
	if (a->items)
		a->room = room;
	if (a->slot)
		a->slots = slots;
	return a->items && (a->slot || !slots) ? 0 : -ENOMEM;
}

int pf_stacks_init(struct pf_stacks *s)
{
	*s = (struct pf_stacks){.text = pf_pages_get(FIRST_TEXT)};
	if (!s->text)
		return -ENOMEM;
	s->text_room = FIRST_TEXT;
	s->text_n = 1; /* offset 0 stands for no text */
	if (init_array(&s->functions, sizeof(struct pf_function), FIRST_FUNCTIONS, FIRST_FUNCTIONS * 2) < 0 ||
	    init_array(&s->frames, sizeof(struct pf_frame), FIRST_FRAMES, FIRST_FRAMES * 2) < 0 ||
	    init_array(&s->nodes, sizeof(struct pf_node), FIRST_NODES, FIRST_NODES * 2) < 0 ||
	    init_array(&s->sums, sizeof(struct pf_sum), FIRST_SUMS, 0) < 0)
		return -ENOMEM;
	return 0;
}

static void free_array(struct pf_array *a)
{
	pf_pages_put(a->items, items_size(a, a->room));
	pf_pages_put(a->slot, slots_size(a->slots));
	*a = (struct pf_array){.size = a->size};
}

void pf_stacks_free(struct pf_stacks *s)
{
	free_array(&s->functions);
	free_array(&s->frames);
	free_array(&s->nodes);
	free_array(&s->sums);
	pf_pages_put(s->text, s->text_room);
	s->text = NULL;
	s->text_room = s->text_n = 0;
}

size_t pf_stacks_memory(const struct pf_stacks *s)
{
	const struct pf_array *all[] = {&s->functions, &s->frames, &s->nodes, &s->sums};
	size_t sum = s->text_room;

	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		sum += items_size(all[i], all[i]->room) + slots_size(all[i]->slots);
	return sum;
}

/* --- text ----------------------------------------------------------------------------------------------------------- */

uint32_t pf_stacks_text(struct pf_stacks *s, size_t n, char **text)
{
	uint32_t at, room = s->text_room;

	if (n == 0 || room == 0)
		return 0;
	while (room - s->text_n <= n && room < MOST)
		room *= 2;
	if (room != s->text_room) {
		char *more = room - s->text_n > n ? pf_pages_get(room) : NULL;

		if (!more)
			return 0;
		memcpy(more, s->text, s->text_n);
		pf_pages_put(s->text, s->text_room);
		s->text = more;
		s->text_room = room;
	} else if (room - s->text_n <= n) {
		return 0;
	}
	at = s->text_n;
	*text = s->text + at;
	(*text)[n] = '\0';
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
	const uint32_t mask = s->functions.slots - 1;
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
	const uint32_t i = new_item(s, &s->functions);

	if (i) {
		*pf_stacks_function_at(s, i) = *f;
		insert_slot(&s->functions, hash_function(f), i);
	}
	return i;
}

uint32_t pf_stacks_frame(struct pf_stacks *s, enum pf_frame_kind kind, uint64_t key, uint32_t line)
{
	const struct pf_frame want = {.key = key, .line = line, .kind = kind};
	const uint32_t hash = hash_frame(&want), mask = s->frames.slots - 1;
	uint32_t i;

	for (uint32_t at = hash & mask; (i = s->frames.slot[at]) != 0; at = (at + 1) & mask) {
		const struct pf_frame *f = pf_stacks_frame_at(s, i);

		if (f->key == key && f->line == line && f->kind == want.kind)
			return i;
	}
	i = new_item(s, &s->frames);
	if (i) {
		*pf_stacks_frame_at(s, i) = want;
		insert_slot(&s->frames, hash, i);
	}
	return i;
}

uint32_t pf_stacks_child(struct pf_stacks *s, uint32_t parent, uint32_t frame)
{
	const struct pf_node want = {.parent = parent, .frame = frame};
	const uint32_t hash = hash_node(&want), mask = s->nodes.slots - 1;
	uint32_t i;

	if (frame == 0)
		return 0;
	for (uint32_t at = hash & mask; (i = s->nodes.slot[at]) != 0; at = (at + 1) & mask) {
		const struct pf_node *n = pf_stacks_node_at(s, i);

		if (n->parent == parent && n->frame == frame)
			return i;
	}
	i = new_item(s, &s->nodes);
	if (i) {
		*pf_stacks_node_at(s, i) = want;
		insert_slot(&s->nodes, hash, i);
	}
	return i;
}

/* Two stacks in a row mostly have the same outer frames: those nodes are found without the hash table. */
uint32_t pf_stacks_path(struct pf_stacks *s, uint32_t parent, const uint32_t *frames, unsigned n)
{
	uint32_t at = s->path, node;
	unsigned left = n > s->path_n ? n - s->path_n : 0; /* frames whose nodes are not known yet */

	for (unsigned more = s->path_n; more > n; more--)
		at = pf_stacks_node_at(s, at)->parent;
	node = at;
	for (unsigned i = left; i < n; i++) {
		const struct pf_node *known = pf_stacks_node_at(s, at);

		at = known->parent;
		if (known->frame != frames[i]) {
			node = at;
			left = i + 1;
		}
	}
	if (at != parent) {
		node = parent;
		left = n;
	}
	while (left-- > 0) {
		node = pf_stacks_child(s, node, frames[left]);
		if (!node)
			return 0;
	}
	s->path = node;
	s->path_n = n;
	return node;
}

int pf_stacks_add(struct pf_stacks *s, uint32_t node, uint64_t weight, uint64_t count)
{
	struct pf_sum *sum;

	if (node && !pf_stacks_node_at(s, node)->sum) {
		const uint32_t i = new_item(s, &s->sums);

		if (i == 0)
			return -ENOMEM;
		pf_stacks_node_at(s, node)->sum = i;
	}
	sum = pf_stacks_sum_at(s, node);
	sum->weight += weight;
	sum->count += count;
	return 0;
}
