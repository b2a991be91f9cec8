/* See profiler.h: the object, its start and its end. */
#include "binding/profile/profiler.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/peek.h"
#include "core/base/signal.h"
#include "core/profile/trap.h"

#define PB_LIFETIME "perf.lifetime"

static int option(lua_State *L, const char *name)
{
	int v;

	lua_getfield(L, 2, name);
	v = lua_toboolean(L, -1);
	lua_pop(L, 1);
	return v;
}

static lua_Integer integer(lua_State *L, const char *name)
{
	lua_Integer v;

	lua_getfield(L, 2, name);
	v = lua_tointeger(L, -1);
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

/* In the child of a fork the parent's profilers are no users of the marks. */
static void count_marks(struct pb_lifetime *life, uint32_t generation, int change)
{
	const uint32_t now = pf_fork_generation();

	if (life->marks_generation != now)
		life->marks = 0;
	life->marks_generation = now;
	if (generation == now)
		life->marks += (unsigned)change;
}

static void take_marks(struct pb_profiler *p)
{
	pb_marks_take(&p->stack);
	p->stack.marks = pf_fork_generation();
	count_marks(p->lifetime, p->stack.marks, 1);
}

static void give_marks(struct pb_profiler *p)
{
	if (!p->stack.marks)
		return;
	count_marks(p->lifetime, p->stack.marks, -1);
	p->stack.marks = 0;
	if (p->lifetime->marks == 0)
		pb_marks_give(&p->stack);
}

/* Release the resources that prepare has taken, and the claim. A profiler without the claim leaves those of the running one. */
static void give_back(lua_State *L, struct pb_profiler *p)
{
	give_marks(p);
	if (!p->s.at.claimed)
		return;
	pb_engine_stop(L, &p->stack);
	pb_coroutines_give_back(L, &p->stack);
	pf_sampling_disclaim(&p->s.at);
}

static int start_allocations(lua_State *L, struct pb_profiler *p)
{
	struct pf_allocator *in;
	int r = pb_allocator_take(L, p->lifetime->allocators, &in);

	if (r < 0)
		return r;
	r = pf_allocations_start(&p->allocations, &p->s, in, p->every);
	if (r < 0)
		pb_allocator_give(L, in);
	return r;
}

/* 0 or -ENOMEM, also if collections could not be counted to the end. */
static int stop_allocations(lua_State *L, struct pb_profiler *p)
{
	const int r = pf_allocations_stop(&p->allocations);

	pb_allocator_give(L, p->allocations.in);
	return p->allocations.survived && !p->counter ? -ENOMEM : r;
}

static int stop(lua_State *L, struct pb_profiler *p)
{
	struct pb_profiler **link;
	int r;

	if (!p->s.at.running)
		return 0;
	r = p->every ? stop_allocations(L, p) : pf_sampler_stop(&p->s);
	give_back(L, p);
	for (link = &p->lifetime->running; *link && *link != p;)
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
	life->allocators = pb_allocators_of(L);
#if LUA_VERSION_NUM >= 502
	lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_MAINTHREAD);
	life->main = lua_tothread(L, -1);
#else
	life->main = lua_pushthread(L) ? L : NULL; /* the module is hardly ever loaded in a coroutine */
#endif
	lua_createtable(L, 0, 1);
	pb_set_function(L, "__gc", l_state_closes);
	lua_setmetatable(L, -3);
	lua_pop(L, 1);
	lua_pushvalue(L, -1);
	lua_setfield(L, LUA_REGISTRYINDEX, PB_LIFETIME);
	return life;
}

/* This part is opened at once: a finalizer that runs while the state closes may be the first to use a profiler. */
void pb_open_lifetime(lua_State *L)
{
	push_lifetime(L);
	lua_pop(L, 1);
}

/* The most frames of a stack at this rate of samples a second (0: unknown). A frame takes up to 125 ns, and the signal handler
 * must leave the program most of the time. */
static unsigned depth_at(lua_Integer freq)
{
	enum { FRAMES_A_SECOND = 2000000, LEAST = 64 };
	const lua_Integer most = freq > 0 ? FRAMES_A_SECOND / freq : PF_STACK_DEPTH;

	return most > PF_STACK_DEPTH ? PF_STACK_DEPTH : most < LEAST ? LEAST : (unsigned)most;
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
	p->s.unwind = p->safe_point ? NULL : p->every ? pb_unwind_callback : pb_unwind;
	p->s.hidden = &p->stack.hidden;
	p->s.depth = depth_at(integer(L, "freq"));
	p->s.alone = p->stack.coroutines == PB_COROUTINES_ALONE;
}

