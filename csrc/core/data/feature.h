/* A walk over the section of a feature, whose numbers are in the recorder's byte order. It never leaves the section: a step
 * that would sets bad, and every later one gives zero. Shapes (feature.def), with string = {u32 len, char text[len]}:
 *
 *   BYTES            as it is
 *   FLAG             nothing: that the feature is there says it
 *   STRING           string
 *   STRINGS          u32 n, string x n
 *   U64              u64
 *   NRCPUS           u32 available, u32 online
 *   BUILD_ID         header_build_id records: header, s32 pid, u8 id[20], u8 size, u8[3], filename
 *   EVENT_DESC       u32 n, u32 attr_size, {attr, u32 nids, string name, u64 ids x nids} x n
 *   CPU_TOPOLOGY     u32 n, string cores x n, u32 n, string threads x n, {u32 core, u32 socket} x CPUs,
 *                    and since Linux 5.2 u32 n, string dies x n, u32 die x CPUs
 *   NUMA_TOPOLOGY    u32 n, {u32 node, u64 mem_total, u64 mem_free, string cpus} x n
 *   PMU_MAPPINGS     u32 n, {u32 type, string name} x n
 *   GROUP_DESC       u32 n, {string name, u32 leader, u32 members} x n
 *   AUXTRACE         u64 n, {u64 offset, u64 size} x n
 *   CACHE            u32 version, u32 n, {u32 level, line_size, sets, ways, string type, size, cpus} x n
 *   SAMPLE_TIME      u64 first, u64 last
 *   MEM_TOPOLOGY     u64 version, u64 block_size, u64 n, {u64 node, u64 size, u64 bits, u64 words[]} x n
 *   COMPRESSED       u32 version, type, level, ratio, mmap_len
 *   CAPS             u32 n, {string name, string value} x n
 *   PMU_CAPS         u32 n, {CAPS, string pmu} x n
 *   CLOCK_DATA       u32 version, u32 clockid, u64 wall clock, u64 clock
 *   HYBRID_TOPOLOGY  u32 n, {string pmu, string cpus} x n
 *   E_MACHINE        u32 machine, u32 flags */
#ifndef PF_DATA_FEATURE_H
#define PF_DATA_FEATURE_H

#include <string.h>

#include "core/kernel/uapi.h"

enum pf_feature_shape {
	PF_SHAPE_BYTES,
	PF_SHAPE_FLAG,
	PF_SHAPE_STRING,
	PF_SHAPE_STRINGS,
	PF_SHAPE_U64,
	PF_SHAPE_NRCPUS,
	PF_SHAPE_BUILD_ID,
	PF_SHAPE_EVENT_DESC,
	PF_SHAPE_CPU_TOPOLOGY,
	PF_SHAPE_NUMA_TOPOLOGY,
	PF_SHAPE_PMU_MAPPINGS,
	PF_SHAPE_GROUP_DESC,
	PF_SHAPE_AUXTRACE,
	PF_SHAPE_CACHE,
	PF_SHAPE_SAMPLE_TIME,
	PF_SHAPE_MEM_TOPOLOGY,
	PF_SHAPE_COMPRESSED,
	PF_SHAPE_CAPS,
	PF_SHAPE_PMU_CAPS,
	PF_SHAPE_CLOCK_DATA,
	PF_SHAPE_HYBRID_TOPOLOGY,
	PF_SHAPE_E_MACHINE
};

struct pf_feature {
	const char *name;
	unsigned bit;
	enum pf_feature_shape shape;
};

/* Every feature of feature.def; ends with name == NULL. */
extern const struct pf_feature pf_features[];

struct pf_cursor {
	const unsigned char *at, *end;
	int swapped, bad;
};

/* n bytes, or NULL and bad. */
static inline const unsigned char *pf_cursor_bytes(struct pf_cursor *c, uint64_t n)
{
	const unsigned char *p = c->at;

	if (c->bad || n > (uint64_t)(c->end - c->at)) {
		c->bad = 1;
		return NULL;
	}
	c->at += n;
	return p;
}

static inline uint32_t pf_cursor_u32(struct pf_cursor *c)
{
	const unsigned char *p = pf_cursor_bytes(c, 4);
	uint32_t v = 0;

	if (p)
		memcpy(&v, p, sizeof v);
	return c->swapped ? __builtin_bswap32(v) : v;
}

static inline uint64_t pf_cursor_u64(struct pf_cursor *c)
{
	const unsigned char *p = pf_cursor_bytes(c, 8);
	uint64_t v = 0;

	if (p)
		memcpy(&v, p, sizeof v);
	return c->swapped ? __builtin_bswap64(v) : v;
}

/* A string without the zeros behind it. */
static inline const char *pf_cursor_string(struct pf_cursor *c, size_t *len)
{
	uint32_t n = pf_cursor_u32(c);
	const char *p = (const char *)pf_cursor_bytes(c, n);

	*len = p ? strnlen(p, n) : 0;
	return p ? p : "";
}

/* A number of elements of at least size bytes each: 0 and bad when the section cannot hold them. */
static inline uint64_t pf_cursor_count(struct pf_cursor *c, uint64_t n, size_t size)
{
	if (n > (uint64_t)(c->end - c->at) / size)
		c->bad = 1;
	return c->bad ? 0 : n;
}

#endif
