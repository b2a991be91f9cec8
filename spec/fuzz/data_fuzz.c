/* perf.data files and pipes against bytes that no recorder writes.
 *
 * Each run makes a file or a pipe's stream of a few events and records, in either byte order, partly in compressed records (the
 * compression is the identity here, in odd portions). It must read back record by record. Then it is damaged a few times and read
 * again: a reader may return any result, but it must end, return only known errors, only records within the bytes, and no more
 * ids than fit in the bytes. The core reads from memory: its system calls are replaced by those in this file. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/data/read.h"
#include "core/data/swap.h"
#include "fuzz.h"
#include "records.h"
#include "core/base/sys.h"

enum { MAX_EVENTS = 3, MAX_RECORDS = 6, MAX_FILE = 1 << 20 };

static unsigned long whole, refused, good, bad, cut;

/* The file that is open. */
static struct {
	unsigned char *bytes;
	size_t n, at;
	int pipe;
} disk;

static ssize_t fake_pread(int fd, void *buf, size_t size, off_t offset)
{
	size_t n;

	(void)fd;
	if (offset < 0)
		return -EINVAL;
	if ((uint64_t)offset >= disk.n)
		return 0;
	n = disk.n - (size_t)offset < size ? disk.n - (size_t)offset : size;
	if (n > 1 && fuzz_below(8) == 0) /* the system may return less than was requested */
		n = 1 + fuzz_below((unsigned)n);
	memcpy(buf, disk.bytes + offset, n);
	return (ssize_t)n;
}

static ssize_t fake_read(int fd, void *buf, size_t size)
{
	ssize_t n = fake_pread(fd, buf, size, (off_t)disk.at);

	if (n > 0)
		disk.at += (size_t)n;
	return n;
}

static int fake_fstat(int fd, struct stat *out)
{
	(void)fd;
	memset(out, 0, sizeof *out);
	out->st_mode = disk.pipe ? S_IFIFO : S_IFREG;
	out->st_size = disk.pipe ? 0 : (off_t)disk.n;
	return 0;
}

static const struct pf_sys fake = {.read = fake_read, .pread = fake_pread, .fstat = fake_fstat};

static int copy_inflate(struct pf_inflate *z, const unsigned char *in, size_t *n, unsigned char *out, size_t *room)
{
	size_t k = *n < *room ? *n : *room;

	(void)z;
	if (k > 1 && fuzz_below(3) == 0)
		k = 1 + fuzz_below((unsigned)k);
	memcpy(out, in, k);
	*n = *room = k;
	return 0;
}

/* --- making ---------------------------------------------------------------------------------------------------------- */

struct image {
	unsigned char bytes[MAX_FILE];
	size_t n;
	int swapped, pipe;
	struct pf_attr attr[MAX_EVENTS];
	unsigned nevents, nrecords;
	struct pf_record records[MAX_RECORDS * 2]; /* the expected value after reading it back */
	uint32_t types[MAX_RECORDS * 2];
};

static void put(struct image *m, const void *p, size_t n)
{
	CHECK(n <= sizeof m->bytes - m->n);
	memcpy(m->bytes + m->n, p, n);
	m->n += n;
}

static void put64(struct image *m, uint64_t v)
{
	if (m->swapped)
		v = __builtin_bswap64(v);
	put(m, &v, sizeof v);
}

static void put_header(struct image *m, uint32_t type, size_t size)
{
	struct pf_header h = {type, 0, (uint16_t)size};

	if (m->swapped)
		pf_swap_header(&h);
	put(m, &h, sizeof h);
}

static void put_attr(struct image *m, const struct pf_attr *a)
{
	struct pf_attr b = *a;

	if (m->swapped)
		pf_swap_attr(&b);
	put(m, &b, sizeof b);
}

