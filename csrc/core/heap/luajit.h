/* Reads the objects of LuaJIT (GC64) for a snapshot. The places of the fields are learned and verified by binding/heap. A place is a
 * distance in bytes from the start of the object, unless another start is named. */
#ifndef PF_HEAP_LUAJIT_H
#define PF_HEAP_LUAJIT_H

#include "core/heap/heap.h"
#include "core/stack/unwind_luajit.h"

/* How many items an array has, by numbers that lie in the same structure as the pointer to it. */
enum pf_heap_count {
	PF_HEAP_ITEMS_N = 1,  /* a number of items */
	PF_HEAP_ITEMS_MASK,   /* one less */
	PF_HEAP_ITEMS_POWER,  /* an eight-bit number; the power of two above it, at least 2 */
	PF_HEAP_ITEMS_END,    /* a pointer to the end: the items are bytes */
	PF_HEAP_ITEMS_BETWEEN, /* two numbers: from `count` to `limit`; the pointer leads to item 0, which may be before the array */
};

/* An array that belongs to the global state, or to the state of the FFI. */
struct pf_heap_vector {
	uint8_t part; /* enum pf_heap_part */
	uint8_t how;  /* enum pf_heap_count */
	uint8_t size; /* of an item */
	uint8_t ffi;  /* 1: of the FFI's state */
	uint16_t pointer, count, limit;
};
enum { PF_HEAP_VECTORS = 16 };

struct pf_heap_luajit {
	struct pf_luajit_layout l; /* of threads, functions, prototypes, traces */
	/* Bits of the byte before an object's type: it is never freed; a cdata that has a header before it. */
	uint8_t flag_fixed, flag_variable;
	/* Types, as the byte in an object. */
	uint8_t type_string, type_upvalue, type_cdata, type_table, type_userdata;
	uint8_t string_round; /* texts with their zero byte take a multiple of one more than this */
	uint16_t upvalue_bytes, upvalue_value;
	uint16_t thread_bytes, thread_top, thread_open, thread_env;
	uint16_t function_env, function_n, function_upvalues, function_c_upvalues;
	uint16_t prototype_bytes, prototype_constants, prototype_constants_n, prototype_upvalues, prototype_upvalues_n;
	uint16_t table_bytes, table_colocated, table_array, table_metatable, table_node, table_array_n, table_node_mask;
	uint16_t node_bytes, node_key, node_value;
	uint16_t userdata_bytes, userdata_n, userdata_env, userdata_metatable;
	/* A userdata that is a string.buffer: the byte of its kind, and that kind (0: there are none); in its payload. */
	uint16_t userdata_kind, buffer_kind, buffer_begin, buffer_end, buffer_flags, buffer_shared /* the flag: it has a string's bytes */,
		buffer_string;
	uint16_t trace_prototype;
	/* A cdata; in the header before it, as distances below it. */
	uint16_t cdata_bytes, cdata_type, cdata_offset, cdata_extra, cdata_n;
	/* The FFI's state, and its table of types. */
	uint16_t ffi_bytes, ffi_types, ctype_bytes, ctype_size;
	uint8_t ctype_attribute, ctype_sized; /* the upper four bits of a type's first word: an attribute; the last that has a size */
	/* The global state. */
	uint16_t global_total, global_objects, global_finalizing, global_strings, global_strings_mask, global_registry, global_roots,
		global_roots_end, global_ffi, global_empty /* the empty string, if it lies there; otherwise 0 */;
	uint32_t state_bytes;
	struct pf_heap_vector vectors[PF_HEAP_VECTORS];
	unsigned vectors_n;
};

struct pf_heap_luajit_reader {
	struct pf_heap_reader r;
	const struct pf_heap_luajit *l;
	uint64_t global;
	/* Traces that were read before their prototypes: a list of pairs, sorted by the prototype. */
	struct pf_heap_array traces;
};

void pf_heap_luajit_reader(struct pf_heap_luajit_reader *r, const struct pf_heap_luajit *l, uint64_t global);

/* For the learner: the bytes of an object, as the collector counts them; -1 if it is not an object. start: where its block begins. */
int64_t pf_heap_luajit_size(const struct pf_heap_luajit *l, uint64_t global, uint64_t at, uint64_t *start);
/* The bytes of an array, and where it begins; 0 if there is none. */
uint64_t pf_heap_luajit_vector(const struct pf_heap_luajit *l, const struct pf_heap_vector *v, uint64_t global, uint64_t *start);

#endif
