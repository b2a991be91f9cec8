/* Profiler: a sampler, and this interpreter's engine, which finds the stacks. Its uservalue keeps the Event alive. */
#include "core/profile/sampler.h"
#include "binding/event/event.h"
#include "binding/stack/stack.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/peek.h"

#define PB_PROFILER "perf.Profiler"
#define PB_LIFETIME "perf.lifetime"

/* One in each Lua state, from the loading of the module to the state's close. */
struct pb_lifetime {
	lua_State *main; /* its main thread; NULL if Lua 5.1 does not have it */
	struct pb_profiler *running; /* the first of those that run, linked by `next` */
	int closing;
};

struct pb_profiler {
	struct pf_sampler s;
	struct pb_stack stack;
	struct pb_lifetime *lifetime; /* of its Lua state */
	struct pb_profiler *next;
	int safe_point; /* its stacks are taken at safe points, not unwound */
};

static struct pb_profiler *check_profiler(lua_State *L)
{
	return pb_check(L, 1, PB_PROFILER, "Profiler");
}

static int option(lua_State *L, const char *name)
{
	int v;

	lua_getfield(L, 2, name);
	v = lua_toboolean(L, -1);
	lua_pop(L, 1);
	return v;
}

static uint64_t address(lua_State *L, const char *name)
{
	uint64_t v = 0;
	int negative = 0;

	lua_getfield(L, 2, name);
	if (!lua_isnil(L, -1) && !pb_to_u64(L, -1, &v, &negative))
		luaL_argerror(L, 2, name);
	lua_pop(L, 1);
	return v;
}

/* Release the resources that prepare has taken, and the claim. */
static void give_back(lua_State *L, struct pb_profiler *p)
{
	pb_marks_give(L, &p->stack);
	if (!p->safe_point)
		return;
	pb_engine_stop(L, &p->stack);
	pb_coroutines_give_back(L, &p->stack);
	pf_sampling_disclaim(&p->s.at);
}

static int stop(lua_State *L, struct pb_profiler *p)
{
	struct pb_profiler **link = &p->lifetime->running;
	int r;

	if (!p->s.at.running)
		return 0;
	r = pf_sampler_stop(&p->s);
	give_back(L, p);
	while (*link && *link != p)
		link = &(*link)->next;
	if (*link)
		*link = p->next;
	return r;
}

/* The state closes. A profiler that a finalizer started meanwhile may never be collected, but must not outlive the state. It is
 * stopped here, since this object is older than all profilers and is therefore finalized after them. */
static int l_state_closes(lua_State *L)
{
	struct pb_lifetime *life = lua_touserdata(L, 1);

	life->closing = 1;
	while (life->running)
		stop(L, life->running);
	return 0;
}

/* Pushes the state's one struct pb_lifetime; made when the module is loaded. */
static struct pb_lifetime *push_lifetime(lua_State *L)
{
	struct pb_lifetime *life;

	lua_getfield(L, LUA_REGISTRYINDEX, PB_LIFETIME);
	if (lua_isuserdata(L, -1))
		return lua_touserdata(L, -1);
	lua_pop(L, 1);
	life = pb_newuserdata(L, sizeof *life);
	memset(life, 0, sizeof *life);
#if LUA_VERSION_NUM >= 502
	lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_MAINTHREAD);
	life->main = lua_tothread(L, -1);
#else
	life->main = lua_pushthread(L) ? L : NULL; /* the module is hardly ever loaded in a coroutine */
#endif
	lua_createtable(L, 0, 1);
	lua_pushcfunction(L, l_state_closes);
	lua_setfield(L, -2, "__gc");
	lua_setmetatable(L, -3);
	lua_pop(L, 1);
	lua_pushvalue(L, -1);
	lua_setfield(L, LUA_REGISTRYINDEX, PB_LIFETIME);
	return life;
}

