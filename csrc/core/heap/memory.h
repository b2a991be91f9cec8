/* Reads of this process's own memory, at addresses that are known to be objects. */
#ifndef PF_HEAP_MEMORY_H
#define PF_HEAP_MEMORY_H

#include <stdint.h>
#include <string.h>

#define PF_HEAP_READ(name, type)                                       \
	static inline type pf_heap_##name(uint64_t at)                 \
	{                                                              \
		type v;                                                \
                                                                       \
		memcpy(&v, (const void *)(uintptr_t)at, sizeof v);     \
		return v;                                              \
	}
PF_HEAP_READ(word, uint64_t)
PF_HEAP_READ(u32, uint32_t)
PF_HEAP_READ(u16, uint16_t)
PF_HEAP_READ(u8, uint8_t)
#undef PF_HEAP_READ

#endif
