/* See puc.h: the lists of the collector, and the edges of each object. */
#include "core/heap/puc.h"

#include <errno.h>

#include "core/heap/memory.h"

#define word pf_heap_word
#define u32 pf_heap_u32
#define u16 pf_heap_u16
#define u8 pf_heap_u8

static struct pf_heap_puc_reader *reader_of(struct pf_heap_reader *r)
{
	return (struct pf_heap_puc_reader *)r;
}

static enum pf_heap_type type_of(const struct pf_heap_puc_reader *r, uint64_t at)
{
	const struct pf_heap_puc *l = r->l;
	enum pf_heap_type type;

	if (l->upvalue_is_counted && pf_heap_find(&r->upvalues, at))
		return PF_HEAP_UPVALUE;
	type = l->types[u8(at + l->object_type)];
	return type == PF_HEAP_FUNCTION && u8(at + l->function_kind) == l->function_c ? PF_HEAP_C_FUNCTION : type;
}

static enum pf_heap_puc_value kind_of(const struct pf_heap_puc *l, uint64_t tag_at)
{
	return l->values[u8(tag_at)];
}

/* The object of the value at an address; 0 if it has none. */
static uint64_t object_of(const struct pf_heap_puc *l, uint64_t value)
{
	return kind_of(l, value + l->value_tag) == PF_HEAP_OBJECT ? word(value) : 0;
}

/* --- sizes ----------------------------------------------------------------------------------------------------------- */

uint64_t pf_heap_puc_items(const struct pf_heap_items *v, uint64_t in)
{
	return word(in + v->pointer) ? (uint64_t)u32(in + v->count) * v->size : 0;
}

static uint64_t string_length(const struct pf_heap_puc *l, uint64_t at)
{
	if (l->string_short_size != PF_HEAP_NOWHERE && u8(at + l->object_type) == l->string_short)
		return u8(at + l->string_short_size);
	return word(at + l->string_size);
}

static uint64_t array_n(const struct pf_heap_puc *l, uint64_t table)
{
	const uint32_t n = u32(table + l->table_array_n);

	if (n < 2 || !(u8(table + l->table_flags) & l->table_rounded))
		return n;
	return UINT64_C(2) << (31 - __builtin_clz(n - 1));
}

static uint64_t nodes_n(const struct pf_heap_puc *l, uint64_t table)
{
	return word(table + l->table_node) == l->no_node ? 0 : UINT64_C(1) << (u8(table + l->table_node_power) & 31);
}

static unsigned uservalues_n(const struct pf_heap_puc *l, uint64_t at)
{
	return l->userdata_value == PF_HEAP_NOWHERE ? 0 : l->userdata_values_n == PF_HEAP_NOWHERE ? 1 : u16(at + l->userdata_values_n);
}

static uint64_t userdata_size(const struct pf_heap_puc *l, uint64_t at)
{
	const unsigned n = l->userdata_values_n == PF_HEAP_NOWHERE ? 0 : u16(at + l->userdata_values_n);

	return (n ? l->userdata_bytes_more + (uint64_t)n * l->value_bytes : l->userdata_bytes) + word(at + l->userdata_n);
}

static uint64_t thread_size(const struct pf_heap_puc_reader *r, uint64_t at)
{
	const struct pf_heap_puc *l = r->l;
	const uint64_t stack = word(at + l->thread_stack);
	uint64_t size = at == r->global - l->main_below ? 0 : l->thread_bytes;

	if (stack)
		size += word(at + l->thread_stack_end) - stack + l->thread_stack_extra;
	if (l->thread_calls == PF_HEAP_NOWHERE)
		return size + pf_heap_puc_items(&l->call_items, at);
	for (uint64_t c = word(at + l->thread_calls); c; c = word(c + l->call_next))
		size += l->call_bytes;
	return size;
}

static uint64_t prototype_size(const struct pf_heap_puc *l, uint64_t at)
{
	uint64_t size = l->prototype_bytes;

	for (unsigned i = 0; i < l->prototype_items_n; i++)
		size += pf_heap_puc_items(&l->prototype_items[i], at);
	return size;
}

