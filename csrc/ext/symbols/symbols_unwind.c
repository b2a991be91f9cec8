/* Unwinding a sample's copy of the registers and the stack (PERF_SAMPLE_REGS_USER, PERF_SAMPLE_STACK_USER): libdwfl gets one thread
 * that has these registers, and the copied part of the stack as its memory. */
#include "ext/symbols/symbols.h"

#include <string.h>

#include "core/kernel/uapi.h"

#define MOST_FRAMES 1024

/* 64-bit code only: DWARF's numbers of perf's registers, by the ABI of each machine. */
struct reg {
	const char *name;
	int number;
};

static const struct reg x86_64[] = {{"ax", 0},  {"dx", 1},   {"cx", 2},   {"bx", 3},   {"si", 4},   {"di", 5},
				    {"bp", 6},  {"sp", 7},   {"r8", 8},   {"r9", 9},   {"r10", 10}, {"r11", 11},
				    {"r12", 12}, {"r13", 13}, {"r14", 14}, {"r15", 15}, {"ip", 16},  {NULL, 0}};
static const struct reg arm64[] = {
	{"x0", 0},   {"x1", 1},   {"x2", 2},   {"x3", 3},   {"x4", 4},   {"x5", 5},   {"x6", 6},   {"x7", 7},   {"x8", 8},
	{"x9", 9},   {"x10", 10}, {"x11", 11}, {"x12", 12}, {"x13", 13}, {"x14", 14}, {"x15", 15}, {"x16", 16}, {"x17", 17},
	{"x18", 18}, {"x19", 19}, {"x20", 20}, {"x21", 21}, {"x22", 22}, {"x23", 23}, {"x24", 24}, {"x25", 25}, {"x26", 26},
	{"x27", 27}, {"x28", 28}, {"x29", 29}, {"lr", 30},  {"sp", 31},  {NULL, 0}};

static const struct machine {
	const char *name;
	const struct reg *regs;
	int sp; /* its number */
	const char *pc;
	int pc_is_register; /* DWARF has a number for the pc */
} machines[] = {{"x86_64", x86_64, 7, "ip", 1}, {"aarch64", arm64, 31, "pc", 0}};

struct frame {
	uint64_t pc;
	int is_call; /* pc is a return address */
};

struct px_sample {
	const struct machine *machine;
	uint64_t values[32], present, pc, sp;
	const unsigned char *stack;
	size_t stack_size;
	struct frame *frames;
	unsigned n, most;
};

static pid_t next_thread(Dwfl *dwfl, void *arg, void **thread)
{
	if (*thread)
		return 0;
	*thread = arg;
	return dwfl_pid(dwfl);
}

static bool get_thread(Dwfl *dwfl, pid_t tid, void *arg, void **thread)
{
	(void)dwfl, (void)tid;
	*thread = arg;
	return true;
}

static bool read_memory(Dwfl *dwfl, Dwarf_Addr addr, Dwarf_Word *out, void *arg)
{
	const struct px_sample *s = ((const struct px_resolver *)arg)->sample;
	uint64_t v = 0;
	size_t at;

	(void)dwfl;
	if (addr < s->sp || addr - s->sp > s->stack_size || s->stack_size - (addr - s->sp) < sizeof v)
		return false;
	at = (size_t)(addr - s->sp);
	for (size_t i = sizeof v; i-- > 0;) /* these machines are little-endian */
		v = v << 8 | s->stack[at + i];
	*out = v;
	return true;
}

static bool set_registers(Dwfl_Thread *thread, void *arg)
{
	const struct px_sample *s = ((const struct px_resolver *)arg)->sample;

	for (const struct reg *r = s->machine->regs; r->name; r++) {
		Dwarf_Word v = s->values[r->number];

		if ((s->present & PF_BIT(r->number)) && !dwfl_thread_state_registers(thread, r->number, 1, &v))
			return false;
	}
	if (!s->machine->pc_is_register)
		dwfl_thread_state_register_pc(thread, s->pc);
	return true;
}