/* Stacks are unwound, or taken at safe points. core.unwinds() has said that the former is possible. */
static void choose_method(lua_State *L, struct pb_profiler *p)
{
	const char *why;

	p->safe_point = option(L, "safe_point");
	if (!p->safe_point && pb_unwind_start(L, &p->stack, &why) < 0)
		luaL_error(L, "stacks cannot be unwound");
	p->s.classify = pb_engine_classify;
	p->s.trigger = pb_engine_trigger;
	p->s.unwind = p->safe_point ? NULL : pb_unwind;
	p->s.hidden = &p->stack.hidden;
	p->s.alone = p->stack.coroutines == PB_COROUTINES_ALONE;
}

/* core.profiler(event, {exact=, switches=, native=, may_ask=, by_descriptor=, coroutines=, hidden=, code_start=, code_end=,
 * timeline=, safe_point=}): a Profiler; or nil, message, code. coroutines: "alone", "resumer" or "creator"; hidden are two sources whose
 * functions are not shown; code_start to code_end is the interpreter's code; timeline: how many samples are kept one by one. */
static int l_profiler(lua_State *L)
{
	static const char *const coroutines[] = {"alone", "resumer", "creator", NULL};
	struct pf_counter *event = pb_check_event(L, 1);
	struct pb_profiler *p;
	int r;

	luaL_checktype(L, 2, LUA_TTABLE);
	lua_settop(L, 2);
	p = pb_new(L, sizeof *p, PB_PROFILER);
	lua_createtable(L, PB_KEPT_LIFETIME, 0);
	lua_pushvalue(L, 1);
	lua_rawseti(L, -2, PB_KEPT_EVENT);
	p->lifetime = push_lifetime(L);
	lua_rawseti(L, -2, PB_KEPT_LIFETIME);
	pb_setuservalue(L, 3);
	p->s.mode = option(L, "switches") ? PF_SAMPLE_SWITCHES : option(L, "exact") ? PF_SAMPLE_EXACT : PF_SAMPLE_INTERVAL;
	p->s.native = option(L, "native");
	p->s.may_ask = p->stack.may_ask = option(L, "may_ask");
	p->s.by_descriptor = option(L, "by_descriptor");
	p->s.code_start = address(L, "code_start");
	p->s.code_end = address(L, "code_end");
	p->stack.creators = LUA_NOREF;
	lua_getfield(L, 2, "coroutines");
	p->stack.coroutines = luaL_checkoption(L, -1, "alone", coroutines);
	lua_getfield(L, 2, "hidden");
	for (int i = 0; i < 2 && lua_istable(L, -1); i++) {
		const char *source;

		lua_rawgeti(L, -1, i + 1);
		source = lua_tostring(L, -1);
		if (source && strlen(source) < sizeof p->stack.hidden.source[i])
			strcpy(p->stack.hidden.source[i], source);
		lua_pop(L, 1);
	}
	lua_pop(L, 2);
	p->s.owner = &p->stack;
	p->stack.at = &p->s.at;
	p->stack.main = p->lifetime->main;
	choose_method(L, p);
	/* the event is the first member of the userdata that has its layout */
	lua_getfield(L, 2, "timeline");
	r = pf_sampler_init(&p->s, event, &((struct pb_event *)(void *)event)->layout, (uint32_t)lua_tointeger(L, -1));
	lua_pop(L, 1);
	return r < 0 ? pb_fail(L, r, "profiler") : 1;
}

static int l_close(lua_State *L)
{
	struct pb_profiler *p = check_profiler(L);

	stop(L, p);
	give_back(L, p);
	pf_sampler_free(&p->s);
	return 0;
}

/* prepare(profiler, why): the part of a start that may raise an error for lack of memory. Returns 0 or -errno. */
static int prepare(lua_State *L)
{
	struct pb_profiler *p = lua_touserdata(L, 1);
	const char **why = lua_touserdata(L, 2);
	int r = 0;

	if (p->safe_point) {
		pb_coroutines_take(L, &p->stack);
		r = pb_engine_start(L, &p->stack, why);
	} else {
		pb_marks_take(L, &p->stack);
	}
	lua_pushinteger(L, r);
	return 1;
}

