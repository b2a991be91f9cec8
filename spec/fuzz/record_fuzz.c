/* Fuzzes the parser of records.
 *
 * Each run makes an attr and a record that fits it, in both byte orders; both must parse, with the same result. Then the record
 * is damaged a few times and parsed again, from memory that ends with it, so that the sanitizer notices every access beyond. All
 * values that the parser returns are read. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "records.h"

static unsigned long understood, refused, unknown;

/* A copy that ends where its memory ends. */
static unsigned char *copy(const unsigned char *bytes, size_t n)
{
	unsigned char *p = malloc(n ? n : 1);

	if (!p)
		abort();
	memcpy(p, bytes, n);
	return p;
}

static int parse(const struct pf_layout *l, unsigned char *bytes, size_t n, int swapped, struct pf_record *r)
{
	int e = swapped ? pf_record_parse_swapped(l, bytes, n, r) : pf_record_parse(l, bytes, n, r);

	CHECK(e == 0 || e == PF_RECORD_UNKNOWN || e == -EBADMSG);
	if (e < 0) {
		refused++;
		return e;
	}
	if (e == PF_RECORD_UNKNOWN)
		unknown++;
	else
		understood++;
	read_all(r, bytes, n);
	return e;
}

static void one_record(struct maker *m)
{
	struct pf_attr a;
	struct pf_layout l;
	struct pf_record native, swapped;
	unsigned char *p, *q;
	int e;

	make_attr(&a);
	pf_layout_init(&l, &a, PF_ARCH_X86);
	make_record(m, &a);
	p = copy(m->native, m->n);
	q = copy(m->swapped, m->n);
	e = parse(&l, p, m->n, 0, &native);
	CHECK(e >= 0);
	CHECK(parse(&l, q, m->n, 1, &swapped) == e);
	same_record(&native, &swapped);
	free(p);
	free(q);

	for (unsigned k = 0; k < 4; k++) {
		size_t n = m->n;
		const int turned = (int)fuzz_below(2);

		p = copy(turned ? m->swapped : m->native, n);
		n = fuzz_damage(p, n);
		if (n >= 8 && fuzz_below(4)) { /* a valid frame, so that the parser reaches the damage inside */
			uint16_t size = (uint16_t)n;

			if (turned)
				size = __builtin_bswap16(size);
			memcpy(p + 6, &size, 2);
		}
		q = copy(p, n);
		free(p);
		parse(fuzz_below(50) ? &l : NULL, q, n, turned, &native);
		free(q);
	}
}

int main(int argc, char **argv)
{
	static struct maker m;
	const unsigned long runs = fuzz_start(argc, argv);

	for (unsigned long i = fuzz_first; i < runs; i++) {
		fuzz_run(i);
		one_record(&m);
	}
	printf("record_fuzz: %lu runs: %lu records understood, %lu of unknown types, %lu refused\n", runs, understood, unknown,
	       refused);
	return 0;
}
