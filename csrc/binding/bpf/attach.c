/* Event's methods for BPF programs, which run at each overflow or hit of an event. The programs are loaded by perf.bpf
 * (csrc/ext/bpf/bpf.c) or by any other code that has a program's descriptor. */
#include <errno.h>

#include "binding/event/event.h"

/* The kernel's limit of programs on one tracepoint (BPF_TRACE_MAX_PROGS); it refuses a longer query. */
#define MOST_PROGRAMS 64

/* The meaning of each errno of PERF_EVENT_IOC_SET_BPF. */
static const char *set_hint(int err)
{
	switch (err) {
	case -EBADF:
		return "the descriptor is not open: was the object it came from closed?";
	case -EINVAL:
		return "not a BPF program's descriptor, or a program of a type that this event does not run: "
		       "tracepoints take \"tracepoint\" programs, kprobes and uprobes \"kprobe\" ones, "
		       "all other events \"perf_event\" ones";
	case -EEXIST:
		return "the event has a program already";
	case -E2BIG:
		return "the tracepoint has as many programs as the kernel allows";
	case -EACCES:
		return "the program reads more of its context than this event has";
	case -EPERM:
		return "needs CAP_PERFMON or root";
	case -EPROTO:
		return "the program asks for call chains and the event does not sample them: "
		       "add \"callchain\" to its sample_type";
	default:
		return NULL;
	}
}

/*** @classmod Event */

/*** Run a BPF program at each hit. The kernel keeps the program until the event is closed; on tracepoints and probes it runs until
 * then, for every task, also while the event is disabled.
 * @tparam table|integer program of `BpfObject:program`, or its descriptor
 * @treturn boolean true @fails "EPERM" without CAP_PERFMON, "EEXIST" if the event has one, "EINVAL" for one of another type ...
 * */
static int l_set_bpf(lua_State *L)
{
	struct pf_counter *ev = pb_check_event(L, 1);
	const char *hint;
	int fd, r;

	if (lua_istable(L, 2)) {
		lua_getfield(L, 2, "fd");
		if (lua_isnil(L, -1))
			return luaL_argerror(L, 2, "table without fd: is the program's object closed?");
		lua_replace(L, 2);
	}
	fd = (int)pb_check_u64(L, 2, INT32_MAX);
	pf_own_filter(ev);
	r = pf_counter_ioctl(ev, PF_IOC_SET_BPF, (unsigned long)fd);
	hint = set_hint(r);
	if (r < 0 && hint)
		return pb_fail(L, r, "set_bpf(%d): %s", fd, hint);
	return pb_result(L, r, "set_bpf");
}

/*** The BPF programs on the event's tracepoint, including those of other processes.
 * @tparam[opt=64] integer max the largest number of ids
 * @treturn {integer,...} ids
 * @treturn integer the number of all programs @fails "EINVAL" if it is not a tracepoint or probe, "EPERM" without CAP_PERFMON */
static int l_query_bpf(lua_State *L)
{
	struct pf_counter *ev = pb_check_event(L, 1);
	uint64_t max = lua_isnoneornil(L, 2) ? MOST_PROGRAMS : pb_check_u64(L, 2, UINT32_MAX);
	struct {
		uint32_t ids_len, prog_cnt; /* struct perf_event_query_bpf */
		uint32_t ids[MOST_PROGRAMS];
	} q = {.ids_len = (uint32_t)(max < MOST_PROGRAMS ? max : MOST_PROGRAMS)};
	int r = pf_counter_ioctl_ptr(ev, PF_IOC_QUERY_BPF, &q);

	if (r == -EINVAL)
		return pb_fail(L, r, "query_bpf: only tracepoints, kprobes and uprobes can be asked");
	if (r == -EPERM)
		return pb_fail(L, r, "query_bpf: needs CAP_PERFMON or root");
	/* ENOSPC: there are more programs than max; the first max ids were stored. */
	if (r < 0 && r != -ENOSPC)
		return pb_fail(L, r, "query_bpf");
	lua_newtable(L);
	for (uint32_t i = 0; i < q.ids_len && i < q.prog_cnt; i++) {
		pb_push_u64(L, q.ids[i]);
		lua_rawseti(L, -2, (int)i + 1);
	}
	pb_push_u64(L, q.prog_cnt);
	return 2;
}

void pb_open_bpf(lua_State *L)
{
	static const luaL_Reg methods[] = {{"set_bpf", l_set_bpf}, {"query_bpf", l_query_bpf}, {NULL, NULL}};

	pb_extend(L, "Event", methods);
}
