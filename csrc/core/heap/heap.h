/* A snapshot of all objects of a Lua state: a graph that outlives them.
 *
 *   object   what the collector can free. It is known by its number, in the order of the addresses, from 1. Number 0 is the root,
 *            which represents everything that keeps objects alive by itself
 *   edge     {to, label}: an object refers to another one. The edges of an object follow each other, those of the root are first
 *   part     memory of the state that belongs to no object, such as the table of strings
 *
 * index.c finds numbers by addresses and addresses by numbers, with two and a half bytes for each object that is 100 bytes large. A
 * reader of one interpreter's structures (luajit.h, puc.h) first marks the addresses of all objects, and then reads them in the order of
 * their addresses. It reads only objects that are marked, since the references of an object that is dead, but not freed yet, may lead
 * to memory that is. It calls no function of Lua and changes nothing.
 *
 * paths.c finds the objects that are alive, and a shortest path to each; dominators.c finds how much memory each of them retains: what
 * would be free without it. All arrays come from mmap, never from malloc, which another thread may have locked at a fork.
 * process.c does all this in the child of a fork, which leaves the arrays in a file in memory. */
#ifndef PF_HEAP_H
#define PF_HEAP_H

#include <stddef.h>
#include <stdint.h>

enum pf_heap_type {
	PF_HEAP_ROOT,
	PF_HEAP_STRING,
	PF_HEAP_TABLE,
	PF_HEAP_FUNCTION,   /* a closure of a Lua function */
	PF_HEAP_C_FUNCTION, /* of a C function, or of a function that LuaJIT implements in assembler */
	PF_HEAP_PROTOTYPE,
	PF_HEAP_UPVALUE,
	PF_HEAP_THREAD,
	PF_HEAP_USERDATA,
	PF_HEAP_CDATA,
	PF_HEAP_TRACE,
	PF_HEAP_TYPES
};

/* Memory that belongs to no object. */
enum pf_heap_part {
	PF_HEAP_STATE,    /* the state itself, with the main thread */
	PF_HEAP_STRINGS,  /* the table of strings */
	PF_HEAP_BUFFER,   /* the buffer in which strings are made */
	PF_HEAP_COMPILER, /* LuaJIT's compiler */
	PF_HEAP_CTYPES,   /* the C types of LuaJIT's FFI */
	PF_HEAP_POINTERS, /* LuaJIT's segments of light userdata */
	PF_HEAP_UNKNOWN,  /* the collector's count less all that was found; may be negative */
	PF_HEAP_PARTS
};

/* The label of an edge: one of these, and a number of PF_HEAP_NUMBER bits. */
enum pf_heap_label {
	PF_HEAP_BY_ROOT,      /* enum pf_heap_root */
	PF_HEAP_BY_INDEX,     /* a table's value at this index */
	PF_HEAP_BY_KEY,       /* a table's value, which has this object as its key; the table holds the key too */
	PF_HEAP_BY_WEAK_KEY,  /* the same, but the table does not hold the key */
	PF_HEAP_BY_EPHEMERON, /* the same, and it holds the value only while something else holds the key */
	PF_HEAP_BY_VALUE,     /* a table's value, whose key is not an object: the number of a struct pf_heap_value */
	PF_HEAP_BY_METATABLE,
	PF_HEAP_BY_ENVIRONMENT,
	PF_HEAP_BY_USERVALUE, /* its number, from 1 */
	PF_HEAP_BY_UPVALUE,   /* a function's upvalue; its number, from 1 */
	PF_HEAP_BY_CONTENT,   /* an upvalue's value, a buffer's string */
	PF_HEAP_BY_PROTOTYPE,
	PF_HEAP_BY_CONSTANT,  /* of a prototype */
	PF_HEAP_BY_SLOT,      /* a thread's stack; the number of the slot */
	PF_HEAP_BY_LOCAL,     /* the same; the offset of a text that describes it */
	PF_HEAP_BY_CODE,      /* compiled code: it keeps the object only if nothing else does */
	PF_HEAP_LABELS
};
enum { PF_HEAP_NUMBER = 27, PF_HEAP_MOST = (1 << PF_HEAP_NUMBER) - 1 };

/* The places that keep objects by themselves. */
enum pf_heap_root {
	PF_HEAP_GLOBALS,
	PF_HEAP_LOADED, /* package.loaded, which the registry holds */
	PF_HEAP_REGISTRY,
	PF_HEAP_MAIN,
	PF_HEAP_RUNNING,  /* the coroutine that runs */
	PF_HEAP_INTERNAL, /* the interpreter: metatables of types, names of metamethods, default files */
	PF_HEAP_FINALIZER, /* a finalizer is going to be called */
	PF_HEAP_FIXED,    /* never freed, such as the names of keywords */
	PF_HEAP_ROOTS
};

