/* See reader.h. */
#include "core/outside/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include "core/base/sys.h"

enum { C_STACK = 8 << 20, BELOW = 1 << 12 /* bytes below the stack pointer that may be in use */ };

void pf_process_choose(struct pf_process_memory *m, pid_t pid, uint64_t program)
{
	const int opened = m->opened;

	if (m->pid == pid && m->program == program)
		return;
	m->opened = 0; /* before the close: another thread may fork, and its child closes what is open here */
	if (opened > 0)
		pf_sys->close(opened - 1);
	m->pid = pid;
	m->program = program;
}

/* Reads /proc/PID/mem, which changes nothing in the process. process_vm_readv does: since Linux 5.19, it first gives a forked
 * process a copy of each page that this still shares with its parent. That takes memory, and the BPF program cannot read the page
 * until the copy is mapped. But the call works with CAP_SYS_PTRACE alone, with which the file of another user cannot be
 * opened. */
int pf_read_process(struct pf_process_memory *m, void *to, uint64_t address, size_t n)
{
	const struct iovec local = {.iov_base = to, .iov_len = n};
	const struct iovec remote = {.iov_base = (void *)(uintptr_t)address, .iov_len = n};
	char path[32];
	ssize_t got;
	int fd;

	if (!m->opened) {
		snprintf(path, sizeof path, "/proc/%d/mem", (int)m->pid);
		fd = pf_sys->open(path, O_RDONLY, 0);
		m->opened = fd < 0 ? fd : fd + 1;
	}
	if (m->opened < 0)
		got = pf_sys->process_vm_readv(m->pid, &local, 1, &remote, 1);
	else
		got = pf_sys->pread(m->opened - 1, to, n, (off_t)address);
	if (got == 0 && n)
		return -ESRCH;
	return got < 0 ? (int)got : (size_t)got == n ? 0 : -EFAULT;
}

int pf_read_known(struct pf_fixed *f, struct pf_process_memory *m, void *to, uint64_t address, size_t n)
{
	const int r = f->has_no_memory ? -ESRCH : pf_read_process(m, to, address, n);

	f->has_no_memory = r == -ESRCH;
	return r;
}

/* --- the snapshot ----------------------------------------------------------------------------------------------------- */

/* The piece that has all of these bytes. Pieces may overlap. */
static struct pf_reader_piece *find(struct pf_pieces *pieces, uint64_t address, size_t n)
{
	unsigned low = 0, high = pieces->n;

	while (low < high) {
		const unsigned middle = (low + high) / 2;

		if (pieces->at[middle].address <= address)
			low = middle + 1;
		else
			high = middle;
	}
	while (low-- > 0 && pieces->at[low].end > address) {
		const uint64_t at = address - pieces->at[low].address, size = pieces->at[low].piece->size;

		if (at < size && n <= size - at)
			return &pieces->at[low];
	}
	return NULL;
}

/* Memory that changes while the thread runs on: its C stack, and its Lua stacks. */
static int is_changing(const struct pf_reader *r, uint64_t address)
{
	if (address - r->s->sp + BELOW < C_STACK + BELOW)
		return 1;
	for (unsigned i = 0; i < r->threads_n; i++)
		if (address - r->threads[i].low < r->threads[i].high - r->threads[i].low)
			return 1;
	return 0;
}

