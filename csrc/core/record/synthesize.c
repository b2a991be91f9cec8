/* A record's name ends with a zero and is padded to 8 bytes; the trailer follows. */
#include "core/record/synthesize.h"

#include <string.h>

#define MAX_NAME 4096u
#define KERNEL_MODE 1u /* cpu mode in misc */
#define USER_MODE 2u

static size_t finish(unsigned char *out, size_t at, uint32_t type, uint16_t misc, const char *name, size_t trailer)
{
	size_t n = strlen(name), padded;
	struct pf_header h = {type, misc, 0};

	if (n >= MAX_NAME)
		n = MAX_NAME - 1;
	padded = (n + 8) & ~(size_t)7;
	memset(out + at, 0, padded + trailer);
	memcpy(out + at, name, n);
	h.size = (uint16_t)(at + padded + trailer);
	memcpy(out, &h, sizeof h);
	return h.size;
}

size_t pf_synth_comm(unsigned char *out, int32_t pid, int32_t tid, const char *comm, size_t trailer)
{
	const int32_t ids[2] = {pid, tid};

	memcpy(out + sizeof(struct pf_header), ids, sizeof ids);
	return finish(out, sizeof(struct pf_header) + sizeof ids, PF_RECORD_COMM, USER_MODE, comm, trailer);
}

size_t pf_synth_kernel_map(unsigned char *out, uint64_t addr, uint64_t len, uint64_t pgoff, const char *name, size_t trailer)
{
	const struct {
		int32_t pid, tid;
		uint64_t addr, len, pgoff;
	} body = {-1, 0, addr, len, pgoff};

	memcpy(out + sizeof(struct pf_header), &body, sizeof body);
	return finish(out, sizeof(struct pf_header) + sizeof body, PF_RECORD_MMAP, KERNEL_MODE, name, trailer);
}

size_t pf_synth_map(unsigned char *out, const struct pf_synth_map *m, size_t trailer)
{
	const struct {
		int32_t pid, tid;
		uint64_t addr, len, pgoff;
		uint32_t maj, min;
		uint64_t ino, ino_generation;
		uint32_t prot, flags;
	} body = {m->pid, m->tid, m->addr, m->len, m->pgoff, m->maj, m->min, m->ino, 0, m->prot, m->flags};

	memcpy(out + sizeof(struct pf_header), &body, sizeof body);
	return finish(out, sizeof(struct pf_header) + sizeof body, PF_RECORD_MMAP2, USER_MODE, m->filename, trailer);
}

static size_t numbers(unsigned char *out, uint32_t type, const uint64_t *body, size_t n, uint64_t id, size_t trailer)
{
	const size_t at = sizeof(struct pf_header) + n * sizeof *body;
	const struct pf_header h = {type, 0, (uint16_t)(at + trailer)};

	memcpy(out, &h, sizeof h);
	memcpy(out + sizeof h, body, n * sizeof *body);
	memset(out + at, 0, trailer);
	if (trailer >= sizeof id)
		memcpy(out + at + trailer - sizeof id, &id, sizeof id);
	return h.size;
}

size_t pf_synth_lost_samples(unsigned char *out, uint64_t id, uint64_t lost, size_t trailer)
{
	return numbers(out, PF_RECORD_LOST_SAMPLES, &lost, 1, id, trailer);
}

size_t pf_synth_lost(unsigned char *out, uint64_t id, uint64_t lost, size_t trailer)
{
	const uint64_t body[] = {id, lost};

	return numbers(out, PF_RECORD_LOST, body, 2, id, trailer);
}
