/* The header of a perf.data file: its version and byte order, the positions of its parts, its events. */
#include "core/data/read.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/data/swap.h"

static int known_attr_size(uint64_t size)
{
	return size >= PF_ATTR_SIZE_VER0 + sizeof(struct pf_section) && size <= PF_DATA_ATTR_MAX;
}

/* The version and the byte order. The newer magic is a number in the recording machine's order. The older one is a string: then
 * the order is the one in which the sizes after it are plausible. */
static int read_magic(struct pf_data *d, const unsigned char *bytes, size_t n)
{
	uint64_t magic, number, attr_size;

	if (n < PF_DATA_PIPE_HEADER)
		return pf_data_bad(d, 0, "it is too short for a perf.data file");
	memcpy(&magic, bytes, sizeof magic);
	memcpy(&number, bytes + 8, sizeof number);
	d->version = 2;
	if (memcmp(bytes, PF_DATA_MAGIC_OLD, 8) == 0) {
		d->version = 1;
		d->swapped = __builtin_bswap64(number) < number;
		if (n >= 24) {
			memcpy(&attr_size, bytes + 16, sizeof attr_size);
			if (number != PF_DATA_PIPE_HEADER && __builtin_bswap64(number) != PF_DATA_PIPE_HEADER)
				d->swapped = !known_attr_size(attr_size);
		}
	} else if (magic == UINT64_C(0x50455246494c4532)) {
		d->swapped = 1;
	} else if (magic != UINT64_C(0x32454c4946524550)) {
		return pf_data_bad(d, 0, "it does not begin like a perf.data file");
	}
	return 0;
}

/* The feature bits are an array of longs, which may have had 32 bits on a machine of the other byte order. Every recorder writes
 * the hostname: so its bit shows their size. */
static void swap_features(struct pf_data *d)
{
	uint64_t raw[PF_FEATURE_BITS / 64], *f = d->header.features;

	memcpy(raw, f, sizeof raw);
	pf_swap_u64s(f, PF_FEATURE_BITS / 64);
	if (f[0] & PF_BIT(PF_FEATURE_HOSTNAME))
		return;
	for (size_t i = 0; i < PF_FEATURE_BITS / 64; i++) {
		uint64_t v = __builtin_bswap64(raw[i]);

		f[i] = v << 32 | v >> 32;
	}
	if (!(f[0] & PF_BIT(PF_FEATURE_HOSTNAME))) {
		memset(f, 0, sizeof raw);
		f[0] = PF_BIT(PF_FEATURE_BUILD_ID);
	}
}

static unsigned count_features(const struct pf_data *d, unsigned below)
{
	unsigned n = 0;

	for (unsigned i = 0; i < below; i++)
		n += (unsigned)(d->header.features[i / 64] >> i % 64 & 1);
	return n;
}

/* Whether the first feature section is right behind the table of sections. An unfinished file has feature bits, but no table; a
 * finished one without data has both. */
static int features_follow(const struct pf_data *d)
{
	unsigned n = count_features(d, PF_FEATURE_BITS);
	struct pf_section first;

	if (n == 0 || pf_source_copy(&d->src, d->header.data.offset, &first, sizeof first) < (ssize_t)sizeof first)
		return 0;
	if (d->swapped)
		pf_swap_u64s(&first, 2);
	return first.offset == d->header.data.offset + n * sizeof first;
}

static int check_sections(struct pf_data *d)
{
	const struct pf_data_header *h = &d->header;

	if (h->data.offset < h->size || h->attrs.offset < h->size)
		return pf_data_bad(d, 24, "its sections overlap its header");
	if (h->data.offset > d->src.size || h->data.size > UINT64_MAX - h->data.offset)
		return pf_data_bad(d, 40, "its data lies beyond its end");
	d->end = h->data.offset + h->data.size;
	if (h->data.size == 0 && !features_follow(d)) { /* the recorder died before it wrote the size */
		d->unfinished = h->data.offset < d->src.size;
		d->end = d->src.size;
		memset(d->header.features, 0, sizeof d->header.features);
	}
	return 0;
}

