/* perf.ext.pfm: events by the names in the CPU vendors' manuals, which libpfm4 knows.
 *
 * libpfm4 is initialized once in a process, and its tables are static; a lock lets one thread at a time use it. It has its own
 * struct perf_event_attr, which is older and shorter than ours but has the same layout. */
#include <errno.h>
#include <perfmon/pfmlib_perf_event.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/thread.h"
#include "ext/base/ext.h"

static atomic_uint lock;
static int state = PFM_ERR_NOINIT; /* the result of pfm_initialize */

/* Take the lock; at the first call, initialize libpfm4. Returns PFM_SUCCESS or libpfm4's error. */
static int enter(void)
{
	pf_lock(&lock, PF_LOCK_PAUSE);
	if (state == PFM_ERR_NOINIT)
		state = pfm_initialize();
	return state;
}

static void leave(void)
{
	pf_unlock(&lock);
}

/* r: the result of the call, which is made under the lock, or libpfm4's error. */
#define LOCKED(r, call)             \
	do {                        \
		r = enter();        \
		if (r == PFM_SUCCESS) \
			r = call;   \
		leave();            \
	} while (0)

static int to_errno(int code)
{
	switch (code) {
	case PFM_ERR_NOTFOUND:
		return ENOENT;
	case PFM_ERR_NOTSUPP:
	case PFM_ERR_NOINIT:
		return EOPNOTSUPP;
	case PFM_ERR_NOMEM:
		return ENOMEM;
	default:
		return EINVAL;
	}
}

/* nil, libpfm4's message, code, libpfm4's error number */
static int refuse(lua_State *L, int code)
{
	pb_refuse(L, to_errno(code), "%s", pfm_strerror(code));
	lua_pushinteger(L, code);
	return 4;
}

static void set_number(lua_State *L, const char *name, uint64_t v)
{
	if (v)
		pb_set_u64(L, name, v);
}

static void set_bit(lua_State *L, const char *name, unsigned v)
{
	if (v)
		pb_set_bool(L, name, 1);
}

static void push_attr(lua_State *L, const struct perf_event_attr *a)
{
	lua_createtable(L, 0, 8);
	pb_set_u64(L, "type", a->type);
	pb_set_u64(L, "config", a->config);
	set_number(L, "config1", a->config1);
	set_number(L, "config2", a->config2);
	set_bit(L, "exclude_user", a->exclude_user);
	set_bit(L, "exclude_kernel", a->exclude_kernel);
	set_bit(L, "exclude_hv", a->exclude_hv);
	set_bit(L, "exclude_idle", a->exclude_idle);
	set_bit(L, "exclude_host", a->exclude_host);
	set_bit(L, "exclude_guest", a->exclude_guest);
	set_bit(L, "pinned", a->pinned);
	set_bit(L, "exclusive", a->exclusive);
	set_number(L, "precise_ip", a->precise_ip);
	set_number(L, a->freq ? "sample_freq" : "sample_period", a->sample_period);
}

/* ext.encode(name): attr fields, the full name, the CPU to open it on or nil; or nil, message, code, libpfm4's number */
static int l_encode(lua_State *L)
{
	const char *name = px_check_cstring(L, 1);
	struct pb_owned *text = pb_owner(L, free);
	struct perf_event_attr attr = {0};
	char *full = NULL;
	pfm_perf_encode_arg_t arg = {.attr = &attr, .fstr = &full, .size = sizeof arg, .cpu = -1};
	int r;

	LOCKED(r, pfm_get_os_event_encoding(name, PFM_PLM0 | PFM_PLM3 | PFM_PLMH, PFM_OS_PERF_EVENT_EXT, &arg));
	text->p = full;
	if (r != PFM_SUCCESS)
		return refuse(L, r);
	/* libpfm4 excludes guests unless the name has :mg or :mh. perf does not, and software events do not support it. */
	if (!strstr(name, ":mg") && !strstr(name, ":mh"))
		attr.exclude_guest = attr.exclude_host = 0;
	push_attr(L, &attr);
	lua_pushstring(L, full);
	if (arg.cpu < 0)
		return 2;
	lua_pushinteger(L, arg.cpu);
	return 3;
}

