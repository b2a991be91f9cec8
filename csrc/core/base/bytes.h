/* Bytes that may be unaligned, as numbers of this machine's byte order. */
#ifndef PF_BYTES_H
#define PF_BYTES_H

#include <stdint.h>
#include <string.h>

#define PF_INLINE static inline __attribute__((always_inline))

PF_INLINE uint64_t pf_load64(const unsigned char *p)
{
	uint64_t v;
	memcpy(&v, p, sizeof v);
	return v;
}

PF_INLINE uint32_t pf_load32(const unsigned char *p)
{
	uint32_t v;
	memcpy(&v, p, sizeof v);
	return v;
}

PF_INLINE uint16_t pf_load16(const unsigned char *p)
{
	uint16_t v;
	memcpy(&v, p, sizeof v);
	return v;
}

#endif
