/* Rings with bytes that no kernel writes: filled with records, some of them damaged, with damaged head and tail, and read to the
 * end, forward and backward, by next and by drain; and the aux area with offsets and sizes of any kind. The core's system calls
 * are replaced by memory of this program. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "records.h"
#include "core/event/ring.h"
#include "core/base/sys.h"

static unsigned long records, refused;
static volatile uint64_t sink;

static int fake_mmap(void **out, size_t size, int prot, int flags, int fd, off_t at)
{
	(void)prot, (void)flags, (void)fd, (void)at;
	*out = aligned_alloc(64, size);
	if (!*out)
		return -ENOMEM;
	memset(*out, 0, size);
	return 0;
}

static int fake_munmap(void *p, size_t size)
{
	(void)size;
	free(p);
	return 0;
}

static int fake_ioctl(int fd, unsigned long request, void *arg)
{
	(void)fd, (void)request, (void)arg;
	return fuzz_below(100) ? 0 : -EINVAL;
}

static void set64(unsigned char *p, uint64_t v)
{
	memcpy(p, &v, sizeof v);
}

/* Writes n bytes, which may wrap around the end of the data. */
static void fill(struct pf_ring *r, uint64_t at, const unsigned char *bytes, size_t n)
{
	for (size_t i = 0; i < n; i++)
		r->data[(at + i) & (r->data_size - 1)] = bytes[i];
}

static void read_ring(struct pf_ring *r)
{
	const unsigned char *bytes;
	struct pf_record rec;
	unsigned char *dst;

	for (size_t i = 0;; i++) {
		int e = pf_ring_next(r, &rec, &bytes);

		CHECK(i <= r->data_size);
		CHECK(e == 0 || e == 1 || e == -EBADMSG || e == -EINVAL);
		if (e == -EINVAL) /* the output could not be paused */
			return;
		if (e == 0)
			break;
		refused += e < 0;
		if (e == 1) {
			read_all(&rec, bytes, rec.size);
			records++;
		}
		if (fuzz_below(100) == 0) {
			size_t room = fuzz_below(3000);

			dst = malloc(room + 1);
			CHECK(pf_ring_drain(r, dst, room) <= (ptrdiff_t)room);
			free(dst);
		}
	}
	CHECK(pf_ring_peek(r, &bytes) <= 0);
}

static void one_ring(struct maker *m)
{
	struct pf_ring r = {0};
	struct pf_layouts ls = {0};
	struct pf_layout l;
	struct pf_attr a[3];
	const int backward = (int)fuzz_below(2);
	const size_t aux = backward ? 0 : fuzz_below(2);
	unsigned char *page;

	const unsigned alike = fuzz_below(4); /* all events have one attr, or each its own */

	for (size_t i = 0; i < 3; i++) {
		make_attr(&a[i]);
		if (i > 0 && alike)
			a[i] = a[0];
		if (!alike && fuzz_below(2)) {
			a[i].sample_type |= PF_SAMPLE(IDENTIFIER);
			a[i].sample_id_all = 1;
		}
		pf_layout_init(&l, &a[i], PF_ARCH_ARM64);
		CHECK(pf_layouts_add(&ls, &l) == (int)i);
		for (size_t k = 0; k < 10; k++)
			CHECK(pf_layouts_bind(&ls, fuzz_word(), (uint32_t)i) == 0);
	}
	CHECK(pf_ring_map(&r, 3, (size_t)1 << fuzz_below(2), aux, backward) == 0);
	r.layouts = &ls;
	page = r.map;
	for (unsigned round = 0; round < 4; round++) {
		uint64_t start, end;

		memcpy(&start, page + (backward ? 1024 : 1032), 8);
		for (end = start; end - start < r.data_size;) {
			make_record(m, &a[fuzz_below(3)]);
			if (fuzz_below(10) == 0)
				m->n = fuzz_damage(m->native, m->n) & ~(size_t)7;
			if (m->n > r.data_size - (end - start))
				break;
			if (backward)
				fill(&r, start - (end - start) - m->n, m->native, m->n);
			else
				fill(&r, end, m->native, m->n);
			end += m->n;
			if (m->n == 0)
				break;
		}
		if (fuzz_below(20) == 0)
			end += fuzz_word();
		set64(page + 1024, backward ? start - (end - start) : end);
		read_ring(&r);
		if (aux) {
			size_t n = fuzz_below(2) ? fuzz_below(5000) : (size_t)fuzz_word();
			const size_t room = n < r.aux_size ? n : r.aux_size;
			unsigned char *dst = malloc(room + 1);
			uint64_t at = fuzz_word();

			set64(page + 1056, fuzz_word() + fuzz_below(10000));
			CHECK(dst);
			if (pf_ring_aux_copy(&r, at, n, dst) == 0)
				sink += dst[room ? room - 1 : 0];
			pf_ring_aux_release(&r, at + n);
			free(dst);
		}
	}
	pf_ring_unmap(&r);
	pf_ring_unmap(&r);
	pf_layouts_free(&ls);
}

int main(int argc, char **argv)
{
	static struct maker m;
	const unsigned long runs = fuzz_start(argc, argv) / 20;
	struct pf_sys fake = pf_sys_real;

	fake.mmap = fake_mmap;
	fake.munmap = fake_munmap;
	fake.ioctl = fake_ioctl;
	pf_sys = &fake;
	for (unsigned long i = fuzz_first; i < runs; i++) {
		fuzz_run(i);
		one_ring(&m);
	}
	pf_sys = &pf_sys_real;
	printf("ring_fuzz: %lu runs: %lu records read, %lu refused\n", runs, records, refused);
	return 0;
}