/* profiler:start(): true; or nil, message, code. Once. */
static int l_start(lua_State *L)
{
	struct pb_profiler *p = check_profiler(L);
	const char *why = "a profiler is running in this process, which can have one at a time that takes stacks at safe points";
	int r, raised;

	luaL_argcheck(L, p->s.event && !p->s.started_ns && !p->s.at.running, 1, "Profiler has been started before");
	if (p->lifetime->closing)
		return pb_fail(L, -ECANCELED, "the Lua state is being closed");
	/* Every call that may raise comes before the claim or in prepare, so that no error leaves the profiler claimed. */
	lua_settop(L, 1);
	lua_pushcfunction(L, prepare);
	lua_pushvalue(L, 1);
	lua_pushlightuserdata(L, &why);
	if (p->safe_point && pf_sampling_claim(&p->s.at) < 0)
		return pb_fail(L, -EBUSY, "%s", why);
	raised = lua_pcall(L, 2, 1, 0);
	r = raised ? -ENOMEM : (int)lua_tointeger(L, -1);
	if (r == 0) {
		why = "enable";
		r = pf_sampler_start(&p->s);
	}
	if (r < 0) {
		give_back(L, p);
		return raised ? lua_error(L) : pb_fail(L, r, "%s", why);
	}
	p->next = p->lifetime->running;
	p->lifetime->running = p;
	lua_pushboolean(L, 1);
	return 1;
}

static int l_stop(lua_State *L)
{
	return pb_result(L, stop(L, check_profiler(L)), "stop");
}

/* profiler:state(): "new", "running", "inherited" (it belongs to the parent of a fork and was not stopped before), "stopped", or
 * "closed" (it ran, and its samples were freed: the Lua state is being closed). */
static int l_state(lua_State *L)
{
	const struct pb_profiler *p = check_profiler(L);

	lua_pushstring(L, p->s.at.running ? (pf_sampling_inherited(&p->s.at) ? "inherited" : "running")
			  : p->s.started_ns ? (p->s.event ? "stopped" : "closed")
			  : p->s.event && pf_counter_usable(p->s.event) == -ECHILD ? "inherited" : "new");
	return 1;
}

static void set_text(lua_State *L, const struct pf_stacks *s, uint32_t text, const char *field)
{
	if (!text)
		return;
	lua_pushstring(L, pf_stacks_text_at(s, text));
	lua_setfield(L, -2, field);
}

/* {kind =, ...}: see l_result. */
static void push_frame(lua_State *L, const struct pf_stacks *s, const struct pf_frame *f)
{
	static const char *const kinds[] = {NULL, "lua", "range", "c", "state", "zone", "native", "kernel"};
	static const char *const states[] = {"lua", "c", "gc", "jit", "outside", "unsampled", "other", "native"};

	lua_createtable(L, 0, 7);
	pb_set_text(L, "kind", kinds[f->kind]);
	if (f->kind == PF_FRAME_LUA || f->kind == PF_FRAME_RANGE || f->kind == PF_FRAME_C) {
		const struct pf_function *fn = pf_stacks_function_at(s, (uint32_t)f->key);

		set_text(L, s, fn->name, "func");
		set_text(L, s, fn->source, "source");
		if (f->kind == PF_FRAME_C) {
			pb_set_u64(L, "address", fn->source_key);
			return;
		}
		lua_pushinteger(L, fn->line);
		lua_setfield(L, -2, "linedefined");
		if (f->line) {
			lua_pushinteger(L, (lua_Integer)f->line);
			lua_setfield(L, -2, "line");
		}
		if (f->kind == PF_FRAME_RANGE) {
			lua_pushinteger(L, (lua_Integer)(f->key >> 32));
			lua_setfield(L, -2, "lastline");
		}
	} else if (f->kind == PF_FRAME_STATE) {
		pb_set_text(L, "state", states[f->key]);
	} else if (f->kind == PF_FRAME_ZONE) {
		lua_pushinteger(L, (lua_Integer)f->key);
		lua_setfield(L, -2, "zone");
	} else {
		pb_set_u64(L, "address", f->key);
	}
}

