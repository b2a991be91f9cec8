/* See events.h. No memory is allocated for ids that the file does not contain. Sections of ids may overlap, so their total is limited by the
 * size of the file, as is each of them. */
#include "core/data/events.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/data/swap.h"

#define MAX_EVENTS 65536u

/* Makes list[n] a new event with room for nids ids. It does not count yet. */
static int reserve(struct pf_data_events *e, uint64_t nids, const char **why)
{
	struct pf_data_event *list = e->list;
	uint64_t *ids = NULL;

	if (e->n == MAX_EVENTS || nids > e->max_ids - e->nids) {
		*why = "more events or ids than the file can hold";
		return -EBADMSG;
	}
	if (e->n == e->room) {
		uint32_t room = e->room ? e->room * 2 : 8;

		list = realloc(list, room * sizeof *list);
		if (!list)
			return -ENOMEM;
		e->list = list;
		e->room = room;
	}
	if (nids > SIZE_MAX / sizeof *ids)
		return -ENOMEM;
	if (nids > 0) {
		ids = malloc((size_t)nids * sizeof *ids);
		if (!ids)
			return -ENOMEM;
	}
	memset(&list[e->n], 0, sizeof *list);
	list[e->n].ids = ids;
	list[e->n].nids = (uint32_t)nids;
	return 0;
}

/* Counts the reserved event, whose attr and ids have been read. */
static int commit(struct pf_data_events *e)
{
	struct pf_data_event *ev = &e->list[e->n];
	struct pf_layout layout;
	int index;

	pf_layout_init(&layout, &ev->attr, e->arch);
	index = pf_layouts_add(&e->layouts, &layout);
	if (index < 0) {
		free(ev->ids);
		return index;
	}
	e->n++;
	e->nids += ev->nids;
	for (uint32_t i = 0; i < ev->nids; i++) {
		int r = pf_layouts_bind(&e->layouts, ev->ids[i], (uint32_t)index);

		if (r < 0)
			return r;
	}
	return 0;
}

int pf_data_events_read(struct pf_data_events *e, const struct pf_source *src, const struct pf_section *attrs,
			uint64_t attr_size, int swapped, const char **why)
{
	unsigned char bytes[PF_DATA_ATTR_MAX];
	uint64_t n;

	if (attr_size < PF_ATTR_SIZE_VER0 + sizeof(struct pf_section) || attr_size > sizeof bytes) {
		*why = "the size of its attrs is out of range";
		return -EBADMSG;
	}
	if (attrs->offset > src->size || attrs->size > src->size - attrs->offset) {
		*why = "its attrs lie beyond its end";
		return -EBADMSG;
	}
	n = attrs->size / attr_size;
	for (uint64_t i = 0; i < n; i++) {
		struct pf_section ids;
		ssize_t got = pf_source_copy(src, attrs->offset + i * attr_size, bytes, (size_t)attr_size);
		int r;

		if (got < 0)
			return (int)got;
		*why = "its attrs are cut off";
		if ((uint64_t)got < attr_size)
			return -EBADMSG;
		memcpy(&ids, bytes + attr_size - sizeof ids, sizeof ids);
		if (swapped)
			pf_swap_u64s(&ids, 2);
		*why = "an event's ids lie beyond its end";
		if (ids.size > 0 && (ids.offset > src->size || ids.size > src->size - ids.offset))
			return -EBADMSG;
		r = reserve(e, ids.size / 8, why);
		if (r < 0)
			return r;
		pf_attr_from(&e->list[e->n].attr, bytes, (size_t)attr_size - sizeof ids, swapped);
		got = pf_source_copy(src, ids.offset, e->list[e->n].ids, (size_t)(ids.size / 8 * 8));
		if (got < 0 || (uint64_t)got < ids.size / 8 * 8) {
			free(e->list[e->n].ids);
			return got < 0 ? (int)got : -EBADMSG;
		}
		if (swapped)
			pf_swap_u64s(e->list[e->n].ids, (size_t)(ids.size / 8));
		r = commit(e);
		if (r < 0)
			return r;
	}
	return 0;
}

int pf_data_events_record(struct pf_data_events *e, const unsigned char *record, size_t size, const char **why)
{
	const unsigned char *body = record + sizeof(struct pf_header);
	size_t left = size - sizeof(struct pf_header), nids;
	uint32_t attr_size;
	int r;

	*why = "a header_attr record is too short";
	if (left < PF_ATTR_SIZE_VER0)
		return -EBADMSG;
	memcpy(&attr_size, body + offsetof(struct pf_attr, size), sizeof attr_size);
	if (attr_size == 0)
		attr_size = PF_ATTR_SIZE_VER0;
	if (attr_size < PF_ATTR_SIZE_VER0 || attr_size > left)
		return -EBADMSG;
	nids = (left - attr_size) / 8;
	e->max_ids += nids; /* the record holds these ids */
	r = reserve(e, nids, why);
	if (r < 0)
		return r;
	pf_attr_from(&e->list[e->n].attr, body, attr_size, 0);
	if (nids > 0)
		memcpy(e->list[e->n].ids, body + attr_size, nids * 8);
	return commit(e);
}

void pf_data_events_arch(struct pf_data_events *e, enum pf_arch arch)
{
	e->arch = arch;
	for (uint32_t i = 0; i < e->layouts.n; i++)
		e->layouts.list[i]->arch = (uint8_t)arch;
}

void pf_data_events_free(struct pf_data_events *e)
{
	for (uint32_t i = 0; i < e->n; i++)
		free(e->list[i].ids);
	free(e->list);
	pf_layouts_free(&e->layouts);
	*e = (struct pf_data_events){0};
}
