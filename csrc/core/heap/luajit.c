/* See luajit.h: the lists of the collector, and the edges of each object. */
#include "core/heap/luajit.h"

#include <errno.h>

#include "core/heap/memory.h"
#include "core/stack/unwind_luajit_internal.h"

#define word pf_heap_word
#define u32 pf_heap_u32
#define u16 pf_heap_u16
#define u8 pf_heap_u8

/* The upper bits of a value of no type, and of true and false; the first types, in LuaJIT's order, are nil, false, true, light userdata. */
enum { NIL = 0x1ffff, FALSE = NIL - 1, TRUE = NIL - 2, POINTER = NIL - 3, INTEGER = NIL - 13 };
enum { POINTER_BITS = 7 };

static struct pf_heap_luajit_reader *reader_of(struct pf_heap_reader *r)
{
	return (struct pf_heap_luajit_reader *)r;
}

static uint8_t type_of(const struct pf_heap_luajit *l, uint64_t at)
{
	return u8(at + l->l.object_type);
}

static uint8_t flags_of(const struct pf_heap_luajit *l, uint64_t at)
{
	return u8(at + l->l.object_type - 1u);
}

/* The object of a value; 0 if it has none. */
static uint64_t object_of(uint64_t value)
{
	const uint32_t tag = pf_luajit_tag(value);

	return tag < POINTER && tag > INTEGER ? pf_luajit_address(value) : 0;
}

/* Returns the address of the FFI's state, or 0 if the state has none. */
static uint64_t ffi_state(const struct pf_heap_luajit *l, uint64_t global)
{
	return l->global_ffi ? word(global + l->global_ffi) : 0;
}

/* --- sizes ----------------------------------------------------------------------------------------------------------- */

static int64_t cdata_size(const struct pf_heap_luajit *l, uint64_t global, uint64_t at, uint64_t *start)
{
	const uint64_t ffi = ffi_state(l, global);
	uint64_t type;
	uint32_t info;

	if (flags_of(l, at) & l->flag_variable) {
		*start = at - u16(at - l->cdata_offset);
		return (int64_t)u32(at - l->cdata_n) + u16(at - l->cdata_extra);
	}
	if (!ffi)
		return -1;
	type = word(ffi + l->ffi_types) + (uint64_t)u16(at + l->cdata_type) * l->ctype_bytes;
	for (int i = 0; (info = u32(type)) >> 28 == l->ctype_attribute && i < 100; i++)
		type = word(ffi + l->ffi_types) + (uint64_t)(info & 0xffff) * l->ctype_bytes;
	return l->cdata_bytes + (int64_t)(info >> 28 <= l->ctype_sized ? u32(type + l->ctype_size) : sizeof(void *));
}

static int64_t table_size(const struct pf_heap_luajit *l, uint64_t at)
{
	const int8_t colocated = (int8_t)u8(at + l->table_colocated);
	const uint32_t mask = u32(at + l->table_node_mask);
	int64_t size = l->table_bytes + (int64_t)(colocated & 0x7f) * PF_LUAJIT_SLOT;

	if (mask)
		size += ((int64_t)mask + 1) * l->node_bytes;
	if (colocated <= 0)
		size += (int64_t)u32(at + l->table_array_n) * PF_LUAJIT_SLOT;
	return size;
}

static int is_buffer(const struct pf_heap_luajit *l, uint64_t at)
{
	return l->buffer_kind && u8(at + l->userdata_kind) == l->buffer_kind;
}

static int is_shared_buffer(const struct pf_heap_luajit *l, uint64_t at)
{
	return (word(at + l->userdata_bytes + l->buffer_flags) & l->buffer_shared) != 0;
}

static int64_t userdata_size(const struct pf_heap_luajit *l, uint64_t at)
{
	int64_t size = (int64_t)l->userdata_bytes + u32(at + l->userdata_n);

	if (is_buffer(l, at) && !is_shared_buffer(l, at))
		size += (int64_t)(word(at + l->userdata_bytes + l->buffer_end) - word(at + l->userdata_bytes + l->buffer_begin));
	return size;
}

