/* The layout of LuaJIT's structures, for 64-bit machines with 64-bit references to objects (GC64). A place is a distance in bytes
 * from the start of the structure, unless another start is named. */
#ifndef PF_UNWIND_LUAJIT_H
#define PF_UNWIND_LUAJIT_H

#include "core/stack/unwind.h"

/* 1 if the unwinder supports this machine. */
#if (defined(__x86_64__) || defined(__aarch64__)) && defined(__LP64__)
#define PF_UNWIND_LUAJIT_HERE 1
#else
#define PF_UNWIND_LUAJIT_HERE 0
#endif

struct pf_code;

struct pf_luajit_layout {
	/* A thread. */
	uint16_t thread_global, thread_base, thread_stack, thread_slots, thread_cframe;
	/* The interpreter's frame on the C stack. */
	uint16_t cframe_previous, cframe_pc, cframe_thread, cframe_results;
	/* The global state, and how far below it the main thread lies. */
	uint16_t global_vmstate, global_running, main_below;
	/* Objects: the byte that has their type; a function's number (0: Lua), its first instruction and its C code. */
	uint16_t object_type, function_id, function_code, function_c;
	/* A string. */
	uint16_t string_size, string_text;
	/* A prototype, which ends where its code begins. */
	uint16_t prototype_n, prototype_source, prototype_first, prototype_lines, prototype_lineinfo, prototype_end;
	/* Types, as the upper 17 bits of a value and as the byte in an object. */
	uint32_t tag_function, tag_thread;
	uint8_t type_prototype, type_function, type_thread, type_trace;
	/* Instructions. */
	uint8_t op_jump, op_tailcall_first, op_tailcall_last, op_return_first, op_return_last, op_c_first, op_c_last, op_table,
		op_filled_table, op_concatenate, op_call_first, op_call_last;

	/* Compiled code; `traces` is 0 if the compiler was off, so that its layout is unknown. In the global state: the base of
	 * the frame that compiled code runs in; the array of traces, and its length. */
	uint16_t trace_base, traces, traces_n;
	/* A trace. */
	uint16_t trace_snapshots_n, trace_ir, trace_ir_low, trace_map_n, trace_snapshots, trace_map, trace_start, trace_start_ins,
		trace_code_size, trace_code, trace_loop, trace_adjust, trace_number, trace_link;
	/* The compiler's opcode for an empty table, from which the opcodes of other allocations are counted; 0 if they are
	 * unknown. */
	uint8_t ir_table;
	/* In the compiler's state, which follows the global state: the number of the trace that was left last; the number of the
	 * exit follows. 0 if unknown. */
	uint16_t trace_exit;
	const struct pf_code *code; /* of LuaJIT, and of the C functions that it calls; not NULL if trace_exit is known */
};

#endif
