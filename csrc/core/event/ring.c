/* See ring.h. The mapping may hold damaged data: each length is checked against the available bytes before the tail moves, and
 * no length leads to an allocation. */
#include "core/event/ring.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/base/bytes.h"
#include "core/base/sys.h"
#include "core/base/thread.h"

static struct perf_event_mmap_page *page(const struct pf_ring *r)
{
	return (struct perf_event_mmap_page *)(void *)r->map;
}

uint64_t pf_ring_head(const struct pf_ring *r)
{
	return __atomic_load_n((const uint64_t *)(const void *)&page(r)->data_head, __ATOMIC_ACQUIRE);
}

static void store_tail(const struct pf_ring *r)
{
	__atomic_store_n((uint64_t *)(void *)&page(r)->data_tail, r->tail, __ATOMIC_RELEASE);
}

static int power_of_two(size_t n)
{
	return n && (n & (n - 1)) == 0;
}

static int map_aux(struct pf_ring *r, size_t size)
{
	void *p;
	int e;

	page(r)->aux_offset = r->map_size;
	page(r)->aux_size = size;
	e = pf_sys->mmap(&p, size, PROT_READ | PROT_WRITE, MAP_SHARED, r->fd, (off_t)r->map_size);
	if (e < 0)
		return e;
	r->aux = p;
	r->aux_size = size;
	return 0;
}