static int64_t function_size(const struct pf_heap_luajit *l, uint64_t at)
{
	return (u8(at + l->l.function_id) ? l->function_c_upvalues : l->function_upvalues) + (int64_t)u8(at + l->function_n) * 8;
}

int64_t pf_heap_luajit_size(const struct pf_heap_luajit *l, uint64_t global, uint64_t at, uint64_t *start)
{
	const uint8_t type = type_of(l, at);
	const uint32_t round = l->string_round;

	*start = at;
	if (at == global + l->global_empty)
		return 0;
	if (type == l->type_string)
		return l->l.string_text + (int64_t)((u32(at + l->l.string_size) + 1 + round) & ~round);
	if (type == l->type_upvalue)
		return l->upvalue_bytes;
	if (type == l->l.type_thread)
		return (at == global - l->l.main_below ? 0 : l->thread_bytes) + (int64_t)u32(at + l->l.thread_slots) * PF_LUAJIT_SLOT;
	if (type == l->l.type_prototype)
		return u32(at + l->prototype_bytes);
	if (type == l->l.type_function)
		return function_size(l, at);
	if (type == l->l.type_trace && l->l.traces)
		return (int64_t)(word(at + l->l.trace_map) - at) + 4 * (int64_t)u32(at + l->l.trace_map_n);
	if (type == l->type_cdata)
		return cdata_size(l, global, at, start);
	if (type == l->type_table)
		return table_size(l, at);
	return type == l->type_userdata ? userdata_size(l, at) : -1;
}

uint64_t pf_heap_luajit_vector(const struct pf_heap_luajit *l, const struct pf_heap_vector *v, uint64_t global, uint64_t *start)
{
	const uint64_t in = v->ffi ? ffi_state(l, global) : global;
	uint32_t n;

	*start = 0;
	if (!in)
		return 0;
	*start = word(in + v->pointer);
	if (v->how == PF_HEAP_ITEMS_END)
		return word(in + v->count) - *start;
	if (v->how == PF_HEAP_ITEMS_BETWEEN) {
		n = u32(in + v->limit) - u32(in + v->count);
		*start += (uint64_t)u32(in + v->count) * v->size;
		return (uint64_t)n * v->size;
	}
	if (!*start)
		return 0;
	n = v->how == PF_HEAP_ITEMS_POWER ? u8(in + v->count) : u32(in + v->count);
	if (v->how == PF_HEAP_ITEMS_POWER)
		n = n < 2 ? 2 : UINT32_C(2) << (31 - __builtin_clz(n));
	return ((uint64_t)n + (v->how == PF_HEAP_ITEMS_MASK)) * v->size;
}

/* --- all objects ----------------------------------------------------------------------------------------------------- */

/* The upvalues of a thread that still lie on its stack are only in a list of their own. */
static void mark_open(struct pf_heap *h, const struct pf_heap_luajit *l, uint64_t thread)
{
	for (uint64_t at = word(thread + l->thread_open); at && pf_heap_mark(h, at); at = word(at))
		;
}

static void mark_one(struct pf_heap_luajit_reader *r, uint64_t at)
{
	struct pf_heap *h = r->r.h;
	const uint8_t type = type_of(r->l, at);
	struct pf_heap_pair *trace;

	if (type == r->l->l.type_thread)
		mark_open(h, r->l, at);
	if (type == r->l->l.type_trace && r->l->l.traces) {
		trace = pf_heap_room(h, &r->traces, sizeof *trace);
		if (trace)
			*trace = (struct pf_heap_pair){word(at + r->l->trace_prototype), at};
	}
}

static uint32_t traces_n(const struct pf_heap_luajit_reader *r)
{
	return (uint32_t)(r->traces.bytes / sizeof(struct pf_heap_pair));
}

