/* The shapes of the perf tool's additions to a perf.data file: its features (feature.def) and its own records (user_record.def).
 * A shape is a list of rows. By these rows pf_read reads bytes, the swapper converts records of the other byte order, and the
 * binding writes features.
 *
 *   U32 U64 S16 S32 I64 F64 BOOL   a number: NAME is its key in the table, and without a name it is the value itself
 *   STRING(NAME)           u32 length, then that many bytes: the text with zeros after it
 *   CHARS(NAME, n)         text in exactly n bytes
 *   TEXT(NAME, n)          text in at most n bytes, or in all that follow with n = 0
 *   BYTES(NAME)            all bytes that follow
 *   WORDS(NAME), REST      an array of all u64s that follow; u64s that are swapped and not read
 *   ATTR_SIZE, ATTR(NAME)  u32 size of each attr; an attr, which contains its size if there is no ATTR_SIZE before it
 *   BUILD_ID(NAME)         u8[20], u8 size (valid if misc says so), u8[3]
 *   BITMAP(NAME)           u64 number of bits, then u64 words: an array of the bits that are set
 *   CPU_MASK CPU_RANGE     arrays of CPUs: u16 words, u16 width, a mask; u16 first, u16 last
 *   FEATURE(NAME)          u64, the bit of a feature
 *   PAD(width, v)          a number that is not read, and is written as v
 *   MISC(NAME), FLAG       no bytes: misc of the record's header; true
 *   TABLE                  no bytes: the value is a table of the fields that follow
 *   COUNT(width)           the number of elements of the next list on this level
 *   NCPUS, SAME_NCPUS      no bytes: the next list has an element for each CPU
 *   LIST(NAME, row)        an array of values
 *   TABLES(NAME, rows)     an array of tables; if the array exists already, its tables get more fields
 *   MAP(NAME)              a table of pairs of STRINGs
 *   RECORDS(rows)          an array of tables, one for each record up to the end; the rows are the body of a record
 *   OPTIONAL               the bytes may end here
 *   KEY(width)             a number that selects among the WHENs of this level
 *   WHEN(from, to, rows)   rows that exist only if the key is from ... to; BETWEEN(from, to) rows END if one of them is a WHEN
 *   DAMAGED                no valid file has such bytes */
#ifndef PF_DATA_SCHEMA_H
#define PF_DATA_SCHEMA_H

#include "core/kernel/uapi.h"

enum pf_kind {
	PF_END,
	PF_UNSIGNED,
	PF_SIGNED,
	PF_FLOAT,
	PF_BOOL,
	PF_STRING,
	PF_CHARS,
	PF_TEXT,
	PF_BYTES,
	PF_WORDS,
	PF_REST,
	PF_ATTR_SIZE,
	PF_ATTR,
	PF_BUILD_ID,
	PF_BITMAP,
	PF_CPU_MASK,
	PF_CPU_RANGE,
	PF_FEATURE,
	PF_PAD,
	PF_MISC,
	PF_FLAG,
	PF_TABLE,
	PF_COUNT,
	PF_NCPUS,
	PF_SAME_NCPUS,
	PF_OPTIONAL,
	PF_SELECTOR,
	PF_DAMAGED,
	PF_MAP_KEY,
	PF_MAP_VALUE,
	/* These are followed by nested rows and a PF_END. */
	PF_LIST,
	PF_TABLES,
	PF_MAP,
	PF_RECORDS,
	PF_WHEN
};

struct pf_row {
	enum pf_kind kind;
	uint16_t size; /* of a number its size; of an element's part the fewest bytes; of a TEXT the most bytes */
	uint32_t from, to; /* the keys of a WHEN; from is also the value of a PAD */
	const char *name;  /* "" without one */
};

struct pf_feature {
	const char *name;
	unsigned bit;
	const struct pf_row *rows;
};

/* Every feature of feature.def; ends with name == NULL. */
extern const struct pf_feature pf_features[];

struct pf_user_record {
	const char *name;
	const struct pf_row *rows;
};

/* The record type of user_record.def, or NULL. */
const struct pf_user_record *pf_user_record(uint32_t type);

/* The row after this one and its nested rows. */
const struct pf_row *pf_row_next(const struct pf_row *row);

enum pf_part {
	PF_PART_NUMBER, /* n; sign-extended, or the bits of a double, by the row's kind */
	PF_PART_BYTES,  /* n bytes at p: text, a build id, or with PF_ATTR a struct pf_attr */
	PF_PART_OPEN,   /* a table begins */
	PF_PART_CLOSE   /* a table ends */
};

/* A walk over bytes by rows. It never leaves the bytes: a step that would do so sets bad, and nothing is read after that. */
struct pf_reader {
	const unsigned char *begin, *at, *end;
	int swapped;           /* the numbers are in the other byte order */
	unsigned char *native; /* a place for the same bytes in this machine's order, begin itself too; or NULL */
	uint16_t misc;         /* misc of the record's header */
	uint32_t attr_size;    /* set by ATTR_SIZE; 0 at first */
	uint64_t ncpus;        /* 0 = not known */
	int bad;
	uint64_t index; /* the index of the element that is being read; 0 outside of arrays */
	/* Called with each part that was read, or NULL. An array that is missing in bad bytes is still opened and closed. */
	void (*emit)(struct pf_reader *r, const struct pf_row *row, enum pf_part part, const void *p, uint64_t n);
	void *user;
};

void pf_read(struct pf_reader *r, const struct pf_row *rows);

#endif