/* Each step takes the lock anew, and rows are pushed without it: a Lua error would never release it. */
#define INFO(type, params, call)                                    \
	static int type##_info params                               \
	{                                                           \
		int r;                                              \
                                                                    \
		*info = (pfm_##type##_info_t){.size = sizeof *info}; \
		LOCKED(r, call);                                    \
		return r;                                           \
	}
INFO(pmu, (int i, pfm_pmu_info_t *info), pfm_get_pmu_info((pfm_pmu_t)i, info))
INFO(event, (int index, pfm_event_info_t *info), pfm_get_event_info(index, PFM_OS_PERF_EVENT_EXT, info))
INFO(event_attr, (int index, int i, pfm_event_attr_info_t *info), pfm_get_event_attr_info(index, i, PFM_OS_PERF_EVENT_EXT, info))

static int next_event(int index)
{
	enter();
	index = pfm_get_event_next(index);
	leave();
	return index;
}

/* ext.pmus(): array of {name=, description=, present=, default=, events=, index=}, also of PMUs that this machine does not have.
 * Or nil, message, code */
static int l_pmus(lua_State *L)
{
	pfm_pmu_info_t info;
	int n = 0, r = enter();

	leave();
	if (r != PFM_SUCCESS)
		return refuse(L, r);
	lua_newtable(L);
	for (int i = PFM_PMU_NONE; i < PFM_PMU_MAX; i++) {
		if (pmu_info(i, &info) != PFM_SUCCESS)
			continue;
		lua_createtable(L, 0, 6);
		pb_set_text(L, "name", info.name);
		pb_set_text(L, "description", info.desc);
		pb_set_bool(L, "present", info.is_present);
		pb_set_bool(L, "default", info.is_dfl);
		pb_set_int(L, "events", info.nevents);
		pb_set_int(L, "index", i);
		lua_rawseti(L, -2, ++n);
	}
	return 1;
}

static void push_attributes(lua_State *L, int index, int n)
{
	pfm_event_attr_info_t info;
	int at = 0;

	lua_newtable(L);
	for (int i = 0; i < n; i++) {
		if (event_attr_info(index, i, &info) != PFM_SUCCESS)
			continue;
		lua_createtable(L, 0, 3);
		pb_set_text(L, "name", info.name);
		pb_set_text(L, "description", info.desc);
		pb_set_bool(L, "umask", info.type == PFM_ATTR_UMASK);
		lua_rawseti(L, -2, ++at);
	}
}

/* ext.events(pmu's index): array of {name=, description=, attributes={{name=, description=, umask=}, ...}} */
static int l_events(lua_State *L)
{
	pfm_pmu_info_t pmu;
	pfm_event_info_t event;
	int n = 0, r = pmu_info((int)pb_check_u64(L, 1, PFM_PMU_MAX), &pmu);

	if (r != PFM_SUCCESS)
		return refuse(L, r);
	lua_newtable(L);
	for (int i = pmu.first_event; i != -1; i = next_event(i)) {
		if (event_info(i, &event) != PFM_SUCCESS)
			continue;
		lua_createtable(L, 0, 3);
		pb_set_text(L, "name", event.name);
		pb_set_text(L, "description", event.desc);
		push_attributes(L, i, event.nattrs);
		lua_setfield(L, -2, "attributes");
		lua_rawseti(L, -2, ++n);
	}
	return 1;
}

/* ext.attributes(name): an event's attributes, like those of ext.events; or nil, message, code */
static int l_attributes(lua_State *L)
{
	const char *name = px_check_cstring(L, 1);
	pfm_event_info_t event;
	int index, r;

	LOCKED(index, pfm_find_event(name));
	r = index < 0 ? index : event_info(index, &event);
	if (r != PFM_SUCCESS)
		return refuse(L, r);
	push_attributes(L, index, event.nattrs);
	return 1;
}

PX_EXPORT int luaopen_perf_ext_pfm(lua_State *L);
int luaopen_perf_ext_pfm(lua_State *L)
{
	static const luaL_Reg functions[] = {{"encode", l_encode}, {"pmus", l_pmus}, {"events", l_events},
					     {"attributes", l_attributes}, {NULL, NULL}};
	int version = pfm_get_version();

	px_open(L);
	lua_newtable(L);
	pb_register(L, functions);
	lua_pushfstring(L, "%d", PFM_MAJ_VERSION(version)); /* libpfm4 does not update its minor number */
	lua_setfield(L, -2, "version");
	return 1;
}