static void mark(struct pf_heap_reader *reader)
{
	struct pf_heap_luajit_reader *r = reader_of(reader);
	const struct pf_heap_luajit *l = r->l;
	struct pf_heap *h = reader->h;
	const uint64_t strings = word(r->global + l->global_strings), last = word(r->global + l->global_finalizing);

	for (uint64_t at = word(r->global + l->global_objects); at && pf_heap_mark(h, at); at = word(at))
		mark_one(r, at);
	if (last) /* a circle */
		for (uint64_t at = word(last); pf_heap_mark(h, at); at = word(at))
			mark_one(r, at);
	for (uint64_t i = 0; i <= u32(r->global + l->global_strings_mask); i++)
		for (uint64_t at = word(strings + 8 * i) & ~UINT64_C(7); at && pf_heap_mark(h, at); at = word(at))
			;
	if (l->global_empty)
		pf_heap_mark(h, r->global + l->global_empty);
	pf_heap_sort(r->traces.items, traces_n(r));
}

/* --- roots and parts ------------------------------------------------------------------------------------------------- */

static void add_parts(struct pf_heap_luajit_reader *r)
{
	const struct pf_heap_luajit *l = r->l;
	struct pf_heap *h = r->r.h;
	uint64_t start;

	h->counted = word(r->global + l->global_total);
	pf_heap_part(h, PF_HEAP_STATE, l->state_bytes);
	pf_heap_part(h, PF_HEAP_STRINGS, ((uint64_t)u32(r->global + l->global_strings_mask) + 1) * sizeof(uint64_t));
	if (ffi_state(l, r->global))
		pf_heap_part(h, PF_HEAP_CTYPES, l->ffi_bytes);
	for (unsigned i = 0; i < l->vectors_n; i++)
		pf_heap_part(h, l->vectors[i].part, pf_heap_luajit_vector(l, &l->vectors[i], r->global, &start));
}

static void roots(struct pf_heap_reader *reader)
{
	struct pf_heap_luajit_reader *r = reader_of(reader);
	const struct pf_heap_luajit *l = r->l;
	struct pf_heap *h = reader->h;
	const uint64_t main = r->global - l->l.main_below, last = word(r->global + l->global_finalizing),
		       strings = word(r->global + l->global_strings);
	uint64_t at = last;

	h->payload[PF_HEAP_STRING] = l->l.string_text;
	h->payload[PF_HEAP_USERDATA] = l->userdata_bytes;
	h->payload[PF_HEAP_CDATA] = l->cdata_bytes;
	add_parts(r);
	pf_heap_edge(h, word(main + l->thread_env), PF_HEAP_BY_ROOT, PF_HEAP_GLOBALS);
	pf_heap_edge(h, reader->loaded, PF_HEAP_BY_ROOT, PF_HEAP_LOADED);
	pf_heap_edge(h, object_of(word(r->global + l->global_registry)), PF_HEAP_BY_ROOT, PF_HEAP_REGISTRY);
	pf_heap_edge(h, main, PF_HEAP_BY_ROOT, PF_HEAP_MAIN);
	if (reader->running != main)
		pf_heap_edge(h, reader->running, PF_HEAP_BY_ROOT, PF_HEAP_RUNNING);
	for (uint64_t o = l->global_roots; o < l->global_roots_end; o += 8)
		pf_heap_edge(h, word(r->global + o), PF_HEAP_BY_ROOT, PF_HEAP_INTERNAL);
	if (last)
		do {
			at = word(at);
			pf_heap_edge(h, at, PF_HEAP_BY_ROOT, PF_HEAP_FINALIZER);
		} while (at != last);
	if (l->global_empty)
		pf_heap_edge(h, r->global + l->global_empty, PF_HEAP_BY_ROOT, PF_HEAP_FIXED);
	for (uint64_t i = 0; i <= u32(r->global + l->global_strings_mask); i++)
		for (at = word(strings + 8 * i) & ~UINT64_C(7); at; at = word(at))
			if (flags_of(l, at) & l->flag_fixed)
				pf_heap_edge(h, at, PF_HEAP_BY_ROOT, PF_HEAP_FIXED);
}

