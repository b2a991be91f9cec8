/* Reads the objects of PUC Lua (64-bit) for a snapshot. The places of the fields are learned and verified by binding/heap. A place is a
 * distance in bytes from the start of the object, unless another start is named. */
#ifndef PF_HEAP_PUC_H
#define PF_HEAP_PUC_H

#include "core/heap/heap.h"

enum { PF_HEAP_NOWHERE = UINT16_MAX }; /* this version has no such field */

/* The meaning of a value's tag. */
enum pf_heap_puc_value {
	PF_HEAP_NO_OBJECT, /* also a C function without upvalues, since 5.2 */
	PF_HEAP_NIL,
	PF_HEAP_OBJECT,
	PF_HEAP_FALSE,
	PF_HEAP_TRUE,
	PF_HEAP_BOOLEAN, /* the value says which */
	PF_HEAP_POINTER,
	PF_HEAP_INTEGER,
	PF_HEAP_FLOAT
};

/* An array that an object, or the global state, has a pointer to; NULL if it has no items. */
struct pf_heap_items {
	uint16_t pointer, count;
	uint8_t size; /* of an item */
	uint8_t role; /* enum pf_heap_role */
};
enum pf_heap_role { PF_HEAP_ITEMS_BYTES, PF_HEAP_ITEMS_VALUES, PF_HEAP_ITEMS_OBJECTS /* each begins with an object */ };
enum { PF_HEAP_ITEMS_MOST = 10 };

struct pf_heap_puc {
	uint8_t values[256]; /* by tag: enum pf_heap_puc_value */
	uint8_t types[256];  /* by the byte in an object: enum pf_heap_type; PF_HEAP_ROOT: none */
	uint16_t object_type, object_marks, value_tag, value_bytes;
	uint16_t string_text, string_size, string_short_size;
	uint8_t string_short; /* the type of strings whose length is a byte */
	uint8_t has_ephemerons;
	uint16_t table_bytes, table_array, table_array_n, table_flags, table_node, table_node_power, table_metatable;
	uint8_t table_rounded; /* the flag: the array has the next power of two */
	uint16_t node_bytes, node_key, node_key_tag, node_value;
	uint64_t no_node; /* the address in tables without nodes */
	/* more: with uservalues, whose number is at _values_n, without these. value, value_tag: of the first one. */
	uint16_t userdata_bytes, userdata_bytes_more, userdata_n, userdata_metatable, userdata_values_n, userdata_value, userdata_value_tag;
	uint16_t userdata_env, function_env, thread_env; /* 5.1 */
	uint16_t function_kind, function_n, function_upvalues, function_c_upvalues, function_prototype;
	uint8_t function_c; /* the byte of a C function at _kind */
	/* Counted: upvalues are not in the collector's lists; they have a count of the functions that refer to them. */
	uint8_t upvalue_is_counted, upvalue_open_is_listed, thread_holds_open;
	uint16_t upvalue_bytes, upvalue_value, upvalue_next;
	uint16_t prototype_bytes, prototype_source, prototype_line, prototype_names; /* the pointer to the array of upvalues' names */
	struct pf_heap_items prototype_items[PF_HEAP_ITEMS_MOST];
	unsigned prototype_items_n;
	/* A thread lies thread_before bytes behind the begin of its block. Its calls are an array, or a list from _calls on. */
	uint16_t thread_before, thread_bytes, thread_global, thread_top, thread_stack, thread_stack_end, thread_stack_extra, thread_open;
	uint16_t thread_calls, call_next, call_bytes;
	struct pf_heap_items call_items;
	/* The global state, main_below bytes behind the main thread. _total: two numbers to be added, if _debt is a place. */
	uint16_t global_total, global_debt, global_objects, global_finalizers, global_finalizing, global_fixed, global_strings, global_strings_n,
		global_registry, global_metatables, global_metatables_n, main_below;
	uint8_t strings_are_listed, flag_fixed; /* the bit of a string that is never freed, if there is no list of these */
	uint32_t state_bytes;
	struct pf_heap_items buffer; /* its count has 64 bits */
};

struct pf_heap_puc_reader {
	struct pf_heap_reader r;
	const struct pf_heap_puc *l;
	uint64_t global;
	struct pf_heap upvalues; /* those that are counted: their addresses are marked */
};

void pf_heap_puc_reader(struct pf_heap_puc_reader *r, const struct pf_heap_puc *l, uint64_t global);

/* For the learner: the bytes of an array that belongs to the structure at an address. */
uint64_t pf_heap_puc_items(const struct pf_heap_items *v, uint64_t in);

#endif