/* A record of the perf tool, sometimes with random content; returns whether it can be read back. */
static void put_user(struct image *m)
{
	static const uint32_t plain[] = {PF_USER_FINISHED_ROUND, PF_USER_ID_INDEX, PF_USER_AUXTRACE_INFO, PF_USER_AUXTRACE_ERROR,
					 PF_USER_THREAD_MAP, PF_USER_CPU_MAP, PF_USER_STAT, PF_USER_EVENT_UPDATE, PF_USER_TIME_CONV,
					 PF_USER_HEADER_FEATURE, PF_USER_BPF_METADATA};
	uint32_t type = plain[fuzz_below(sizeof plain / sizeof *plain)];
	unsigned words = 0;

	switch (type) {
	case PF_USER_FINISHED_ROUND:
		break;
	case PF_USER_ID_INDEX: /* lengths that fit, if there are any: zero */
	case PF_USER_THREAD_MAP:
	case PF_USER_CPU_MAP:
		words = 3;
		break;
	default:
		words = 16;
	}
	put_header(m, type, 8 + words * 8);
	for (unsigned i = 0; i < words; i++)
		put64(m, 0);
	m->types[m->nrecords++] = type;
}

static void put_auxtrace(struct image *m)
{
	unsigned n = fuzz_below(4) ? fuzz_below(100) : 5000 + fuzz_below(100000);

	put_header(m, PF_USER_AUXTRACE, 48);
	put64(m, n);
	for (int i = 0; i < 4; i++)
		put64(m, 0);
	for (unsigned i = 0; i < n; i++)
		put(m, "x", 1);
	m->types[m->nrecords++] = PF_USER_AUXTRACE;
}

static uint64_t id_of(unsigned event)
{
	return 1000 + event;
}

/* The record gets the event's id, if it has a place for one. */
static void set_id(struct maker *r, const struct pf_attr *a, unsigned event)
{
	struct pf_layout l;
	uint32_t type;
	size_t at;
	uint64_t id = id_of(event), turned = __builtin_bswap64(id);

	pf_layout_init(&l, a, PF_ARCH_X86);
	memcpy(&type, r->native, sizeof type);
	at = type == PF_RECORD_SAMPLE ? l.sample_id_at : l.other_id_at ? r->n - l.other_id_at : 0;
	if (at) {
		memcpy(r->native + at, &id, sizeof id);
		memcpy(r->swapped + at, &turned, sizeof turned);
	}
}

/* A kernel's record, inside compressed records if packed; returns 0 if it is too large for one. */
static void put_kernel(struct image *m, int packed)
{
	static struct maker r;
	unsigned event = fuzz_below(m->nevents);
	const unsigned char *bytes = m->swapped ? r.swapped : r.native;
	struct pf_layout l;
	size_t at = 0;

	make_record(&r, &m->attr[event]);
	set_id(&r, &m->attr[event], event);
	pf_layout_init(&l, &m->attr[event], PF_ARCH_X86);
	CHECK(pf_record_parse(&l, r.native, r.n, &m->records[m->nrecords]) >= 0);
	m->types[m->nrecords] = m->records[m->nrecords].type;
	if (m->types[m->nrecords] < PF_USER_FIRST && m->types[m->nrecords] <= PF_RECORD_LAST)
		m->nrecords++;
	if (!packed) {
		put(m, bytes, r.n);
		return;
	}
	while (at < r.n) {
		size_t part = 1 + fuzz_below((unsigned)(r.n - at));

		if (part > 60000)
			part = 60000;
		if (fuzz_below(2)) {
			put_header(m, PF_USER_COMPRESSED, 8 + part);
		} else {
			put_header(m, PF_USER_COMPRESSED2, 16 + part);
			put64(m, part);
		}
		put(m, bytes + at, part);
		at += part;
	}
}

static void put_data(struct image *m)
{
	unsigned n = fuzz_below(MAX_RECORDS + 1);

	for (unsigned i = 0; i < n; i++) {
		switch (fuzz_below(8)) {
		case 0:
			put_user(m);
			break;
		case 1:
			put_auxtrace(m);
			break;
		default:
			put_kernel(m, fuzz_below(4) == 0);
		}
	}
}