static int open_file(struct pf_data *d, const unsigned char *bytes, size_t n)
{
	struct pf_data_header *h = &d->header;
	int r;

	if (!d->src.seekable) {
		d->why = "a perf.data file of this format cannot be read from a pipe (perf record -o - writes one that can)";
		return -ESPIPE;
	}
	if (n < PF_DATA_HEADER_OLD)
		return pf_data_bad(d, 0, "its header is cut off");
	memcpy(h, bytes, n < sizeof *h ? n : sizeof *h);
	if (d->swapped)
		pf_swap_u64s((unsigned char *)h + sizeof h->magic, (PF_DATA_HEADER_OLD - sizeof h->magic) / 8);
	if (h->size == PF_DATA_HEADER_OLD) {
		memset(h->features, 0, sizeof h->features);
	} else if (h->size != sizeof *h || n < sizeof *h) {
		return pf_data_bad(d, 8, "its header has a size that no perf.data file has");
	} else if (d->swapped) {
		swap_features(d);
	}
	r = check_sections(d);
	if (r < 0)
		return r;
	d->events.max_ids = d->src.size / 8;
	d->where = h->attrs.offset;
	r = pf_data_events_read(&d->events, &d->src, &h->attrs, h->attr_size, d->swapped, &d->why);
	return r < 0 ? r : pf_source_seek(&d->src, h->data.offset);
}

int pf_data_open(struct pf_data *d, int fd)
{
	ssize_t n;
	int r;

	if (d->window == 0)
		d->window = PF_DATA_WINDOW;
	d->memory = malloc(d->window * 2 + PF_RECORD_MAX);
	if (!d->memory)
		return -ENOMEM;
	d->events.arch = pf_arch_native();
	d->plain = (struct pf_source){.fd = -1, .buf = d->memory + d->window, .cap = d->window};
	r = pf_source_init(&d->src, fd, d->memory, d->window);
	if (r < 0)
		return r;
	n = pf_source_need(&d->src, PF_DATA_PIPE_HEADER);
	if (n < 0)
		return (int)n;
	r = read_magic(d, pf_source_bytes(&d->src), d->src.end - d->src.at);
	if (r < 0)
		return r;
	memcpy(&d->header, pf_source_bytes(&d->src), PF_DATA_PIPE_HEADER);
	if (d->swapped)
		d->header.size = __builtin_bswap64(d->header.size);
	if (d->header.size == PF_DATA_PIPE_HEADER) {
		d->pipe = 1;
		d->end = d->src.size;
		pf_source_skip(&d->src, PF_DATA_PIPE_HEADER);
		return 0;
	}
	n = pf_source_need(&d->src, sizeof d->header);
	return n < 0 ? (int)n : open_file(d, pf_source_bytes(&d->src), (size_t)n);
}

void pf_data_close(struct pf_data *d)
{
	pf_data_events_free(&d->events);
	free(d->memory);
	memset(d, 0, sizeof *d);
	d->stopped = 1;
}

int pf_data_feature(const struct pf_data *d, unsigned bit, struct pf_section *out)
{
	const uint64_t *f = d->header.features;
	unsigned before = count_features(d, bit < PF_FEATURE_BITS ? bit : 0);
	ssize_t n;

	if (d->pipe || bit >= PF_FEATURE_BITS || !(f[bit / 64] >> bit % 64 & 1))
		return 0;
	n = pf_source_copy(&d->src, d->end + before * sizeof *out, out, sizeof *out);
	if (n < 0)
		return (int)n;
	if ((size_t)n < sizeof *out)
		return -EBADMSG;
	if (d->swapped)
		pf_swap_u64s(out, 2);
	if (out->offset > d->src.size || out->size > d->src.size - out->offset)
		return -EBADMSG;
	return 1;
}
