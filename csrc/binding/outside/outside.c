/* Collector: profiles other processes that run the same interpreter as this one. See core/outside/collector.h. */
#include "core/outside/collector.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/thread.h"
#include "binding/stack/stack.h"

#define PB_COLLECTOR "perf.Collector"

/* The layout of this interpreter, and in *global the global state of L. Returns 0, or -errno with the reason in *why. */
static int this_interpreter(lua_State *L, struct pf_interpreter *i, uint64_t *global, const char **why)
{
	struct pb_stack stack = {.global = 0};
	const int r = pb_unwind_start(L, &stack, why);

	memset(i, 0, sizeof *i);
	i->is_puc = !PB_LUAJIT;
#if PB_LUAJIT
	i->luajit = stack.layout;
#else
	i->puc = stack.layout;
#endif
	*global = stack.global;
	return r;
}

/* core.snapshot_layout(resumers, native): the variable `layout` of the BPF program, and the global state of this Lua state; or nil,
 * message, code. resumers: also the threads that have resumed the running one; native: what native frames are found by. */
static int l_snapshot_layout(lua_State *L)
{
	struct pf_snapshot_layout layout = {.resumers = (uint32_t)lua_toboolean(L, 1), .native = (uint32_t)lua_toboolean(L, 2)};
	struct pf_interpreter i;
	const char *why;
	struct stat st;
	uint64_t global;
	int r = this_interpreter(L, &i, &global, &why);

	if (r < 0)
		return pb_refuse(L, r, "%s", why);
	r = pf_states_layout(&i, &layout);
	if (r < 0)
		return pb_refuse(L, r, "the interpreter's structures are larger than the BPF program expects");
	if (stat("/proc/self/ns/pid", &st) == 0)
		layout.namespace_inode = st.st_ino;
	pb_bytes(L, &layout, sizeof layout);
	pb_push_u64(L, global);
	return 2;
}

static struct pf_collector *check(lua_State *L)
{
	return pb_check(L, 1, PB_COLLECTOR, "Collector");
}

/* The descriptor of a map, from the table at index 1. */
static int map(lua_State *L, const char *name)
{
	int fd;

	lua_getfield(L, 1, name);
	fd = (int)luaL_checkinteger(L, -1);
	lua_pop(L, 1);
	return fd;
}

/* core.collector(maps, size, cpus, alone, native): a Collector that reads the maps of the BPF program, which stay open;
 * or nil, message, code. maps: their descriptors by name; size: the ring's bytes; cpus: how many values an entry of a
 * per-CPU map has; alone: a coroutine is shown without its resumers; native: with native frames. */
static int l_collector(lua_State *L)
{
	const struct pf_snapshot_maps maps = {.ring = map(L, "ring"), .processes = map(L, "processes"), .known = map(L, "known"),
					      .stacks = map(L, "stacks"), .generations = map(L, "generations"),
					      .counts = map(L, "counts"), .switches = map(L, "switches")};
	const size_t size = (size_t)luaL_checkinteger(L, 2);
	const unsigned cpus = (unsigned)luaL_checkinteger(L, 3);
	struct pf_interpreter i;
	struct pf_collector *c;
	const char *why;
	uint64_t global;
	int r = this_interpreter(L, &i, &global, &why);

	if (r < 0)
		return pb_refuse(L, r, "%s", why);
	c = pb_new(L, sizeof *c, PB_COLLECTOR);
	r = pf_collector_init(c, &i, &maps, size, cpus);
	c->alone = lua_toboolean(L, 4);
	c->native = lua_toboolean(L, 5);
	if (r == 0)
		return 1;
	pf_collector_free(c);
	return pb_fail(L, r, "collector");
}

/* A hook of Lua that was not there when the search began: the interpreter sets it at SIGINT, to raise an error. */
struct hook {
	lua_State *L;
	lua_Hook before;
};

static int is_interrupted(void *owner)
{
	const struct hook *hook = owner;

	return lua_gethook(hook->L) != hook->before;
}

/* collector:attach(pid): the number of its Lua states; or nil, message, code. Before the start. */
static int l_attach(lua_State *L)
{
	struct pf_collector *c = check(L);
	struct hook hook = {L, lua_gethook(L)};
	const int r = pf_collector_attach(c, (pid_t)luaL_checkinteger(L, 2), &(struct pf_search_end){is_interrupted, &hook});

	return r < 0 ? pb_fail(L, r, "process %d", (int)lua_tointeger(L, 2)) : pb_int(L, r);
}