static void put_pipe(struct image *m)
{
	put64(m, UINT64_C(0x32454c4946524550));
	put64(m, PF_DATA_PIPE_HEADER);
	for (unsigned i = 0; i < m->nevents; i++) {
		put_header(m, PF_USER_HEADER_ATTR, 8 + sizeof m->attr[i] + 8);
		put_attr(m, &m->attr[i]);
		put64(m, id_of(i));
		m->types[m->nrecords++] = PF_USER_HEADER_ATTR;
	}
	put_data(m);
}

static void put_file(struct image *m)
{
	struct pf_data_header h = {.size = sizeof h, .attr_size = sizeof *m->attr + sizeof(struct pf_section)};
	uint64_t words[sizeof h / 8], magic = UINT64_C(0x32454c4946524550);
	const unsigned nfeatures = fuzz_below(4);

	h.attrs.offset = sizeof h + 8 * m->nevents;
	h.attrs.size = h.attr_size * m->nevents;
	h.data.offset = h.attrs.offset + h.attrs.size;
	put(m, &h, sizeof h);
	for (unsigned i = 0; i < m->nevents; i++)
		put64(m, id_of(i));
	for (unsigned i = 0; i < m->nevents; i++) {
		put_attr(m, &m->attr[i]);
		put64(m, sizeof h + 8 * i);
		put64(m, 8);
	}
	put_data(m);
	h.data.size = m->n - h.data.offset;
	for (unsigned i = 0; i < nfeatures; i++)
		h.features[0] |= PF_BIT(PF_FEATURE_HOSTNAME + i);
	for (unsigned i = 0; i < nfeatures; i++) {
		put64(m, h.data.offset + h.data.size + nfeatures * 16 + i * 8);
		put64(m, 8);
	}
	for (unsigned i = 0; i < nfeatures; i++)
		put64(m, 0);
	memcpy(words, &h, sizeof words);
	words[0] = magic;
	for (size_t i = 0; i < sizeof words / 8; i++) {
		uint64_t v = m->swapped ? __builtin_bswap64(words[i]) : words[i];

		memcpy(m->bytes + i * 8, &v, sizeof v);
	}
}

/* Events with distinguishable records, or one event of any kind. */
static void make_image(struct image *m)
{
	m->n = m->nrecords = 0;
	m->swapped = (int)fuzz_below(2);
	m->pipe = (int)fuzz_below(2);
	m->nevents = 1 + fuzz_below(MAX_EVENTS);
	for (unsigned i = 0; i < m->nevents; i++) {
		make_attr(&m->attr[i]);
		m->attr[i].size = sizeof m->attr[i];
		m->attr[i].precise_ip = 0; /* its two bits do not return to their places when swapped twice */
		if (m->nevents > 1) {
			m->attr[i].sample_type |= PF_SAMPLE(IDENTIFIER);
			m->attr[i].sample_id_all = 1;
		}
	}
	if (m->pipe)
		put_pipe(m);
	else
		put_file(m);
}

/* --- reading --------------------------------------------------------------------------------------------------------- */

static void open_disk(struct pf_data *d, int seekable)
{
	memset(d, 0, sizeof *d);
	d->window = PF_RECORD_MAX; /* the smallest, so that records cross its end */
	disk.at = 0;
	disk.pipe = !seekable;
}

