/* Bytes that may be unaligned, as numbers of this machine's byte order. */
#ifndef PF_BYTES_H
#define PF_BYTES_H

#include <stdint.h>
#include <string.h>

#define PF_INLINE static inline __attribute__((always_inline))

/* pf_load64, pf_load32, pf_load16 */
#define LOAD(bits)                                                     \
	PF_INLINE uint##bits##_t pf_load##bits(const unsigned char *p) \
	{                                                              \
		uint##bits##_t v;                                      \
		memcpy(&v, p, sizeof v);                               \
		return v;                                              \
	}
LOAD(64)
LOAD(32)
LOAD(16)
#undef LOAD

#endif