static const struct pf_fixed_range *fixed_range(const struct pf_fixed *f, uint64_t address, size_t n)
{
	unsigned low = 0, high = f->n;

	while (low < high) {
		const unsigned middle = (low + high) / 2;

		if (f->ranges[middle].from <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low > 0 && address + n <= f->ranges[low - 1].to ? &f->ranges[low - 1] : NULL;
}

static int read_file(const struct pf_fixed_range *range, void *to, uint64_t address, size_t n)
{
	struct stat st;
	ssize_t got = -1;
	const int fd = pf_sys->open(range->path, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0); /* it may be another file now, even a pipe */

	if (fd < 0)
		return -EFAULT;
	if (pf_sys->fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_ino == range->inode)
		got = pf_sys->pread(fd, to, n, (off_t)(address - range->from + range->offset));
	pf_sys->close(fd);
	return got == (ssize_t)n ? 0 : -EFAULT;
}

static struct pf_reader_block *block_of(struct pf_reader_block *blocks, unsigned n, uint64_t from)
{
	return &blocks[(from / PF_READER_BLOCK * UINT64_C(0x9e3779b97f4a7c15) >> 32) % n];
}

/* Read a block of a mapped file, which is kept. */
static int read_fixed(struct pf_reader *r, const struct pf_fixed_range *range, void *to, uint64_t address, size_t n)
{
	const uint64_t from = address & ~(uint64_t)(PF_READER_BLOCK - 1);
	struct pf_reader_block *b = block_of(r->fixed->blocks, PF_READER_FIXED, from);

	if (address + n > from + PF_READER_BLOCK || from < range->from)
		return pf_read_known(r->fixed, &r->process, to, address, n);
	if (b->address != from) {
		b->address = 0;
		if (pf_read_known(r->fixed, &r->process, b->bytes, from, PF_READER_BLOCK) < 0 &&
		    read_file(range, b->bytes, from, PF_READER_BLOCK) < 0)
			return -EFAULT;
		b->address = from;
	}
	memcpy(to, b->bytes + (address - from), n);
	return 0;
}

/* Read memory that the snapshot lacks. */
static int read_live(struct pf_reader *r, void *to, uint64_t address, size_t n)
{
	const uint64_t from = address & ~(uint64_t)(PF_READER_BLOCK - 1);
	struct pf_reader_block *b = block_of(r->blocks, PF_READER_BLOCKS, from);

	if (address + n > from + PF_READER_BLOCK || from == 0)
		return pf_read_known(r->fixed, &r->process, to, address, n);
	if (b->address != from) {
		b->address = 0;
		if (pf_read_known(r->fixed, &r->process, b->bytes, from, PF_READER_BLOCK) < 0)
			return -EFAULT;
		b->address = from;
	}
	memcpy(to, b->bytes + (address - from), n);
	return 0;
}

static int read_memory(const struct pf_memory *m, void *to, uint64_t address, size_t n)
{
	struct pf_reader *r = (struct pf_reader *)(uintptr_t)m; /* its first member */
	struct pf_reader_piece *p = find(r->changing, address, n);
	const struct pf_fixed_range *range;

	if (!p)
		p = find(r->objects, address, n);
	if (p) {
		p->used = r->number;
		memcpy(to, (const uint8_t *)(p->piece + 1) + (address - p->piece->address), n);
		return 0;
	}
	range = fixed_range(r->fixed, address, n);
	if (range)
		return read_fixed(r, range, to, address, n) < 0 ? -EFAULT : 0;
	if (is_changing(r, address) || (r->may_read && !r->may_read(r, address, n)))
		return -EFAULT;
	r->missed = 1;
	return r->live && read_live(r, to, address, n) == 0 ? 0 : -EFAULT;
}

static int by_address(const void *a, const void *b)
{
	const uint64_t x = ((const struct pf_reader_piece *)a)->address, y = ((const struct pf_reader_piece *)b)->address;

	return x < y ? -1 : x > y;
}

static int parse(struct pf_reader *r, const uint8_t *at, const uint8_t *end, struct pf_pieces *to)
{
	to->n = 0;
	while ((size_t)(end - at) >= sizeof(struct pf_piece) && to->n < PF_READER_PIECES) {
		const struct pf_piece *p = (const void *)at;
		const size_t room = (size_t)(end - at) - sizeof *p, padded = ((size_t)p->size + 7) & ~(size_t)7;

		if (p->size > room || p->kind >= PF_PIECE_KINDS) {
			to->n = 0;
			return -EINVAL;
		}
		if (p->kind == PF_PIECE_KERNEL) {
			r->kernel = p;
		} else if (p->kind == PF_PIECE_THREADS) {
			r->threads = (const void *)(p + 1);
			r->threads_n = p->size / sizeof *r->threads;
		} else {
			to->at[to->n++] = (struct pf_reader_piece){.piece = p, .address = p->address};
		}
		at += sizeof *p + (padded < room ? padded : room);
	}
	qsort(to->at, to->n, sizeof *to->at, by_address);
	for (unsigned i = 0; i < to->n; i++) {
		const uint64_t own = to->at[i].address + to->at[i].piece->size, before = i ? to->at[i - 1].end : 0;

		to->at[i].end = own > before ? own : before;
	}
	return 0;
}

static struct pf_objects *slot_of(struct pf_reader *r, uint64_t key)
{
	uint64_t i = (key >> 1) % PF_READER_SETS;

	while (r->kept[i].pieces && r->kept[i].key != key)
		i = (i + 1) % PF_READER_SETS;
	return &r->kept[i];
}

/* Find the objects. Returns 1 if they are kept from now on, else 0, or -EINVAL. */
static int find_objects(struct pf_reader *r, uint64_t key, const uint8_t *at, const uint8_t *end)
{
	struct pf_objects *kept = slot_of(r, key);
	size_t size;

	if (key && kept->pieces) {
		r->objects = kept->pieces;
		return 0;
	}
	if (parse(r, at, end, r->new) < 0)
		return -EINVAL;
	size = sizeof *kept->pieces + r->new->n * sizeof *r->new->at;
	if (!key || !r->new->n || r->closed)
		return 0;
	if (r->kept_n >= PF_SNAPSHOT_KNOWN || (kept->pieces = malloc(size + (size_t)(end - at))) == NULL) {
		r->refused++;
		return 0;
	}
	kept->key = key;
	r->kept_n++;
	r->objects = kept->pieces;
	memcpy((uint8_t *)r->objects + size, at, (size_t)(end - at));
	parse(r, (uint8_t *)r->objects + size, (uint8_t *)r->objects + size + (end - at), r->objects);
	return 1;
}

int pf_reader_begin(struct pf_reader *r, const struct pf_snapshot_head *s, size_t size, struct pf_fixed *fixed)
{
	const uint8_t *const at = (const uint8_t *)(s + 1), *const end = (const uint8_t *)s + size;

	r->s = NULL; /* of the one before, which may have had the same address */
	if (size < sizeof *s || s->changing > size - sizeof *s)
		return -EINVAL;
	r->m.read = read_memory;
	r->s = s;
	r->kernel = NULL;
	r->threads_n = r->new->n = 0;
	r->objects = r->new;
	r->number++;
	r->fixed = fixed;
	pf_reader_again(r, 1);
	if (parse(r, at, at + s->changing, r->changing) < 0)
		return -EINVAL;
	return find_objects(r, s->objects, at + s->changing, end);
}

int pf_reader_init(struct pf_reader *r)
{
	const size_t size = sizeof *r->new + PF_READER_PIECES * sizeof *r->new->at;

	memset(r, 0, sizeof *r);
	r->changing = malloc(size);
	r->new = malloc(size);
	return r->changing && r->new ? 0 : -ENOMEM;
}

void pf_reader_free(struct pf_reader *r)
{
	for (unsigned i = 0; r && i < PF_READER_SETS; i++)
		free(r->kept[i].pieces);
	if (r) {
		pf_process_choose(&r->process, 0, 0);
		free(r->changing);
		free(r->new);
	}
	free(r);
}

void pf_reader_forget(struct pf_reader *r, void (*key)(void *to, uint64_t key), void *to)
{
	for (unsigned i = 0; i < PF_READER_SETS; i++)
		if (r->kept[i].pieces) {
			key(to, r->kept[i].key);
			free(r->kept[i].pieces);
			r->kept[i].pieces = NULL;
		}
	r->kept_n = r->refused = 0;
	r->s = NULL; /* the last sample, whose objects may be among them */
	r->objects = r->new;
}

void pf_reader_again(struct pf_reader *r, int live)
{
	r->live = live;
	r->missed = 0;
	for (unsigned i = 0; i < PF_READER_BLOCKS; i++)
		r->blocks[i].address = 0;
}

int pf_reader_has_thread(const struct pf_reader *r, uint64_t thread)
{
	for (unsigned i = 0; i < r->threads_n; i++)
		if (r->threads[i].at == thread)
			return 1;
	return 0;
}

/* --- does it still exist? ---------------------------------------------------------------------------------------------- */

static int is_same(const struct pf_reader_field *fields, const struct pf_piece *p, const uint8_t *now)
{
	const uint8_t *then = (const uint8_t *)(p + 1);

	for (unsigned i = 0; i < PF_READER_FIELDS && fields[i].size; i++) {
		const uint32_t at = fields[i].at, left = at < p->size ? p->size - at : 0;

		if (memcmp(then + at, now + at, fields[i].size < left ? fields[i].size : left) != 0)
			return 0;
	}
	return 1;
}

/* Pieces that are compared at once, and the ranges of memory that have them. */
enum { RANGES = 16, RANGE = 4096 };
struct comparison {
	unsigned pieces_n, n;
	struct {
		const struct pf_piece *piece;
		const uint8_t *now;
	} pieces[128];
	struct {
		uint64_t address;
		size_t size;
	} ranges[RANGES];
	uint8_t now[RANGES][RANGE];
};

/* Add a piece to the last range, or to a new one. Returns 0 if there is no room. Pieces come by address. */
static int add_to(struct comparison *c, const struct pf_piece *p)
{
	size_t at = c->n ? (size_t)(p->address - c->ranges[c->n - 1].address) : 0;

	if (c->pieces_n == sizeof c->pieces / sizeof *c->pieces)
		return 0;
	if (c->n == 0 || at > RANGE - p->size) {
		if (c->n == RANGES)
			return 0;
		at = 0;
		c->ranges[c->n].address = p->address;
		c->ranges[c->n++].size = 0;
	}
	if (at + p->size > c->ranges[c->n - 1].size)
		c->ranges[c->n - 1].size = at + p->size;
	c->pieces[c->pieces_n].piece = p;
	c->pieces[c->pieces_n++].now = c->now[c->n - 1] + at;
	return 1;
}

static int are_same(struct pf_reader *r, struct comparison *c)
{
	for (unsigned i = 0; i < c->n; i++)
		if (pf_read_known(r->fixed, &r->process, c->now[i], c->ranges[i].address, c->ranges[i].size) < 0)
			return 0;
	for (unsigned i = 0; i < c->pieces_n; i++)
		if (!is_same(r->stable[c->pieces[i].piece->kind], c->pieces[i].piece, c->pieces[i].now))
			return 0;
	c->n = c->pieces_n = 0;
	return 1;
}

int pf_reader_is_current(struct pf_reader *r)
{
	const unsigned changing = r->changing->n, all = changing + r->objects->n;
	struct comparison c;

	c.n = c.pieces_n = 0;
	for (unsigned i = 0; i < all; i++) {
		const struct pf_reader_piece *p = i < changing ? &r->changing->at[i] : &r->objects->at[i - changing];

		if (p->used != r->number || p->piece->kind == PF_PIECE_CHANGES || p->piece->size > PF_SNAPSHOT_OBJECT || add_to(&c, p->piece))
			continue;
		if (!are_same(r, &c))
			return 0;
		add_to(&c, p->piece);
	}
	return are_same(r, &c);
}