/* --- edges ----------------------------------------------------------------------------------------------------------- */

static int is_string(const struct pf_heap_luajit *l, uint64_t object)
{
	return object && type_of(l, object) == l->type_string;
}

enum { WEAK_KEYS = 1, WEAK_VALUES = 2 };

/* The field __mode of a metatable, as bits. The metatable of a dead table may be gone. */
static int weakness(const struct pf_heap_luajit_reader *r, uint64_t metatable)
{
	static const char name[] = "__mode";
	const struct pf_heap_luajit *l = r->l;
	const struct pf_heap *h = r->r.h;
	uint64_t node;
	int weak = 0;

	if (!metatable || !pf_heap_find(h, metatable) || type_of(l, metatable) != l->type_table)
		return 0;
	node = word(metatable + l->table_node);
	for (uint64_t i = 0; i <= u32(metatable + l->table_node_mask); i++, node += l->node_bytes) {
		const uint64_t key = object_of(word(node + l->node_key)), value = object_of(word(node + l->node_value));

		if (!pf_heap_find(h, key) || !is_string(l, key) || u32(key + l->l.string_size) != sizeof name - 1 ||
		    memcmp((const void *)(uintptr_t)(key + l->l.string_text), name, sizeof name - 1) != 0)
			continue;
		if (!pf_heap_find(h, value) || !is_string(l, value))
			return 0;
		for (const char *s = (const char *)(uintptr_t)(value + l->l.string_text); *s; s++)
			weak |= *s == 'k' ? WEAK_KEYS : *s == 'v' ? WEAK_VALUES : 0;
	}
	return weak;
}

/* The value of an entry; 0 if the table does not hold it. Strings are held as long as the entry exists. */
static uint64_t held(const struct pf_heap_luajit_reader *r, uint64_t value, int weak)
{
	const uint64_t object = object_of(value);

	return object && weak && !(pf_heap_find(r->r.h, object) && is_string(r->l, object)) ? 0 : object;
}

static void read_node(const struct pf_heap_luajit_reader *r, uint64_t node, int weak)
{
	struct pf_heap *h = r->r.h;
	const uint64_t key = word(node + r->l->node_key), value = word(node + r->l->node_value);
	const uint64_t to = held(r, value, weak & WEAK_VALUES), object = object_of(key);
	const uint32_t tag = pf_luajit_tag(key);

	if (pf_luajit_tag(value) == NIL)
		return;
	if (object)
		pf_heap_edge_key(h, to, held(r, key, weak & WEAK_KEYS) ? PF_HEAP_BY_KEY : PF_HEAP_BY_WEAK_KEY, object);
	else if (tag == TRUE || tag == FALSE)
		pf_heap_edge_value(h, to, PF_HEAP_BOOLEAN_KEY, tag == TRUE);
	else if (tag == POINTER)
		pf_heap_edge_value(h, to, PF_HEAP_POINTER_KEY, pf_luajit_address(key));
	else if (tag == INTEGER)
		pf_heap_edge_value(h, to, PF_HEAP_INTEGER_KEY, (uint64_t)(int64_t)(int32_t)key);
	else
		pf_heap_edge_value(h, to, PF_HEAP_NUMBER_KEY, key);
}

static void read_table(const struct pf_heap_luajit_reader *r, uint64_t at)
{
	const struct pf_heap_luajit *l = r->l;
	struct pf_heap *h = r->r.h;
	const uint64_t metatable = word(at + l->table_metatable), array = word(at + l->table_array);
	const int weak = weakness(r, metatable);
	uint64_t node = word(at + l->table_node);

	pf_heap_edge(h, metatable, PF_HEAP_BY_METATABLE, 0);
	for (uint64_t i = 0; i < u32(at + l->table_array_n); i++) {
		const uint64_t to = held(r, word(array + 8 * i), weak & WEAK_VALUES);

		if (to)
			pf_heap_edge(h, to, PF_HEAP_BY_INDEX, i);
	}
	if (u32(at + l->table_node_mask))
		for (uint64_t i = 0; i <= u32(at + l->table_node_mask); i++, node += l->node_bytes)
			read_node(r, node, weak);
}

