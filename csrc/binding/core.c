/* The C surface of the module on one screen: each file adds its functions and classes. */
#include "binding/base/binding.h"

__attribute__((visibility("default"))) int luaopen_perf_core(lua_State *L);

int luaopen_perf_core(lua_State *L)
{
	lua_newtable(L);
	pb_open_error(L);
	pb_open_int64(L);
	pb_open_attr(L);
	pb_open_event(L);
	pb_open_record(L);
	pb_open_ring(L);
	pb_open_packed(L);
	pb_open_layouts(L);
	pb_open_record_defs(L);
	pb_open_data(L);
	pb_open_data_write(L);
	pb_open_tally(L);
	pb_open_synth(L);
	pb_open_process(L);
	pb_open_terminate(L);
	pb_open_output(L);
	pb_open_meter(L);
	pb_open_counts(L);
	pb_open_guard(L);
	pb_open_measure(L);
	pb_open_ledger(L);
	pb_open_defs(L);
	pb_open_host(L);
	pb_open_trace(L);
	pb_open_channel(L);
	pb_open_thread(L);
	pb_open_bpf(L);
	pb_open_msr(L);
	pb_open_profiler(L);
	pb_open_web_files(L);
	return 1;
}