/* profiler:result(): the result, after the stop:
 *
 *   frames    array of {kind, func, source, line, lastline, linedefined, address, state, zone}
 *   parent, frame, weight, count    arrays by node: a stack, as its caller's node (0: none) and its innermost frame
 *   moments   the samples one by one, for core.moment; beyond: how many did not fit
 *   total, and the part of it that is unsampled: counted after the last sample, or without a stack; unsampled_count: its samples;
 *   lost, samples, duration_ns, memory; failures: samples without a whole stack, by
 *   reason; nil if there are none */
static int l_result(lua_State *L)
{
	static const char *const failures[PF_UNWIND_FAILURES] = {
		[PF_UNWIND_NO_THREAD] = "no thread", [PF_UNWIND_NO_BASE] = "no function",     [PF_UNWIND_NO_PC] = "no line",
		[PF_UNWIND_NO_TRACE] = "no trace",   [PF_UNWIND_BROKEN] = "broken frame",     [PF_UNWIND_UNREADABLE] = "unreadable memory",
		[PF_UNWIND_DEEP] = "too deep"};
	struct pb_profiler *p = check_profiler(L);
	const struct pf_stacks *s = &p->s.at.stacks;
	static const struct pf_sum none;
	const uint32_t n = s->nodes.n;
	uint64_t unsampled;
	int failed = 0;

	luaL_argcheck(L, p->s.event && !p->s.at.running, 1, "Profiler is running or closed");
	unsampled = pf_sampler_total(&p->s) - p->s.sum + pf_stacks_sum_at(s, 0)->weight;
	lua_createtable(L, 0, 13);
	lua_createtable(L, (int)s->frames.n, 0);
	for (uint32_t i = 1; i <= s->frames.n; i++) {
		push_frame(L, s, pf_stacks_frame_at(s, i));
		lua_rawseti(L, -2, (int)i);
	}
	lua_setfield(L, -2, "frames");
	for (int k = 0; k < 4; k++) {
		static const char *const names[] = {"parent", "frame", "weight", "count"};

		lua_createtable(L, (int)n, 0);
		for (uint32_t i = 1; i <= n; i++) {
			const struct pf_node *node = pf_stacks_node_at(s, i);
			const struct pf_sum *sum = node->sum ? pf_stacks_sum_at(s, i) : &none;

			pb_push_u64(L, k == 0 ? node->parent : k == 1 ? node->frame : k == 2 ? sum->weight : sum->count);
			lua_rawseti(L, -2, (int)i);
		}
		lua_setfield(L, -2, names[k]);
	}
	if (p->s.moments.items) {
		lua_pushlstring(L, (const char *)p->s.moments.items, p->s.moments.n * sizeof *p->s.moments.items);
		lua_setfield(L, -2, "moments");
		pb_set_u64(L, "beyond", p->s.moments.beyond);
	}
	pb_set_u64(L, "total", pf_sampler_total(&p->s));
	pb_set_u64(L, "unsampled", unsampled);
	pb_set_u64(L, "unsampled_count", pf_stacks_sum_at(s, 0)->count);
	pb_set_u64(L, "lost", pf_sampler_lost(&p->s));
	pb_set_u64(L, "samples", p->s.samples);
	pb_set_u64(L, "duration_ns", p->s.duration_ns);
	for (int i = PF_UNWIND_COMPLETE + 1; i < PF_UNWIND_FAILURES; i++) {
		if (!p->s.failures[i])
			continue;
		if (!failed++)
			lua_createtable(L, 0, PF_UNWIND_FAILURES);
		pb_set_u64(L, failures[i], p->s.failures[i]);
	}
	if (failed)
		lua_setfield(L, -2, "failures");
	pb_set_u64(L, "memory", pf_stacks_memory(s) + pf_pendings_memory(&p->s.at.pending));
	return 1;
}

/* core.profiler_number(): attr.sig_data for the event of a profiler. */
static int l_profiler_number(lua_State *L)
{
	pb_push_u64(L, pf_sampler_number());
	return 1;
}