static void read_function(const struct pf_heap_luajit_reader *r, uint64_t at, int is_lua)
{
	const struct pf_heap_luajit *l = r->l;
	struct pf_heap *h = r->r.h;
	const unsigned n = u8(at + l->function_n);

	if (is_lua)
		pf_heap_edge(h, word(at + l->l.function_code) - l->l.prototype_end, PF_HEAP_BY_PROTOTYPE, 0);
	for (unsigned i = 0; i < n; i++)
		pf_heap_edge(h, is_lua ? word(at + l->function_upvalues + 8 * i) : object_of(word(at + l->function_c_upvalues + 8 * i)),
			     PF_HEAP_BY_UPVALUE, i + 1);
	pf_heap_edge(h, word(at + l->function_env), PF_HEAP_BY_ENVIRONMENT, 0);
}

static void read_prototype(const struct pf_heap_luajit_reader *r, uint64_t at)
{
	const struct pf_heap_luajit *l = r->l;
	struct pf_heap *h = r->r.h;
	const uint64_t constants = word(at + l->prototype_constants);
	const struct pf_heap_pair *trace = r->traces.items;
	uint32_t to = pf_heap_count_pairs(trace, traces_n(r), at);

	pf_heap_edge(h, word(at + l->l.prototype_source), PF_HEAP_BY_CONSTANT, 0);
	for (uint64_t i = 1; i <= u32(at + l->prototype_constants_n); i++)
		pf_heap_edge(h, word(constants - 8 * i), PF_HEAP_BY_CONSTANT, i);
	for (; to > 0 && trace[to - 1].key == at; to--)
		pf_heap_edge(h, trace[to - 1].value, PF_HEAP_BY_CODE, 0);
}

static void read_thread(const struct pf_heap_luajit_reader *r, uint64_t at)
{
	const struct pf_heap_luajit *l = r->l;
	const uint64_t stack = word(at + l->l.thread_stack), top = word(at + l->thread_top);

	for (uint64_t slot = stack + 2 * PF_LUAJIT_SLOT; slot < top; slot += PF_LUAJIT_SLOT)
		pf_heap_edge(r->r.h, object_of(word(slot)), PF_HEAP_BY_SLOT, (slot - stack) / PF_LUAJIT_SLOT);
	pf_heap_edge(r->r.h, word(at + l->thread_env), PF_HEAP_BY_ENVIRONMENT, 0);
}

static void read_userdata(const struct pf_heap_luajit_reader *r, uint64_t at)
{
	const struct pf_heap_luajit *l = r->l;
	const uint64_t payload = at + l->userdata_bytes;

	pf_heap_edge(r->r.h, word(at + l->userdata_metatable), PF_HEAP_BY_METATABLE, 0);
	pf_heap_edge(r->r.h, word(at + l->userdata_env), PF_HEAP_BY_ENVIRONMENT, 0);
	if (!is_buffer(l, at))
		return;
	/* It shares a string's bytes, and it may have two dictionaries. */
	for (uint64_t o = 0; o + 8 <= u32(at + l->userdata_n); o += 8)
		if (o != l->buffer_string || is_shared_buffer(l, at))
			pf_heap_edge(r->r.h, word(payload + o), PF_HEAP_BY_CONTENT, 0);
}

/* The constants of compiled code lie before its instructions; those that are objects are their addresses. */
static void read_trace(const struct pf_heap_luajit_reader *r, uint64_t at)
{
	enum { INSTRUCTION = 8, BIAS = 0x8000 };
	const struct pf_heap_luajit *l = r->l;
	const uint64_t ir = word(at + l->l.trace_ir);

	for (uint64_t i = u32(at + l->l.trace_ir_low); i < BIAS; i++)
		pf_heap_edge(r->r.h, word(ir + i * INSTRUCTION), PF_HEAP_BY_CODE, 0);
	pf_heap_edge(r->r.h, word(at + l->trace_prototype), PF_HEAP_BY_CODE, 0);
}