static uint64_t size_of(const struct pf_heap_puc_reader *r, enum pf_heap_type type, uint64_t at)
{
	const struct pf_heap_puc *l = r->l;

	switch (type) {
	case PF_HEAP_STRING:
		return l->string_text + string_length(l, at) + 1;
	case PF_HEAP_TABLE:
		return l->table_bytes + array_n(l, at) * l->value_bytes + nodes_n(l, at) * l->node_bytes;
	case PF_HEAP_FUNCTION:
		return l->function_upvalues + (uint64_t)u8(at + l->function_n) * sizeof(uint64_t);
	case PF_HEAP_C_FUNCTION:
		return l->function_c_upvalues + (uint64_t)u8(at + l->function_n) * l->value_bytes;
	case PF_HEAP_PROTOTYPE:
		return prototype_size(l, at);
	case PF_HEAP_UPVALUE:
		return l->upvalue_bytes;
	case PF_HEAP_THREAD:
		return thread_size(r, at);
	default:
		return userdata_size(l, at);
	}
}

/* --- all objects ----------------------------------------------------------------------------------------------------- */

static void mark_counted(struct pf_heap_puc_reader *r, uint64_t at)
{
	if (at && pf_heap_mark(r->r.h, at))
		pf_heap_mark(&r->upvalues, at);
}

/* Upvalues that are in no list of the collector. */
static void mark_upvalues(struct pf_heap_puc_reader *r, uint64_t at)
{
	const struct pf_heap_puc *l = r->l;
	const enum pf_heap_type type = l->types[u8(at + l->object_type)];

	if (type == PF_HEAP_THREAD && !l->upvalue_open_is_listed) {
		for (uint64_t up = word(at + l->thread_open); up; up = word(up + l->upvalue_next)) {
			if (l->upvalue_is_counted)
				mark_counted(r, up);
			else if (!pf_heap_mark(r->r.h, up))
				return;
		}
	} else if (type == PF_HEAP_FUNCTION && l->upvalue_is_counted && u8(at + l->function_kind) != l->function_c) {
		for (unsigned i = 0; i < u8(at + l->function_n); i++)
			mark_counted(r, word(at + l->function_upvalues + 8ull * i));
	}
}

static void mark_list(struct pf_heap_puc_reader *r, uint16_t place)
{
	if (place == PF_HEAP_NOWHERE)
		return;
	for (uint64_t at = word(r->global + place); at && pf_heap_mark(r->r.h, at); at = word(at))
		mark_upvalues(r, at);
}

static void mark(struct pf_heap_reader *reader)
{
	struct pf_heap_puc_reader *r = reader_of(reader);
	const struct pf_heap_puc *l = r->l;
	const uint64_t main = r->global - l->main_below, strings = word(r->global + l->global_strings);

	mark_list(r, l->global_objects);
	mark_list(r, l->global_finalizers);
	mark_list(r, l->global_finalizing);
	mark_list(r, l->global_fixed);
	if (pf_heap_mark(reader->h, main)) /* it is in the list of all objects in 5.1 */
		mark_upvalues(r, main);
	for (uint64_t i = 0; !l->strings_are_listed && i < u32(r->global + l->global_strings_n); i++)
		for (uint64_t at = word(strings + 8 * i); at && pf_heap_mark(reader->h, at); at = word(at))
			;
	if (r->upvalues.n)
		pf_heap_count(&r->upvalues);
	if (r->upvalues.failed && !reader->h->failed)
		reader->h->failed = r->upvalues.failed;
}

/* --- roots and parts ------------------------------------------------------------------------------------------------- */

static void add_parts(struct pf_heap_puc_reader *r)
{
	const struct pf_heap_puc *l = r->l;
	struct pf_heap *h = r->r.h;

	h->counted = word(r->global + l->global_total) + (l->global_debt == PF_HEAP_NOWHERE ? 0 : word(r->global + l->global_debt));
	pf_heap_part(h, PF_HEAP_STATE, l->state_bytes);
	pf_heap_part(h, PF_HEAP_STRINGS, (uint64_t)u32(r->global + l->global_strings_n) * sizeof(uint64_t));
	if (l->buffer.size && word(r->global + l->buffer.pointer))
		pf_heap_part(h, PF_HEAP_BUFFER, word(r->global + l->buffer.count));
}

static void root_list(struct pf_heap_puc_reader *r, uint16_t place, enum pf_heap_root root)
{
	const uint64_t first = place == PF_HEAP_NOWHERE ? 0 : word(r->global + place);

	for (uint64_t at = first; at; at = word(at) == first ? 0 : word(at)) /* that of finalizers is a circle in 5.1 */
		pf_heap_edge(r->r.h, at, PF_HEAP_BY_ROOT, root);
}

static void root_strings(struct pf_heap_puc_reader *r)
{
	const struct pf_heap_puc *l = r->l;
	const uint64_t strings = word(r->global + l->global_strings);

	for (uint64_t i = 0; i < u32(r->global + l->global_strings_n); i++)
		for (uint64_t at = word(strings + 8 * i); at; at = word(at))
			if (u8(at + l->object_marks) & l->flag_fixed)
				pf_heap_edge(r->r.h, at, PF_HEAP_BY_ROOT, PF_HEAP_FIXED);
}

