/* Images, by which the functions of processes get names: see collector.h. When a sample is read, its addresses are translated to offsets in
 * their files. So a process that ends leaves nothing behind, and all processes that run a program share its functions. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/outside/collector.h"
#include "core/outside/maps.h"

enum { MOST_ENDED = 64 };
static const uint64_t FIRST_PAUSE = 1000000, LONGEST_PAUSE = UINT64_C(64) * 1000000000;

static size_t length(const char *line)
{
	return strcspn(line, "\n");
}

static int is_same_line(const char *a, const char *b)
{
	return length(a) == length(b) && memcmp(a, b, length(a)) == 0;
}

/* The mappings of code in the text. Returns NULL without memory, or if there are none. */
static struct pf_mapped *code_of(const char *text, unsigned *n)
{
	struct pf_mapped *items = NULL, *more;
	const char *line = text;
	unsigned count = 0, room = 0;
	struct pf_map map;

	for (const char *next = pf_maps_next(line, &map); next; line = next, next = pf_maps_next(line, &map)) {
		if (!map.executable)
			continue;
		if (count == room) {
			room = room ? room * 2 : 16;
			more = realloc(items, room * sizeof *items);
			if (!more)
				break;
			items = more;
		}
		items[count++] =
			(struct pf_mapped){.from = map.from, .to = map.to, .at = (size_t)(line - text), .is_file = map.inode != 0};
	}
	*n = items ? count : 0;
	return items;
}

/* The end of the first thread's C stack. If Linux chooses addresses at random, each program that is executed has another one. */
static uint64_t stack_end(const char *maps)
{
	uint64_t from, to;

	pf_maps_stack(maps, &from, &to);
	return to;
}

static void forget_maps(struct pf_target *t)
{
	free(t->maps);
	free(t->code_maps);
	t->maps = NULL;
	t->code_maps = NULL;
	t->code_maps_n = 0;
}

void pf_images_keep(struct pf_collector *c, struct pf_target *t, char *maps)
{
	/* Another process has the pid by now, or the process has executed another program, of which no sample was read yet. */
	if (t->maps && stack_end(t->maps) != stack_end(maps)) {
		free(maps);
		return;
	}
	forget_maps(t);
	t->maps = maps;
	t->code_maps = code_of(maps, &t->code_maps_n);
	if (t->image && c->images[t->image - 1].maps) {
		char *text = strdup(maps);

		free(c->images[t->image - 1].maps);
		c->images[t->image - 1].maps = text;
	}
}

void pf_images_adopt(struct pf_target *t, const struct pf_target *ancestor)
{
	forget_maps(t);
	t->maps = ancestor->maps ? strdup(ancestor->maps) : NULL;
	if (t->maps)
		t->code_maps = code_of(t->maps, &t->code_maps_n);
}

/* Returns the number of a new image; 0 without memory. */
static unsigned new_image(struct pf_collector *c, pid_t pid, const char *maps, size_t size, const struct pf_map *file)
{
	char *text = strndup(maps, size);

	if (text && c->images_n == c->images_room) {
		const unsigned room = c->images_room ? c->images_room * 2 : 16;
		struct pf_image *more = realloc(c->images, room * sizeof *more);

		if (!more) {
			free(text);
			return 0;
		}
		c->images = more;
		c->images_room = room;
	}
	if (!text)
		return 0;
	c->images[c->images_n] = (struct pf_image){.pid = pid, .maps = text};
	if (file) {
		c->images[c->images_n].device = file->device;
		c->images[c->images_n].inode = file->inode;
		c->images[c->images_n].offset = file->offset;
	}
	return ++c->images_n;
}

/* Is this the image of a mapped file? The path is compared too, since a new file may have the inode of a deleted one. */
static int is_image_of(const struct pf_image *image, const struct pf_map *map)
{
	struct pf_map of;

	return image->inode == map->inode && image->device == map->device && image->offset == map->offset && pf_maps_next(image->maps, &of) &&
	       is_same_line(of.path, map->path);
}