/* core.moment(moments, i): time, addr, cpu, weight, node of moment i; nothing after the last. */
static int l_moment(lua_State *L)
{
	size_t size;
	const char *bytes = luaL_checklstring(L, 1, &size);
	const lua_Integer i = luaL_checkinteger(L, 2);
	struct pf_moment m;

	if (i < 1 || (size_t)i > size / sizeof m)
		return 0;
	memcpy(&m, bytes + (size_t)(i - 1) * sizeof m, sizeof m);
	pb_push_u64(L, m.time);
	pb_push_i64(L, (int64_t)m.addr);
	lua_pushinteger(L, (lua_Integer)m.cpu);
	pb_push_u64(L, m.weight);
	lua_pushinteger(L, (lua_Integer)m.node);
	return 5;
}

/* core.set_zone(number): returns the previous zone of the thread; core.zone_setter(): the C function, for FFI; core.new_zone(): a
 * new number. */
static int l_set_zone(lua_State *L)
{
	lua_pushinteger(L, (lua_Integer)pf_zone_set((uint32_t)luaL_checkinteger(L, 1)));
	return 1;
}

static int l_zone_setter(lua_State *L)
{
	uint32_t (*setter)(uint32_t) = pf_zone_set;
	void *address;

	memcpy(&address, &setter, sizeof address);
	lua_pushlightuserdata(L, address);
	return 1;
}

static int l_new_zone(lua_State *L)
{
	lua_pushinteger(L, (lua_Integer)pf_zone_new());
	return 1;
}

/* core.object_address(function): an address that identifies a C function; without a function, one in the interpreter's code. */
static int l_object_address(lua_State *L)
{
	int (*code)(lua_State *) = lua_gettop;

	pb_push_u64(L, lua_isnoneornil(L, 1) ? (uint64_t)(uintptr_t)code : pb_function_address(L, 1));
	return 1;
}

/* core.handler_call([unwinds]): the system calls that the signal's handler makes, to find out whether an event counts one of them. */
static int l_handler_call(lua_State *L)
{
	char byte;

	if (lua_toboolean(L, 1))
		pf_peek_ready(NULL);
	pf_peek_call(&byte, (uintptr_t)&byte, 1);
	return 0;
}

/* core.unwinds(): whether stacks can be unwound here; else also why not. core.use_safe_points(on): in this process they are taken at
 * safe points all the same; returns whether that was so before. */
static atomic_int forced;

static int l_use_safe_points(lua_State *L)
{
	return pb_bool(L, atomic_exchange(&forced, lua_toboolean(L, 1)));
}

static int l_unwinds(lua_State *L)
{
	struct pb_stack stack = {.global = 0};
	const char *why = "PERF_SAFE_POINT is set";
	const int r = atomic_load(&forced) || getenv("PERF_SAFE_POINT") ? -ENOTSUP : pb_unwind_start(L, &stack, &why);

	if (r == -ENOMEM)
		return lua_error(L);
	lua_pushboolean(L, r == 0);
	lua_pushstring(L, r == 0 ? NULL : why);
	return 2;
}

/* core.unix_time(): seconds. */
static int l_unix_time(lua_State *L)
{
	lua_pushnumber(L, (lua_Number)pf_clock_ns(CLOCK_REALTIME) / 1e9);
	return 1;
}

void pb_open_profiler(lua_State *L)
{
	static const luaL_Reg functions[] = {{"profiler", l_profiler},
					     {"profiler_number", l_profiler_number},
					     {"set_zone", l_set_zone},
					     {"zone_setter", l_zone_setter},
					     {"new_zone", l_new_zone},
					     {"unix_time", l_unix_time},
					     {"object_address", l_object_address},
					     {"moment", l_moment},
					     {"handler_call", l_handler_call},
					     {"unwinds", l_unwinds},
					     {"use_safe_points", l_use_safe_points},
					     {NULL, NULL}};
	static const luaL_Reg methods[] = {{"start", l_start},   {"stop", l_stop},   {"state", l_state},
					   {"result", l_result}, {"close", l_close}, {NULL, NULL}};

	push_lifetime(L);
	lua_pop(L, 1);
	pb_register(L, functions);
	pb_class(L, PB_PROFILER, methods, l_close);
	lua_pop(L, 1);
}