static void roots(struct pf_heap_reader *reader)
{
	struct pf_heap_puc_reader *r = reader_of(reader);
	const struct pf_heap_puc *l = r->l;
	struct pf_heap *h = reader->h;
	const uint64_t main = r->global - l->main_below;

	h->payload[PF_HEAP_STRING] = l->string_text;
	h->payload[PF_HEAP_USERDATA] = l->userdata_bytes;
	h->payload_more = l->userdata_bytes_more;
	add_parts(r);
	pf_heap_edge(h, reader->globals, PF_HEAP_BY_ROOT, PF_HEAP_GLOBALS);
	pf_heap_edge(h, reader->loaded, PF_HEAP_BY_ROOT, PF_HEAP_LOADED);
	pf_heap_edge(h, object_of(l, r->global + l->global_registry), PF_HEAP_BY_ROOT, PF_HEAP_REGISTRY);
	pf_heap_edge(h, main, PF_HEAP_BY_ROOT, PF_HEAP_MAIN);
	if (reader->running != main)
		pf_heap_edge(h, reader->running, PF_HEAP_BY_ROOT, PF_HEAP_RUNNING);
	for (unsigned i = 0; i < l->global_metatables_n; i++)
		pf_heap_edge(h, word(r->global + l->global_metatables + 8ull * i), PF_HEAP_BY_ROOT, PF_HEAP_INTERNAL);
	root_list(r, l->global_finalizing, PF_HEAP_FINALIZER);
	root_list(r, l->global_fixed, PF_HEAP_FIXED);
	if (l->global_fixed == PF_HEAP_NOWHERE)
		root_strings(r);
}

/* --- edges ----------------------------------------------------------------------------------------------------------- */

/* Is this object, which may be gone, a string? */
static int is_string(const struct pf_heap_puc_reader *r, uint64_t object)
{
	return pf_heap_find(r->r.h, object) && type_of(r, object) == PF_HEAP_STRING;
}

enum { WEAK_KEYS = 1, WEAK_VALUES = 2 };

/* The field __mode of a metatable, as bits. The metatable of a dead table may be gone. */
static int weakness(const struct pf_heap_puc_reader *r, uint64_t metatable)
{
	static const char name[] = "__mode";
	const struct pf_heap_puc *l = r->l;
	uint64_t node;
	int weak = 0;

	if (!pf_heap_find(r->r.h, metatable) || type_of(r, metatable) != PF_HEAP_TABLE)
		return 0;
	node = word(metatable + l->table_node);
	for (uint64_t i = nodes_n(l, metatable); i > 0; i--, node += l->node_bytes) {
		const uint64_t key = kind_of(l, node + l->node_key_tag) == PF_HEAP_OBJECT ? word(node + l->node_key) : 0;
		const uint64_t value = object_of(l, node + l->node_value);

		if (!is_string(r, key) || string_length(l, key) != sizeof name - 1 ||
		    memcmp((const void *)(uintptr_t)(key + l->string_text), name, sizeof name - 1) != 0)
			continue;
		if (!is_string(r, value))
			return 0;
		for (const char *s = (const char *)(uintptr_t)(value + l->string_text); *s; s++)
			weak |= *s == 'k' ? WEAK_KEYS : *s == 'v' ? WEAK_VALUES : 0;
		return weak;
	}
	return 0;
}

/* The object of a value; 0 if the table does not hold it. Strings are held as long as the entry exists. */
static uint64_t held(const struct pf_heap_puc_reader *r, uint64_t object, int weak)
{
	return object && weak && !is_string(r, object) ? 0 : object;
}