/* Reads everything; returns the number of records. Compares with the image if that is undamaged. */
static unsigned read_image(const struct image *m, int compare)
{
	static struct pf_inflate copying = {copy_inflate};
	struct pf_data d;
	struct pf_data_record r;
	struct pf_record rec;
	struct pf_section s;
	unsigned n = 0, calls = 0;
	unsigned char part[300];
	int e;

	open_disk(&d, !m->pipe || fuzz_below(2));
	e = pf_data_open(&d, 0);
	CHECK(e == 0 || e == -EBADMSG || e == -ESPIPE || e == -ENODATA);
	CHECK(e == 0 || !compare);
	if (e < 0) {
		refused++;
		pf_data_close(&d);
		return 0;
	}
	CHECK(d.events.nids <= d.events.max_ids);
	CHECK(m->pipe || d.pipe || d.events.nids <= disk.n / 8);
	for (unsigned bit = 0; bit < PF_FEATURE_BITS; bit++) {
		e = pf_data_feature(&d, bit, &s);
		CHECK(e == 0 || e == 1 || e == -EBADMSG);
		CHECK(e != 1 || (s.offset <= disk.n && s.size <= disk.n - s.offset));
	}
	pf_data_events_arch(&d.events, PF_ARCH_X86);
	while ((e = pf_data_next(&d, &r)) != 0) {
		CHECK(++calls <= disk.n + 2);
		if (e == PF_DATA_NEEDS_INFLATE) {
			if (compare || fuzz_below(8))
				d.inflate = &copying;
			else
				d.no_inflate = 1;
			continue;
		}
		CHECK(e == 1 || e == -EBADMSG);
		CHECK(e == 1 || (!compare && d.why && d.where <= disk.n));
		if (e < 0) {
			bad++;
			continue;
		}
		pf_data_events_arch(&d.events, PF_ARCH_X86);
		CHECK(r.size >= 8 && r.size < PF_RECORD_MAX && (uintptr_t)r.bytes % 8 == 0 && r.offset < disk.n);
		e = pf_record_parse(r.layout, r.bytes, r.size, &rec);
		CHECK(e >= 0 || e == -EBADMSG);
		if (e >= 0) {
			read_all(&rec, r.bytes, r.size);
			good++;
		}
		if (compare) {
			CHECK(e >= 0 && n < m->nrecords && r.type == m->types[n]);
			if (r.type < PF_USER_FIRST)
				same_record(&rec, &m->records[n]);
		}
		while (fuzz_below(2) && pf_data_payload(&d, part, sizeof part) > 0)
			;
		n++;
	}
	CHECK(pf_data_next(&d, &r) == 0);
	CHECK(!compare || n == m->nrecords);
	pf_data_close(&d);
	return n;
}

static void one_image(struct image *m)
{
	make_image(m);
	disk.bytes = malloc(m->n);
	CHECK(disk.bytes);
	disk.n = m->n;
	memcpy(disk.bytes, m->bytes, m->n);
	whole += read_image(m, 1);
	for (unsigned k = 0; k < 3; k++) {
		unsigned char *exact;
		/* Mostly near the front, which the rest depends on. */
		size_t front = fuzz_below(2) && m->n > 400 ? 400 : m->n;

		memcpy(disk.bytes, m->bytes, m->n);
		disk.n = fuzz_damage(disk.bytes, front);
		if (disk.n == front)
			disk.n = m->n;
		cut += disk.n < m->n;
		exact = malloc(disk.n ? disk.n : 1);
		CHECK(exact);
		memcpy(exact, disk.bytes, disk.n);
		free(disk.bytes);
		disk.bytes = exact;
		read_image(m, 0);
		disk.bytes = realloc(disk.bytes, m->n);
		CHECK(disk.bytes);
	}
	free(disk.bytes);
}

int main(int argc, char **argv)
{
	static struct image m;
	const unsigned long runs = fuzz_start(argc, argv);

	pf_sys = &fake;
	for (unsigned long i = fuzz_first; i < runs; i++) {
		fuzz_run(i);
		one_image(&m);
	}
	printf("data_fuzz: %lu runs: %lu records of whole files; of damaged ones %lu records, %lu damaged, %lu files refused, %lu cut off\n",
	       runs, whole, good - whole, bad, refused, cut);
	return 0;
}