static const Dwfl_Thread_Callbacks callbacks = {
	.next_thread = next_thread,
	.get_thread = get_thread,
	.memory_read = read_memory,
	.set_initial_registers = set_registers,
};

static int take_frame(Dwfl_Frame *state, void *arg)
{
	struct px_sample *s = arg;
	Dwarf_Addr pc;
	bool activation;

	if (!dwfl_frame_pc(state, &pc, &activation))
		return DWARF_CB_ABORT;
	s->frames[s->n].pc = pc;
	s->frames[s->n++].is_call = !activation;
	return s->n < s->most ? DWARF_CB_OK : DWARF_CB_ABORT;
}

static void read_registers(lua_State *L, int arg, struct px_sample *s)
{
	const struct machine *m = s->machine;
	int negative;

	for (const struct reg *r = m->regs; r->name; r++) {
		lua_getfield(L, arg, r->name);
		if (!lua_isnil(L, -1)) {
			if (!pb_to_u64(L, -1, &s->values[r->number], &negative))
				luaL_argerror(L, arg, lua_pushfstring(L, "register '%s': integer expected, got %s", r->name,
								      luaL_typename(L, -1)));
			s->present |= PF_BIT(r->number);
		}
		lua_pop(L, 1);
	}
	lua_getfield(L, arg, m->pc);
	if (!pb_to_u64(L, -1, &s->pc, &negative))
		luaL_argerror(L, arg, lua_pushfstring(L, "register '%s' expected", m->pc));
	lua_pop(L, 1);
	luaL_argcheck(L, s->present & PF_BIT(m->sp), arg, "register 'sp' expected");
	s->sp = s->values[m->sp];
}

/* resolver:frames(machine, registers, stack, most): array of {address, true for a return address}, the innermost first; and the
 * reason why it ends before the outermost frame, or nil */
int px_unwind(lua_State *L)
{
	struct px_resolver *r = px_check_resolver(L, 1);
	const char *name = luaL_checkstring(L, 2);
	struct px_sample s = {.machine = NULL};
	const char *why = NULL;
	int status;

	for (size_t i = 0; i < sizeof machines / sizeof *machines; i++)
		if (strcmp(machines[i].name, name) == 0)
			s.machine = &machines[i];
	luaL_argcheck(L, s.machine != NULL, 2, "no such machine");
	luaL_checktype(L, 3, LUA_TTABLE);
	s.stack = (const unsigned char *)luaL_checklstring(L, 4, &s.stack_size);
	s.most = (unsigned)pb_check_u64(L, 5, MOST_FRAMES);
	luaL_argcheck(L, s.most > 0, 5, "out of range");
	read_registers(L, 3, &s);
	s.frames = lua_newuserdata(L, s.most * sizeof *s.frames);
	if (!r->attached && !dwfl_attach_state(r->dwfl, NULL, 1, &callbacks, r))
		return px_dwfl_fail(L, "unwind");
	r->attached = 1;
	r->sample = &s;
	status = dwfl_getthread_frames(r->dwfl, dwfl_pid(r->dwfl), take_frame, &s);
	r->sample = NULL;
	if (status < 0 || (s.n == 0 && status != 0))
		why = dwfl_errmsg(-1);
	else if (s.n == s.most)
		why = "more frames than requested";
	if (s.n == 0) { /* the module is unknown: return the one frame that the registers give */
		s.frames[0] = (struct frame){s.pc, 0};
		s.n = 1;
	}
	lua_createtable(L, (int)s.n, 0);
	for (unsigned i = 0; i < s.n; i++) {
		lua_createtable(L, 2, 0);
		pb_push_i64(L, (int64_t)s.frames[i].pc);
		lua_rawseti(L, -2, 1);
		lua_pushboolean(L, s.frames[i].is_call);
		lua_rawseti(L, -2, 2);
		lua_rawseti(L, -2, (int)i + 1);
	}
	lua_pushstring(L, why);
	return 2;
}