/* A key, if it is a number, a boolean or a pointer. */
enum pf_heap_value_type { PF_HEAP_NUMBER_KEY, PF_HEAP_INTEGER_KEY, PF_HEAP_BOOLEAN_KEY, PF_HEAP_POINTER_KEY };
struct pf_heap_value {
	uint64_t bits;
	uint64_t type;
};

struct pf_heap_edge {
	uint32_t to; /* 0: nothing; it may still have a key */
	uint32_t label;
};

static inline enum pf_heap_label pf_heap_label(const struct pf_heap_edge *e)
{
	return (enum pf_heap_label)(e->label >> PF_HEAP_NUMBER);
}

static inline uint32_t pf_heap_number(const struct pf_heap_edge *e)
{
	return e->label & PF_HEAP_MOST;
}

/* An array that grows, from the kernel. */
struct pf_heap_array {
	void *items;
	uint64_t bytes, room;
};

enum pf_heap_arrays {
	PF_HEAP_CHUNKS,   /* struct pf_heap_chunk */
	PF_HEAP_SLOTS,    /* uint32_t: a hash table of the chunks, by address */
	PF_HEAP_ORDER,    /* struct pf_heap_pair: the upper bits and the number of each chunk, sorted */
	PF_HEAP_TYPE,     /* uint8_t of each object */
	PF_HEAP_SIZE,     /* uint64_t of each object: its bytes */
	PF_HEAP_FIRST,    /* uint32_t: its first edge; one more than there are objects */
	PF_HEAP_EDGES,    /* struct pf_heap_edge */
	PF_HEAP_VIA,      /* uint32_t: the edge, counted from 1, by which the shortest path reaches it; 0: it is dead */
	PF_HEAP_OWNER,    /* uint32_t: its immediate dominator */
	PF_HEAP_RETAINED, /* uint64_t: the bytes that it dominates, with its own */
	PF_HEAP_SHARED,   /* uint64_t: the bytes to which the shortest paths through it lead, and which it does not dominate */
	PF_HEAP_TEXT_AT,  /* uint32_t: the offset of its text; 0: none */
	PF_HEAP_TEXT,     /* texts, each with two bytes for its length before it */
	PF_HEAP_VALUES,   /* struct pf_heap_value */
	PF_HEAP_ARRAYS
};

enum { PF_HEAP_TEXT_MOST = 1000, PF_HEAP_PREVIEW = 60 };

struct pf_heap {
	struct pf_heap_array a[PF_HEAP_ARRAYS];
	uint32_t n; /* objects */
	int failed; /* 0, or the first error: -errno */
	int has_ephemerons, has_code;
	uint16_t payload[PF_HEAP_TYPES]; /* how far behind an object's address the one lies that the interpreter gives to programs */
	uint16_t payload_more;           /* the same of userdata with uservalues, without these */
	int64_t parts[PF_HEAP_PARTS];
	uint64_t total, counted; /* bytes: of objects and parts; by the collector's count */
	struct {
		uint64_t objects, bytes;
	} live[PF_HEAP_TYPES];
	uint64_t dead, dead_objects; /* bytes and number of the objects that are dead, but not freed yet */
	uint64_t peak;           /* the most memory that all arrays took */
	uint64_t used;
	void *map; /* the arrays of a child, in one piece */
	size_t map_size;
};

#define PF_HEAP_ITEMS(h, type, array) ((type *)(h)->a[array].items)
#define pf_heap_types(h) PF_HEAP_ITEMS(h, uint8_t, PF_HEAP_TYPE)
#define pf_heap_sizes(h) PF_HEAP_ITEMS(h, uint64_t, PF_HEAP_SIZE)
#define pf_heap_firsts(h) PF_HEAP_ITEMS(h, uint32_t, PF_HEAP_FIRST)
#define pf_heap_edges(h) PF_HEAP_ITEMS(h, struct pf_heap_edge, PF_HEAP_EDGES)
#define pf_heap_vias(h) PF_HEAP_ITEMS(h, uint32_t, PF_HEAP_VIA)
#define pf_heap_owners(h) PF_HEAP_ITEMS(h, uint32_t, PF_HEAP_OWNER)
#define pf_heap_retained(h) PF_HEAP_ITEMS(h, uint64_t, PF_HEAP_RETAINED)
#define pf_heap_shared(h) PF_HEAP_ITEMS(h, uint64_t, PF_HEAP_SHARED)
#define pf_heap_texts_at(h) PF_HEAP_ITEMS(h, uint32_t, PF_HEAP_TEXT_AT)
#define pf_heap_values(h) PF_HEAP_ITEMS(h, struct pf_heap_value, PF_HEAP_VALUES)