static void read_node(const struct pf_heap_puc_reader *r, uint64_t node, int weak)
{
	const struct pf_heap_puc *l = r->l;
	struct pf_heap *h = r->r.h;
	const uint64_t key = word(node + l->node_key), to = held(r, object_of(l, node + l->node_value), weak & WEAK_VALUES);
	const enum pf_heap_puc_value kind = kind_of(l, node + l->node_key_tag);
	enum pf_heap_label label = PF_HEAP_BY_KEY;

	if (kind_of(l, node + l->node_value + l->value_tag) == PF_HEAP_NIL)
		return;
	switch (kind) {
	case PF_HEAP_OBJECT:
		if (!held(r, key, weak & WEAK_KEYS))
			label = l->has_ephemerons ? PF_HEAP_BY_EPHEMERON : PF_HEAP_BY_WEAK_KEY;
		pf_heap_edge_key(h, to, label, key);
		break;
	case PF_HEAP_FALSE:
	case PF_HEAP_TRUE:
	case PF_HEAP_BOOLEAN:
		pf_heap_edge_value(h, to, PF_HEAP_BOOLEAN_KEY, kind == PF_HEAP_BOOLEAN ? (uint32_t)key : kind == PF_HEAP_TRUE);
		break;
	case PF_HEAP_INTEGER:
		pf_heap_edge_value(h, to, PF_HEAP_INTEGER_KEY, key);
		break;
	case PF_HEAP_FLOAT:
		pf_heap_edge_value(h, to, PF_HEAP_NUMBER_KEY, key);
		break;
	default:
		pf_heap_edge_value(h, to, PF_HEAP_POINTER_KEY, key);
	}
}

static void read_table(const struct pf_heap_puc_reader *r, uint64_t at)
{
	const struct pf_heap_puc *l = r->l;
	struct pf_heap *h = r->r.h;
	const uint64_t metatable = word(at + l->table_metatable), main = r->global - l->main_below;
	const int weak = metatable ? weakness(r, metatable) : 0;
	const uint64_t array = word(at + l->table_array), n = array_n(l, at), nodes = nodes_n(l, at);
	uint64_t node = word(at + l->table_node);

	pf_heap_edge(h, metatable, PF_HEAP_BY_METATABLE, 0);
	for (uint64_t i = 0; i < n; i++) {
		const uint64_t to = held(r, object_of(l, array + i * l->value_bytes), weak & WEAK_VALUES);

		/* The registry has the main thread too. By that way its stack would be a short path to what does not belong there. */
		if (to && to != main)
			pf_heap_edge(h, to, PF_HEAP_BY_INDEX, i + 1);
	}
	for (uint64_t i = 0; i < nodes; i++, node += l->node_bytes)
		read_node(r, node, weak);
}

static void read_environment(const struct pf_heap_puc_reader *r, uint64_t at, uint16_t place)
{
	if (place != PF_HEAP_NOWHERE)
		pf_heap_edge(r->r.h, word(at + place), PF_HEAP_BY_ENVIRONMENT, 0);
}

static void read_function(const struct pf_heap_puc_reader *r, uint64_t at, int is_lua)
{
	const struct pf_heap_puc *l = r->l;
	struct pf_heap *h = r->r.h;

	if (is_lua)
		pf_heap_edge(h, word(at + l->function_prototype), PF_HEAP_BY_PROTOTYPE, 0);
	for (unsigned i = 0; i < u8(at + l->function_n); i++)
		pf_heap_edge(h, is_lua ? word(at + l->function_upvalues + 8ull * i)
					: object_of(l, at + l->function_c_upvalues + (uint64_t)i * l->value_bytes),
			     PF_HEAP_BY_UPVALUE, i + 1);
	read_environment(r, at, l->function_env);
}

static void read_prototype(const struct pf_heap_puc_reader *r, uint64_t at)
{
	const struct pf_heap_puc *l = r->l;
	uint64_t number = 1;

	pf_heap_edge(r->r.h, word(at + l->prototype_source), PF_HEAP_BY_CONSTANT, 0);
	for (unsigned i = 0; i < l->prototype_items_n; i++) {
		const struct pf_heap_items *v = &l->prototype_items[i];
		const uint64_t from = word(at + v->pointer), end = from + pf_heap_puc_items(v, at);

		for (uint64_t item = from; v->role != PF_HEAP_ITEMS_BYTES && item < end; item += v->size)
			pf_heap_edge(r->r.h, v->role == PF_HEAP_ITEMS_VALUES ? object_of(l, item) : word(item), PF_HEAP_BY_CONSTANT, number++);
	}
}

static void read_thread(const struct pf_heap_puc_reader *r, uint64_t at)
{
	const struct pf_heap_puc *l = r->l;
	const uint64_t stack = word(at + l->thread_stack), top = word(at + l->thread_top);

	for (uint64_t slot = stack; stack && slot < top; slot += l->value_bytes)
		pf_heap_edge(r->r.h, object_of(l, slot), PF_HEAP_BY_SLOT, (slot - stack) / l->value_bytes);
	if (l->thread_holds_open)
		for (uint64_t up = word(at + l->thread_open); pf_heap_find(r->r.h, up); up = word(up + l->upvalue_next))
			pf_heap_edge(r->r.h, up, PF_HEAP_BY_CONTENT, 0);
	if (l->thread_env != PF_HEAP_NOWHERE)
		pf_heap_edge(r->r.h, object_of(l, at + l->thread_env), PF_HEAP_BY_ENVIRONMENT, 0);
}