/* core.profiler(event, {exact=, switches=, native=, may_ask=, by_descriptor=, coroutines=, hidden=, code_start=, code_end=,
 * timeline=, safe_point=, freq=, every=, live=, survived=}): a Profiler; or nil, message, code. coroutines: "alone", "resumer" or
 * "creator"; hidden: two sources whose functions are not shown; code_start to code_end: the interpreter's code; timeline: how many
 * samples are kept one by one. event: nil for allocations, of which there is a sample after `every` bytes, on average; live: only of
 * blocks that are not freed; survived: and that have survived so many collections. */
static int l_profiler(lua_State *L)
{
	static const char *const coroutines[] = {"alone", "resumer", "creator", NULL};
	struct pf_counter *event = lua_isnil(L, 1) ? NULL : pb_check_event(L, 1);
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
	p->every = event ? 0 : (uint64_t)integer(L, "every");
	p->allocations.is_live = option(L, "live");
	p->allocations.survived = (uint64_t)integer(L, "survived");
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
	r = pf_sampler_init(&p->s, event, event ? &((struct pb_event *)(void *)event)->layout : NULL,
			    (uint32_t)integer(L, "timeline"));
	return r < 0 ? pb_fail(L, r, "profiler") : 1;
}

static int l_close(lua_State *L)
{
	struct pb_profiler *p = pb_check_profiler(L);

	stop(L, p);
	give_back(L, p);
	pf_sampler_free(&p->s);
	pf_allocations_free(&p->allocations);
	return 0;
}

/* prepare(profiler, why): the part of a start that may raise an error for lack of memory. If collections are
 * counted, returns the object that counts them; then 0 or -errno. */
static int prepare(lua_State *L)
{
	struct pb_profiler *p = lua_touserdata(L, 1);
	const char **why = lua_touserdata(L, 2);
	int r = 0;

	if (p->safe_point) {
		pb_coroutines_take(L, &p->stack);
		r = pb_engine_start(L, &p->stack, why);
	} else {
		pb_unwind_learn_more(L, &p->stack);
		take_marks(p);
		if (p->every)
			p->allocations.strings = pb_strings_find(L, p->stack.global);
		p->allocations.resizes = pb_strings_resize;
		if (p->allocations.survived)
			pb_count_collections(L, p);
	}
	lua_pushinteger(L, r);
	return lua_gettop(L) - 2;
}

/* profiler:start(): true; or nil, message, code. It can be called once. */
static int l_start(lua_State *L)
{
	struct pb_profiler *p = pb_check_profiler(L);
	const char *why = "a profiler is running in this process, which can have one at a time that takes stacks at safe points";
	int r, raised;

	luaL_argcheck(L, p->s.frames && !p->s.started_ns && !p->s.at.running, 1, "Profiler has been started before");
	if (p->lifetime->closing)
		return pb_fail(L, -ECANCELED, "the Lua state is being closed");
	/* Every call that may raise comes before the claim or in prepare, so that no error leaves the profiler claimed. */
	lua_settop(L, 1);
	lua_pushcfunction(L, prepare);
	lua_pushvalue(L, 1);
	lua_pushlightuserdata(L, &why);
	if (p->safe_point && pf_sampling_claim(&p->s.at) < 0)
		return pb_fail(L, -EBUSY, "%s", why);
	raised = lua_pcall(L, 2, LUA_MULTRET, 0);
	r = raised ? -ENOMEM : (int)lua_tointeger(L, -1);
	if (r == 0) {
		why = "enable";
		r = p->every ? start_allocations(L, p) : pf_sampler_start(&p->s);
		if (r == -EPERM && !p->every && !p->s.started_ns) /* before the event was enabled */
			why = "sigaction, for the handler of SIGTRAP";
	}
	if (r < 0) {
		give_back(L, p);
		if (r == -EBUSY && !p->safe_point)
			return pb_fail(L, r, "%d profilers run in this process, and no more can: stop one", PF_TRAP_MOST);
		if (r == -ENOSPC)
			return pb_refuse(L, r, "the program has set more than %d different actions of SIGTRAP, and a later one "
					 "is in force: set an earlier one again", PF_SIGNAL_LAYERS);
		return raised ? lua_error(L) : pb_fail(L, r, "%s", why);
	}
	p->next = p->lifetime->running;
	p->lifetime->running = p;
	return pb_bool(L, 1);
}