/* A reader of an interpreter's structures. */
struct pf_heap_reader {
	void (*mark)(struct pf_heap_reader *r);  /* calls pf_heap_mark for each object */
	void (*roots)(struct pf_heap_reader *r); /* calls pf_heap_edge for the root, and pf_heap_part */
	/* Sets the type and the size of an object, and calls pf_heap_edge. */
	void (*read)(struct pf_heap_reader *r, uint32_t i, uint64_t at);
	/* The text of a string or a prototype. Returns its length; at most PF_HEAP_TEXT_MOST. most: for strings */
	size_t (*text)(struct pf_heap_reader *r, uint64_t at, char *to, size_t most);
	void (*done)(struct pf_heap_reader *r); /* frees memory of its own */
	struct pf_heap *h;
	uint64_t globals, loaded, running; /* addresses: the tables _G and package.loaded, and the thread that runs; 0: none */
};

/* --- heap.c ---------------------------------------------------------------------------------------------------------- */

/* Read all objects. Returns 0 or -errno; call pf_heap_free after either. -EBADMSG: an object is not what the layout says;
 * -E2BIG: there are more than PF_HEAP_MOST objects. */
int pf_heap_take(struct pf_heap *h, struct pf_heap_reader *r);
/* Then: find paths, texts, dominators. */
int pf_heap_analyze(struct pf_heap *h, struct pf_heap_reader *r);
void pf_heap_free(struct pf_heap *h); /* idempotent */

/* Room for more bytes at the end of an array, which is zeroed; NULL if there is no memory: then `failed` is set. */
void *pf_heap_room(struct pf_heap *h, struct pf_heap_array *a, uint64_t bytes);
void pf_heap_drop(struct pf_heap *h, struct pf_heap_array *a);

/* For readers. */
void pf_heap_part(struct pf_heap *h, enum pf_heap_part part, uint64_t bytes);
void pf_heap_edge(struct pf_heap *h, uint64_t to, enum pf_heap_label label, uint64_t number);
void pf_heap_edge_value(struct pf_heap *h, uint64_t to, enum pf_heap_value_type type, uint64_t bits);
/* An entry of a table whose key is an object. to: 0 if the value is not an object, or if the table holds it weakly */
void pf_heap_edge_key(struct pf_heap *h, uint64_t to, enum pf_heap_label label, uint64_t key);
/* The offset of a new text; 0 without memory. */
uint32_t pf_heap_text(struct pf_heap *h, const char *text, size_t n);
/* The text at an offset. */
const char *pf_heap_text_at(const struct pf_heap *h, uint32_t offset, size_t *n);

/* Sort pairs by their keys, without malloc, which qsort may call. */
struct pf_heap_pair {
	uint64_t key, value;
};
void pf_heap_sort(struct pf_heap_pair *pairs, uint32_t n);
/* The number of pairs whose key is not greater. */
uint32_t pf_heap_count_pairs(const struct pf_heap_pair *pairs, uint32_t n, uint64_t key);

/* --- index.c --------------------------------------------------------------------------------------------------------- */

enum { PF_HEAP_CHUNK = 16, PF_HEAP_WORDS = 128 };
struct pf_heap_chunk {
	uint64_t at;    /* the upper bits of the addresses */
	uint32_t first; /* the number of objects in the chunks before */
	uint16_t before[PF_HEAP_WORDS]; /* and in the words before, in this chunk */
	uint64_t bits[PF_HEAP_WORDS];   /* one for each 8 bytes: an object begins there */
};

/* Mark the address of an object. Returns 0 if it was marked before. */
int pf_heap_mark(struct pf_heap *h, uint64_t at);
/* Give the marked objects their numbers. */
void pf_heap_count(struct pf_heap *h);
/* The number of the object that begins at an address; 0 if there is none. */
uint32_t pf_heap_find(const struct pf_heap *h, uint64_t at);
uint64_t pf_heap_address(const struct pf_heap *h, uint32_t i);

/* --- paths.c, dominators.c ------------------------------------------------------------------------------------------- */

int pf_heap_find_paths(struct pf_heap *h);
int pf_heap_find_owners(struct pf_heap *h);
/* The object that has an edge. */
uint32_t pf_heap_holder(const struct pf_heap *h, uint32_t edge);
/* Does the table that has this edge hold its key? */
static inline int pf_heap_holds_key(const struct pf_heap_edge *e)
{
	return pf_heap_label(e) == PF_HEAP_BY_KEY;
}
/* Does this edge keep its object alive, once all paths are known? */
static inline int pf_heap_holds(const struct pf_heap *h, uint32_t edge)
{
	const struct pf_heap_edge *e = pf_heap_edges(h) + edge;

	if (!e->to)
		return 0;
	if (pf_heap_label(e) == PF_HEAP_BY_CODE)
		return pf_heap_vias(h)[e->to] == edge + 1;
	return pf_heap_label(e) != PF_HEAP_BY_EPHEMERON || pf_heap_vias(h)[pf_heap_number(e)] != 0;
}

#endif
