/* The parts of the module. pb_open_NAME adds functions and classes to the module's table, which is on top of the stack. A file
 * that adds methods to a class of another file comes after that file. */
#ifndef PB_OPEN_H
#define PB_OPEN_H

#include <lua.h>

#define PB_OPEN(X) \
	X(error) X(int64) X(attr) X(event) X(record) X(ring) X(ring_wait) X(ring_lost) X(ring_output) X(ring_source) X(packed) X(layouts) X(data) X(data_source) \
	X(data_write) X(tally) X(synth) X(process) X(terminate) X(output) X(meter) X(counts) X(guard) \
	X(measure) X(accounting) X(defs) X(host) X(trace) X(channel) X(thread) X(bpf) X(profiler) \
	X(web_files) X(peek)

#define X(name) void pb_open_##name(lua_State *L);
PB_OPEN(X)
#undef X

#endif
