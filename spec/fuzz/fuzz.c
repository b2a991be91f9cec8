/* See fuzz.h. */
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

unsigned long fuzz_first;

static uint64_t fuzz_state, fuzz_seed;
static unsigned long fuzz_now;

uint64_t fuzz_random(void)
{
	uint64_t z = (fuzz_state += UINT64_C(0x9e3779b97f4a7c15)); /* splitmix64 */

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

unsigned fuzz_below(unsigned n)
{
	return n ? (unsigned)(fuzz_random() % n) : 0;
}

uint64_t fuzz_word(void)
{
	static const uint64_t edges[] = {0, 1, 7, 8, 9, 63, 64, 255, 256, 4095, 4096, 65535, 65536, INT32_MAX, UINT32_MAX,
					 UINT32_MAX + UINT64_C(1), INT64_MAX, UINT64_C(1) << 63, UINT64_MAX, UINT64_MAX - 7};

	switch (fuzz_below(4)) {
	case 0:
		return edges[fuzz_below(sizeof edges / sizeof *edges)];
	case 1:
		return fuzz_below(300);
	default:
		return fuzz_random();
	}
}

size_t fuzz_damage(unsigned char *p, size_t n)
{
	for (unsigned k = 1 + fuzz_below(3); k > 0 && n > 0; k--) {
		size_t at = fuzz_below((unsigned)n);
		uint64_t v = fuzz_word();

		switch (fuzz_below(6)) {
		case 0:
			p[at] ^= (unsigned char)(1u << fuzz_below(8));
			break;
		case 1:
			p[at] = (unsigned char)v;
			break;
		case 2: /* a word, if the bytes are words */
			at &= ~(size_t)7;
			if (at + 8 <= n)
				memcpy(p + at, &v, 8);
			break;
		case 3:
			at &= ~(size_t)3;
			if (at + 4 <= n)
				memcpy(p + at, &v, 4);
			break;
		case 4:
			n = at;
			break;
		default:
			n = at & ~(size_t)7;
		}
	}
	return n;
}

unsigned long fuzz_start(int argc, char **argv)
{
	fuzz_seed = argc > 2 ? strtoull(argv[2], NULL, 0) : 1;
	fuzz_first = argc > 3 ? strtoul(argv[3], NULL, 0) : 0;
	return argc > 1 ? strtoul(argv[1], NULL, 0) : 100000;
}

void fuzz_run(unsigned long i)
{
	fuzz_now = i;
	fuzz_state = fuzz_seed * UINT64_C(0xd1342543de82ef95) + i * UINT64_C(0xaf251af3b0f025b5);
}

_Noreturn void fuzz_fail(const char *what, int line)
{
	fprintf(stderr, "run %lu of seed %llu, line %d: %s\n", fuzz_now, (unsigned long long)fuzz_seed, line, what);
	abort();
}