static int l_stop(lua_State *L)
{
	return pb_result(L, stop(L, pb_check_profiler(L)), "stop");
}

/* profiler:state(): "new", "running", "inherited" (it belongs to the parent of a fork and was not stopped before), "stopped", or
 * "closed" (it ran, and its samples were freed: the Lua state is being closed). */
static int l_state(lua_State *L)
{
	const struct pb_profiler *p = pb_check_profiler(L);

	lua_pushstring(L, p->s.at.running ? (pf_sampling_inherited(&p->s.at) ? "inherited" : "running")
			  : p->s.started_ns ? (p->s.frames ? "stopped" : "closed")
			  : p->s.event && pf_counter_usable(p->s.event) == -ECHILD ? "inherited" : "new");
	return 1;
}

/* core.profiler_number(): attr.sig_data for the event of a profiler. */
static int l_profiler_number(lua_State *L)
{
	return pb_u64(L, pf_sampler_number());
}

/* core.set_zone(number): returns the previous zone of the thread; core.zone_setter(): the C function, for FFI; core.new_zone(): a
 * new number. */
static int l_set_zone(lua_State *L)
{
	return pb_int(L, (lua_Integer)pf_zone_set((uint32_t)luaL_checkinteger(L, 1)));
}

static int l_zone_setter(lua_State *L)
{
	return pb_pointer(L, (void *)(uintptr_t)&pf_zone_set);
}

static int l_new_zone(lua_State *L)
{
	return pb_int(L, (lua_Integer)pf_zone_new());
}

/* core.object_address(function): the addresses that identify a C function at safe points and in the unwinder; without a function, an
 * address in the interpreter's code. */
static int l_object_address(lua_State *L)
{
	int (*code)(lua_State *) = lua_gettop;
	uint64_t unwound;

	if (lua_isnoneornil(L, 1))
		return pb_u64(L, (uintptr_t)code);
	pb_push_u64(L, pb_function_address(L, 1));
	unwound = pb_unwind_function(L, 1);
	if (unwound)
		pb_push_u64(L, unwound);
	return unwound ? 2 : 1;
}

/* core.handler_call([unwinds]): makes the system calls that the signal handler makes, so that the caller can find out whether an
 * event counts one of them. */
static int l_handler_call(lua_State *L)
{
	char byte = 0;

	if (lua_toboolean(L, 1))
		pf_peek_ready(NULL);
	pf_peek_call(&byte, (uintptr_t)&byte, 1);
	return 0;
}

/* core.unwinds(): whether stacks can be unwound here; if not, also the reason. core.use_safe_points(on): from now on this process
 * takes stacks at safe points even so; returns the previous setting. */
static atomic_int forced;

static int l_use_safe_points(lua_State *L)
{
	return pb_bool(L, atomic_exchange(&forced, lua_toboolean(L, 1)));
}

static int l_unwinds(lua_State *L)
{
	struct pb_stack stack = {.global = 0};
	const char *why;
	int r;

	if (atomic_load(&forced) || getenv("PERF_SAFE_POINT")) {
		lua_pushboolean(L, 0);
		lua_pushstring(L, "PERF_SAFE_POINT is set");
		return 2;
	}
	r = pb_unwind_start(L, &stack, &why);
	lua_pushboolean(L, r == 0);
	if (r == 0)
		return 1;
	lua_pushfstring(L, "the unwinder does not support this build of the interpreter (%s)", why);
	return 2;
}

/* core.unix_time(): seconds. */
static int l_unix_time(lua_State *L)
{
	return pb_number(L, (lua_Number)pf_clock_ns(CLOCK_REALTIME) / 1e9);
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
					     {"moment", pb_moment},
					     {"handler_call", l_handler_call},
					     {"unwinds", l_unwinds},
					     {"use_safe_points", l_use_safe_points},
					     {NULL, NULL}};
	static const luaL_Reg methods[] = {{"start", l_start},   {"stop", l_stop},   {"state", l_state},
					   {"result", pb_profiler_result}, {"snapshot", pb_profiler_snapshot},
					   {"resume", pb_profiler_resume}, {"close", l_close}, {NULL, NULL}};

	pb_register(L, functions);
	pb_new_class(L, PB_PROFILER, methods, l_close);
}
