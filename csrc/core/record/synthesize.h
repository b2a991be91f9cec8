/* Records that a recorder makes itself for things that existed before its events were opened: running programs, their mappings,
 * the kernel's code. */
#ifndef PF_SYNTH_H
#define PF_SYNTH_H

#include <stddef.h>

#include "core/kernel/uapi.h"

/* out has room for PF_SYNTH_MAX bytes. trailer is the number of bytes that sample_id_all adds to a record (layout.h); they are
 * set to 0. A name that is too long is cut. Each function returns the record's size. */
#define PF_SYNTH_MAX 8192u

size_t pf_synth_comm(unsigned char *out, int32_t pid, int32_t tid, const char *comm, size_t trailer);

/* Code of the kernel or of a module. */
size_t pf_synth_kernel_map(unsigned char *out, uint64_t addr, uint64_t len, uint64_t pgoff, const char *name, size_t trailer);

struct pf_synth_map {
	int32_t pid, tid;
	uint64_t addr, len, pgoff, ino;
	uint32_t maj, min, prot, flags;
	const char *filename;
};

size_t pf_synth_map(unsigned char *out, const struct pf_synth_map *m, size_t trailer);

/* A lost_samples record, as perf record writes it: how many samples of the event with that id were lost. The id is at the end of
 * the trailer, where events with PERF_SAMPLE_IDENTIFIER have it. And a lost record, as the kernel writes it. */
size_t pf_synth_lost_samples(unsigned char *out, uint64_t id, uint64_t lost, size_t trailer);
size_t pf_synth_lost(unsigned char *out, uint64_t id, uint64_t lost, size_t trailer);

#endif