static int l_start(lua_State *L)
{
	struct pf_collector *c = check(L);

	luaL_argcheck(L, c->reader && !c->started, 1, "Collector has been started before");
	return pb_result(L, pf_collector_start(c), "pthread_create");
}

static int l_stop(lua_State *L)
{
	pf_collector_stop(check(L));
	return pb_bool(L, 1);
}

/* collector:state(): "new", "running", "inherited", "stopped" or "closed". */
static int l_state(lua_State *L)
{
	const struct pf_collector *c = check(L);

	lua_pushstring(L, !c->reader                        ? "closed"
			  : pf_inherited(c->generation)      ? "inherited"
			  : c->running                       ? "running"
			  : c->started                       ? "stopped"
							     : "new");
	return 1;
}

/* collector:result(), after the stop; collector:snapshot(), of a running one, so far: the fields of pb_set_stacks and
 * pb_set_failures, and
 *
 *   samples, sum     the samples that were read, and their weight; resolved: those of them with a stack
 *   unsampled, unsampled_count    the weight and number of those for which there was no memory
 *   off_ns           the weight of threads that are off their CPU
 *   dropped, dropped_weight    the number and weight of those for which there was no memory to read them
 *   ns, memory       the CPU time of the collector's thread; bytes of the stacks
 *   images           array of {pid =, maps =, file =}, by the number `image` of a frame. file: whether it is a file; then maps is
 *                    its mapping, and the frame's address an offset in it. Otherwise maps has all mappings of a process, and is
 *                    "" if the process has ended */
static int result(lua_State *L)
{
	const struct pf_collector *c = lua_touserdata(L, 1);

	lua_createtable(L, 0, 13);
	pb_set_stacks(L, &c->stacks, NULL);
	pb_set_failures(L, c->failures);
	pb_set_u64(L, "sum", c->sum);
	pb_set_u64(L, "samples", c->samples);
	pb_set_u64(L, "resolved", c->resolved);
	pb_set_u64(L, "unsampled", pf_stacks_sum_at(&c->stacks, 0)->weight);
	pb_set_u64(L, "unsampled_count", pf_stacks_sum_at(&c->stacks, 0)->count);
	pb_set_u64(L, "dropped", c->dropped);
	pb_set_u64(L, "dropped_weight", c->dropped_weight);
	pb_set_u64(L, "ns", c->ns);
	pb_set_u64(L, "off_ns", c->off_ns);
	pb_set_u64(L, "memory", pf_stacks_memory(&c->stacks));
	lua_createtable(L, (int)c->images_n, 0);
	for (unsigned i = 0; i < c->images_n; i++) {
		lua_createtable(L, 0, 3);
		pb_set_int(L, "pid", c->images[i].pid);
		pb_set_text(L, "maps", c->images[i].maps ? c->images[i].maps : "");
		pb_set_bool(L, "file", c->images[i].inode != 0);
		lua_rawseti(L, -2, (int)i + 1);
	}
	lua_setfield(L, -2, "images");
	return 1;
}

static int l_result(lua_State *L)
{
	const struct pf_collector *c = check(L);

	luaL_argcheck(L, c->reader && !c->running, 1, "Collector is running or closed");
	return result(L);
}

static int l_snapshot(lua_State *L)
{
	struct pf_collector *c = check(L);
	int raised;

	luaL_argcheck(L, c->running && !pf_inherited(c->generation), 1, "Collector is not running");
	lua_settop(L, 1);
	lua_pushcfunction(L, result);
	lua_insert(L, 1);
	pf_collector_pause(c);
	raised = lua_pcall(L, 1, 1, 0);
	pf_collector_resume(c);
	return raised ? lua_error(L) : 1;
}

static int l_close(lua_State *L)
{
	pf_collector_free(check(L));
	return 0;
}

void pb_open_outside(lua_State *L)
{
	static const luaL_Reg functions[] = {{"snapshot_layout", l_snapshot_layout}, {"collector", l_collector}, {NULL, NULL}};
	static const luaL_Reg methods[] = {{"attach", l_attach}, {"start", l_start}, {"stop", l_stop},   {"state", l_state},
					   {"result", l_result}, {"snapshot", l_snapshot}, {"close", l_close}, {NULL, NULL}};

	pb_register(L, functions);
	pb_new_class(L, PB_COLLECTOR, methods, l_close);
}