static void read_userdata(const struct pf_heap_puc_reader *r, uint64_t at)
{
	const struct pf_heap_puc *l = r->l;
	const unsigned n = uservalues_n(l, at);

	pf_heap_edge(r->r.h, word(at + l->userdata_metatable), PF_HEAP_BY_METATABLE, 0);
	read_environment(r, at, l->userdata_env);
	for (unsigned i = 0; i < n; i++) {
		const uint64_t from = at + (uint64_t)i * l->value_bytes;

		if (l->userdata_value_tag == PF_HEAP_NOWHERE || kind_of(l, from + l->userdata_value_tag) == PF_HEAP_OBJECT)
			pf_heap_edge(r->r.h, word(from + l->userdata_value), PF_HEAP_BY_USERVALUE, i + 1);
	}
}

static void read(struct pf_heap_reader *reader, uint32_t i, uint64_t at)
{
	struct pf_heap_puc_reader *r = reader_of(reader);
	const enum pf_heap_type type = type_of(r, at);

	if (type == PF_HEAP_ROOT) {
		reader->h->failed = -EBADMSG;
		return;
	}
	pf_heap_types(reader->h)[i] = (uint8_t)type;
	pf_heap_sizes(reader->h)[i] = size_of(r, type, at);
	switch (type) {
	case PF_HEAP_TABLE:
		read_table(r, at);
		break;
	case PF_HEAP_FUNCTION:
	case PF_HEAP_C_FUNCTION:
		read_function(r, at, type == PF_HEAP_FUNCTION);
		break;
	case PF_HEAP_PROTOTYPE:
		read_prototype(r, at);
		break;
	case PF_HEAP_UPVALUE:
		pf_heap_edge(reader->h, object_of(r->l, word(at + r->l->upvalue_value)), PF_HEAP_BY_CONTENT, 0);
		break;
	case PF_HEAP_THREAD:
		read_thread(r, at);
		break;
	case PF_HEAP_USERDATA:
		read_userdata(r, at);
		break;
	default: /* a string */
		break;
	}
}

/* --- texts ----------------------------------------------------------------------------------------------------------- */

static size_t put_string(const struct pf_heap_puc_reader *r, uint64_t at, char *to, size_t n, size_t most)
{
	uint64_t size = is_string(r, at) ? string_length(r->l, at) : 0;

	if (size > most - n)
		size = most - n;
	memcpy(to + n, (const void *)(uintptr_t)(at + r->l->string_text), (size_t)size);
	return n + (size_t)size;
}

/* A prototype's text is its chunk's name, the line of its definition and the names of its upvalues, each with a zero byte. */
static size_t text(struct pf_heap_reader *reader, uint64_t at, char *to, size_t most)
{
	enum { NAME = 60 };
	const struct pf_heap_puc_reader *r = reader_of(reader);
	const struct pf_heap_puc *l = r->l;
	uint32_t line;
	char digits[12];
	size_t n, d = sizeof digits;

	if (type_of(r, at) == PF_HEAP_STRING)
		return put_string(r, at, to, 0, most);
	n = put_string(r, word(at + l->prototype_source), to, 0, most / 2);
	to[n++] = 0;
	line = u32(at + l->prototype_line);
	digits[--d] = 0;
	do
		digits[--d] = (char)('0' + line % 10);
	while (line /= 10);
	memcpy(to + n, digits + d, sizeof digits - d);
	n += sizeof digits - d;
	for (unsigned i = 0; i < l->prototype_items_n; i++) {
		const struct pf_heap_items *v = &l->prototype_items[i];
		const uint64_t from = word(at + v->pointer), end = from + pf_heap_puc_items(v, at);

		for (uint64_t item = from; v->pointer == l->prototype_names && item < end && n + NAME < most; item += v->size) {
			n = put_string(r, word(item), to, n, n + NAME - 1);
			to[n++] = 0;
		}
	}
	return n;
}

static void done(struct pf_heap_reader *reader)
{
	pf_heap_free(&reader_of(reader)->upvalues);
}

void pf_heap_puc_reader(struct pf_heap_puc_reader *r, const struct pf_heap_puc *l, uint64_t global)
{
	*r = (struct pf_heap_puc_reader){.r = {.mark = mark, .roots = roots, .read = read, .text = text, .done = done}, .l = l, .global = global};
}