int pf_ring_map(struct pf_ring *r, int fd, size_t pages, size_t aux_pages, int backward)
{
	const size_t page_size = (size_t)sysconf(_SC_PAGESIZE);
	void *p;
	int e;

	if (r->map)
		return -EBUSY;
	if (!power_of_two(pages) || (aux_pages && !power_of_two(aux_pages)) || (aux_pages && backward) ||
	    pages > SIZE_MAX / 4 / page_size || aux_pages > SIZE_MAX / 4 / page_size)
		return -EINVAL;
	memset(r, 0, sizeof *r);
	r->fd = fd;
	r->generation = pf_fork_generation();
	r->backward = backward != 0;
	r->data_size = pages * page_size;
	r->map_size = r->data_size + page_size;
	r->scratch = malloc(backward ? r->data_size : PF_RECORD_MAX_SIZE);
	if (!r->scratch)
		return -ENOMEM;
	e = pf_sys->mmap(&p, r->map_size, backward ? PROT_READ : PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (e == 0) {
		r->map = p;
		r->data = r->map + page_size;
		if (aux_pages)
			e = map_aux(r, aux_pages * page_size);
	}
	if (e < 0) {
		pf_ring_unmap(r);
		return e;
	}
	if (!backward)
		r->tail = r->head = page(r)->data_tail;
	return 0;
}

int pf_ring_inherited(const struct pf_ring *r)
{
	return r->map && pf_inherited(r->generation);
}

void pf_ring_unmap(struct pf_ring *r)
{
	/* The child of a fork does not have these mappings: by now something else may be at their addresses. */
	if (r->aux && !pf_ring_inherited(r))
		pf_sys->munmap(r->aux, r->aux_size);
	if (r->map && !pf_ring_inherited(r))
		pf_sys->munmap(r->map, r->map_size);
	free(r->scratch);
	r->map = r->data = r->aux = r->scratch = NULL;
}

/* Drop all available bytes: without a valid length, the next record cannot be found. */
static int drop_available(struct pf_ring *r)
{
	r->damaged += r->head - r->tail;
	r->tail = r->head;
	if (!r->backward)
		store_tail(r);
	return -EBADMSG;
}

/* Copy n bytes, of which the first is number `at` of the stream; they may continue at the start of the area. */
static void copy_around(const unsigned char *area, size_t area_size, uint64_t at, unsigned char *dst, size_t n)
{
	const size_t from = (size_t)(at & (area_size - 1)), first = area_size - from < n ? area_size - from : n;

	memcpy(dst, area + from, first);
	memcpy(dst + first, area, n - first);
}

/* Backward: take a new snapshot if anything was written since the last one. */
static int snapshot(struct pf_ring *r)
{
	uint64_t head = pf_ring_head(r), amount = r->seen - head;
	int e;

	r->tail = r->head = 0;
	if (amount == 0)
		return 0;
	if (!r->paused) {
		e = pf_sys->ioctl(r->fd, PF_IOC_PAUSE_OUTPUT, (void *)1);
		if (e < 0)
			return e;
	}
	head = pf_ring_head(r);
	amount = r->seen - head;
	if (amount > r->data_size)
		amount = r->data_size;
	copy_around(r->data, r->data_size, head, r->scratch, (size_t)amount);
	if (!r->paused)
		pf_sys->ioctl(r->fd, PF_IOC_PAUSE_OUTPUT, (void *)0);
	r->seen = head;
	r->head = amount;
	return 1;
}

/* Backward: the snapshot ends at a length of 0, where nothing was ever written, or at a record that reaches beyond its end, since
 * that record is partly overwritten. */
static int peek_backward(struct pf_ring *r, const unsigned char **bytes)
{
	uint64_t left;
	size_t size;
	int e;

	if (r->tail == r->head) {
		e = snapshot(r);
		if (e <= 0)
			return e;
	}
	left = r->head - r->tail;
	size = left >= sizeof(struct pf_header) ? pf_load16(r->scratch + r->tail + 6) : 0;
	if (size == 0 || size > left) {
		r->tail = r->head;
		return 0;
	}
	if (size < sizeof(struct pf_header) || size % 8)
		return drop_available(r);
	*bytes = r->scratch + r->tail;
	return (int)size;
}

static int peek(struct pf_ring *r, const unsigned char **bytes)
{
	uint64_t left = r->head - r->tail;
	const unsigned char *p;
	size_t from, size;

	if (r->backward)
		return peek_backward(r, bytes);
	if (left == 0) {
		r->head = pf_ring_head(r);
		left = r->head - r->tail;
		if (left == 0)
			return 0;
	}
	if (left > r->data_size || (r->head | r->tail) % 8)
		return drop_available(r);
	from = (size_t)(r->tail & (r->data_size - 1));
	p = r->data + from;
	size = pf_load16(p + 6);
	if (size < sizeof(struct pf_header) || size % 8 || size > left)
		return drop_available(r);
	if (size > r->data_size - from) {
		copy_around(r->data, r->data_size, from, r->scratch, size);
		p = r->scratch;
	}
	*bytes = p;
	return (int)size;
}

int pf_ring_peek(struct pf_ring *r, const unsigned char **bytes)
{
	int size;

	if (!r->map)
		return -EBADF;
	size = peek(r, bytes);
	r->current = size > 0 ? (uint32_t)size : 0;
	return size;
}

size_t pf_ring_span(struct pf_ring *r, const unsigned char **bytes)
{
	uint64_t left;
	size_t from;

	if (!r->map || r->backward)
		return 0;
	r->current = 0;
	if (r->head == r->tail)
		r->head = pf_ring_head(r);
	left = r->head - r->tail;
	if (left > r->data_size || (r->head | r->tail) % 8)
		return 0;
	from = (size_t)(r->tail & (r->data_size - 1));
	*bytes = r->data + from;
	return left < r->data_size - from ? (size_t)left : r->data_size - from;
}

void pf_ring_skip(struct pf_ring *r, size_t n)
{
	r->tail += n;
	store_tail(r);
}

/* Add up the losses that LOST and LOST_SAMPLES records report. */
static void count_lost(struct pf_ring *r, const unsigned char *bytes, size_t size)
{
	const uint32_t type = pf_load32(bytes);

	if (type == PF_RECORD_LOST && size >= 24)
		r->lost += pf_load64(bytes + 16);
	else if (type == PF_RECORD_LOST_SAMPLES && size >= 16)
		r->lost_samples += pf_load64(bytes + 8);
}

void pf_ring_release(struct pf_ring *r)
{
	const size_t from = (size_t)(r->tail & (r->data_size - 1)), size = r->current;

	if (size == 0 || !r->map)
		return;
	if (r->backward)
		count_lost(r, r->scratch + r->tail, size);
	else
		count_lost(r, size > r->data_size - from ? r->scratch : r->data + from, size);
	r->current = 0;
	r->tail += size;
	if (!r->backward)
		store_tail(r);
}

int pf_ring_ready(struct pf_ring *r)
{
	if (!r->map)
		return 0;
	if (r->backward)
		return r->tail != r->head || pf_ring_head(r) != r->seen;
	if (r->tail == r->head)
		r->head = pf_ring_head(r);
	return r->head - r->tail != r->current;
}

int pf_ring_next(struct pf_ring *r, struct pf_record *out, const unsigned char **bytes)
{
	int size, e;

	pf_ring_release(r);
	size = pf_ring_peek(r, bytes);
	if (size <= 0)
		return size;
	e = pf_record_parse(r->layouts ? pf_layouts_find(r->layouts, *bytes, (size_t)size) : NULL, *bytes, (size_t)size,
			    out);
	return e < 0 ? e : 1;
}

ptrdiff_t pf_ring_drain(struct pf_ring *r, unsigned char *dst, size_t room)
{
	const unsigned char *bytes;
	size_t n = 0;
	int size;

	pf_ring_release(r);
	for (;;) {
		size = pf_ring_peek(r, &bytes);
		if (size <= 0 || (size_t)size > room - n) {
			r->current = 0;
			return size < 0 && n == 0 ? size : (ptrdiff_t)n;
		}
		memcpy(dst + n, bytes, (size_t)size);
		n += (size_t)size;
		pf_ring_release(r);
	}
}

int pf_ring_aux_copy(const struct pf_ring *r, uint64_t offset, size_t size, unsigned char *dst)
{
	uint64_t head;

	if (!r->aux)
		return -EBADF;
	head = __atomic_load_n((const uint64_t *)(const void *)&page(r)->aux_head, __ATOMIC_ACQUIRE);
	if (size > r->aux_size || head - offset < size || head - offset > r->aux_size)
		return -ENODATA;
	copy_around(r->aux, r->aux_size, offset, dst, size);
	return 0;
}

void pf_ring_aux_release(struct pf_ring *r, uint64_t end)
{
	uint64_t *tail = (uint64_t *)(void *)&page(r)->aux_tail;

	/* Never move the tail back, nor past the written data. */
	if (r->aux && end - *tail <= __atomic_load_n((const uint64_t *)(const void *)&page(r)->aux_head, __ATOMIC_ACQUIRE) - *tail)
		__atomic_store_n(tail, end, __ATOMIC_SEQ_CST);
}