static unsigned image_of_file(struct pf_collector *c, const struct pf_target *t, const struct pf_mapped *m)
{
	const char *const line = t->maps + m->at;
	struct pf_map map;

	pf_maps_next(line, &map);
	for (unsigned i = 0; i < c->images_n; i++)
		if (c->images[i].inode && is_image_of(&c->images[i], &map))
			return i + 1;
	return new_image(c, t->pid, line, length(line), &map);
}

static struct pf_mapped *mapped_at(const struct pf_target *t, uint64_t address)
{
	for (unsigned i = 0; i < t->code_maps_n; i++)
		if (address - t->code_maps[i].from < t->code_maps[i].to - t->code_maps[i].from)
			return &t->code_maps[i];
	return NULL;
}

/* No code is known at an address: perhaps it was mapped lately. The pause until the next try is doubled each time. */
static void look_again(struct pf_collector *c, struct pf_target *t)
{
	const uint64_t now = pf_clock_ns(CLOCK_MONOTONIC);
	char *maps;
	int error;

	if (t->fixed.has_no_memory || now - t->looked < t->look_pause)
		return;
	t->looked = now;
	t->look_pause = t->look_pause * 2 < LONGEST_PAUSE ? t->look_pause * 2 + FIRST_PAUSE : LONGEST_PAUSE;
	maps = pf_maps_text(t->pid, &error);
	if (maps)
		pf_images_keep(c, t, maps);
}

/* The image of code in no file. Most of this code has no name, and none has one when its process has ended. So when MOST_ENDED
 * images belong to processes that have ended, further processes share one image, in which all code has the address 0. */
static unsigned image_of_process(struct pf_collector *c, struct pf_target *t, uint64_t *address)
{
	if (!t->image && c->images_ended < MOST_ENDED)
		t->image = new_image(c, t->pid, t->maps, strlen(t->maps), NULL);
	if (t->image)
		return t->image;
	*address = 0;
	if (!c->image_of_all)
		c->image_of_all = new_image(c, 0, "", 0, NULL);
	return c->image_of_all;
}

unsigned pf_image_at(struct pf_collector *c, struct pf_target *t, uint64_t *address)
{
	struct pf_mapped *m = mapped_at(t, *address);

	if (!t->maps)
		return 0;
	if (!m) {
		look_again(c, t);
		m = mapped_at(t, *address);
	}
	if (m && m->is_file) {
		if (!m->image)
			m->image = image_of_file(c, t, m);
		*address += m->image ? c->images[m->image - 1].offset - m->from : 0;
		return m->image;
	}
	return image_of_process(c, t, address);
}

/* Another process that has mapped the file of an image; NULL if there is none. */
static const struct pf_target *other_with(const struct pf_collector *c, unsigned image, const struct pf_target *t, const char **line)
{
	for (unsigned i = 0; i < c->targets_n; i++) {
		const struct pf_target *other = c->targets[i];

		for (unsigned k = 0; k < other->code_maps_n && other != t && !other->has_ended; k++)
			if (other->code_maps[k].image == image) {
				*line = other->maps + other->code_maps[k].at;
				return other;
			}
	}
	return NULL;
}

void pf_images_forget(struct pf_collector *c, struct pf_target *t)
{
	if (t->image) {
		free(c->images[t->image - 1].maps);
		c->images[t->image - 1].maps = NULL;
		c->images_ended++;
	}
	for (unsigned i = 0; i < c->images_n; i++) {
		struct pf_image *image = &c->images[i];
		const struct pf_target *other;
		const char *line;
		char *text;

		if (image->pid != t->pid || !image->inode)
			continue;
		other = other_with(c, i + 1, t, &line);
		text = other ? strndup(line, length(line)) : NULL;
		if (!text)
			continue;
		free(image->maps);
		image->maps = text;
		image->pid = other->pid;
	}
	t->image = 0;
	forget_maps(t);
}