static void read(struct pf_heap_reader *reader, uint32_t i, uint64_t at)
{
	struct pf_heap_luajit_reader *r = reader_of(reader);
	const struct pf_heap_luajit *l = r->l;
	struct pf_heap *h = reader->h;
	const uint8_t type = type_of(l, at);
	uint8_t *to = pf_heap_types(h) + i;
	uint64_t start;
	const int64_t size = pf_heap_luajit_size(l, r->global, at, &start);

	if (size < 0) {
		h->failed = -EBADMSG;
		return;
	}
	pf_heap_sizes(h)[i] = (uint64_t)size;
	if (type == l->type_string) {
		*to = PF_HEAP_STRING;
	} else if (type == l->type_table) {
		*to = PF_HEAP_TABLE;
		read_table(r, at);
	} else if (type == l->l.type_function) {
		*to = u8(at + l->l.function_id) ? PF_HEAP_C_FUNCTION : PF_HEAP_FUNCTION;
		read_function(r, at, *to == PF_HEAP_FUNCTION);
	} else if (type == l->l.type_prototype) {
		*to = PF_HEAP_PROTOTYPE;
		read_prototype(r, at);
	} else if (type == l->type_upvalue) {
		*to = PF_HEAP_UPVALUE;
		pf_heap_edge(h, object_of(word(word(at + l->upvalue_value))), PF_HEAP_BY_CONTENT, 0);
	} else if (type == l->l.type_thread) {
		*to = PF_HEAP_THREAD;
		read_thread(r, at);
	} else if (type == l->type_userdata) {
		*to = PF_HEAP_USERDATA;
		read_userdata(r, at);
	} else if (type == l->l.type_trace) {
		*to = PF_HEAP_TRACE;
		read_trace(r, at);
	} else {
		*to = PF_HEAP_CDATA;
	}
}

/* --- texts ----------------------------------------------------------------------------------------------------------- */

static size_t put(char *to, size_t n, size_t most, uint64_t from, size_t size)
{
	if (size > most - n)
		size = most - n;
	memcpy(to + n, (const void *)(uintptr_t)from, size);
	return n + size;
}

/* A prototype's text is its chunk's name, the line of its definition and the names of its upvalues, each with a zero byte. */
static size_t text(struct pf_heap_reader *reader, uint64_t at, char *to, size_t most)
{
	const struct pf_heap_luajit *l = reader_of(reader)->l;
	const uint64_t source = word(at + l->l.prototype_source);
	uint64_t names;
	uint32_t line;
	char digits[12];
	size_t n, d = sizeof digits;

	if (type_of(l, at) == l->type_string)
		return put(to, 0, most, at + l->l.string_text, u32(at + l->l.string_size));
	n = pf_heap_find(reader->h, source) ? put(to, 0, most / 2, source + l->l.string_text, u32(source + l->l.string_size)) : 0;
	line = u32(at + l->l.prototype_first);
	digits[--d] = 0;
	do
		digits[--d] = (char)('0' + line % 10);
	while (line /= 10);
	to[n++] = 0;
	n = put(to, n, most, (uintptr_t)(digits + d), sizeof digits - d);
	names = word(at + l->prototype_upvalues);
	for (unsigned i = u8(at + l->prototype_upvalues_n); names && i > 0; i--) {
		const size_t size = strlen((const char *)(uintptr_t)names) + 1;

		if (n + size > most)
			break;
		n = put(to, n, most, names, size);
		names += size;
	}
	return n;
}

static void done(struct pf_heap_reader *reader)
{
	pf_heap_drop(reader->h, &reader_of(reader)->traces);
}

void pf_heap_luajit_reader(struct pf_heap_luajit_reader *r, const struct pf_heap_luajit *l, uint64_t global)
{
	*r = (struct pf_heap_luajit_reader){
		.r = {.mark = mark, .roots = roots, .read = read, .text = text, .done = done}, .l = l, .global = global};
}
