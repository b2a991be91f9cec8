/* Functions that fuzz programs share: random numbers from a seed, and damage.
 *
 *     PROGRAM [runs [seed [first]]]
 *
 * Every run has a separate seed, so that a failed run can be repeated alone: PROGRAM N SEED N-1. */
#ifndef FUZZ_H
#define FUZZ_H

#include <stddef.h>
#include <stdint.h>

extern unsigned long fuzz_first;

uint64_t fuzz_random(void);
/* 0 to n - 1. */
unsigned fuzz_below(unsigned n);
/* A 64-bit number that is likely to find bugs. */
uint64_t fuzz_word(void);
/* Damage n bytes in place; returns the number of bytes that are left. */
size_t fuzz_damage(unsigned char *p, size_t n);

/* The number of runs. */
unsigned long fuzz_start(int argc, char **argv);
/* Begin run i. */
void fuzz_run(unsigned long i);
_Noreturn void fuzz_fail(const char *what, int line);

#define CHECK(what) ((what) ? (void)0 : fuzz_fail(#what, __LINE__))

#endif
