/* The number of records that were lost because a ring was full.
 *
 * The kernel counts them for each event (PF_FORMAT(LOST), Linux 6.0). `lost` records are not enough: the kernel writes one only
 * before the next record that fits, and does not say which event lost the records. So with older kernels the number is a lower
 * bound. When an event is closed, its count is read once more and kept.
 *
 * Several events may write into one ring. Each event stores its loss at the time when it began to write into the ring (lost_base).
 * So the loss of a ring is the sum of the losses of its writers since then, plus the losses there of events that no longer write
 * into it (lost_gone).
 *
 * A tally may need its loss after the Event has been collected. So the loss of a ring is also available as a function, which
 * keeps the last count in a separate userdata. The registry holds the function, under the event's address, until the event is
 * collected. */
#include "binding/event/ring.h"
#include "binding/event/event.h"

/* event: NULL after it was collected. */
struct pb_loss {
	struct pb_event *event;
	uint64_t lost;
	int known;
};

/* The total loss of the event, as far as the kernel reports or has reported it. Sets *known to 0 if that may be incomplete. */
static uint64_t own_lost(struct pb_event *e, int *known)
{
	uint64_t now = 0;

	if (!e->ring.data_size && !e->redirected) /* without a ring the kernel writes nothing, and loses nothing */
		return 0;
	if (pf_event_lost(&e->ev, &now))
		e->lost_seen = now;
	else if (e->ev.fd >= 0 || !(e->ev.format & PF_FORMAT(LOST)))
		*known = 0;
	return e->lost_seen;
}

/* The loss of the event in the ring that it writes into now. */
static uint64_t lost_here(struct pb_event *e, int *known)
{
	return own_lost(e, known) - e->lost_base;
}

static void leave(struct pb_event *e, int *known)
{
	struct pb_event **at = &e->output->writers;

	while (*at && *at != e)
		at = &(*at)->next_writer;
	if (*at)
		*at = e->next_writer;
	e->output->lost_gone += lost_here(e, known);
	e->output = NULL;
}

void pb_lost_redirect(struct pb_event *e, struct pb_event *target)
{
	int known = 1;

	if (e->output == target)
		return;
	if (e->output)
		leave(e, &known);
	e->lost_base = own_lost(e, &known);
	e->output = target;
	if (target) {
		e->redirected = 1;
		e->next_writer = target->writers;
		target->writers = e;
	}
}

void pb_lost_end(struct pb_event *e)
{
	int known = 1;

	if (e->ev.fd < 0)
		return;
	if (e->output)
		leave(e, &known);
	else if (e->ring.map)
		own_lost(e, &known);
	if (!known) /* it cannot be read later either */
		e->ev.format &= ~PF_FORMAT(LOST);
}

/* The loss of a ring, for all events that write into it. */
static uint64_t ring_lost(struct pb_event *e, int *known)
{
	uint64_t sum = lost_here(e, known) + e->lost_gone;

	for (struct pb_event *w = e->writers; w; w = w->next_writer)
		sum += lost_here(w, known);
	if (!*known && sum < e->ring.lost)
		sum = e->ring.lost;
	return sum + e->ring.lost_samples;
}

/*** @classmod Event */

/*** The number of records of this event that were lost because a ring was full, including those of children that inherited it.
 * The number is exact at any time if the kernel counts them (Linux 6.0). Older kernels report losses only by `lost` records,
 * which they write when there is room again. `reset` does not clear the number. It is still available after `close`.
 * @treturn integer
 * @treturn table parts: `records` and `samples`, the sums of the `lost` and `lost_samples` records that were read; `damaged`,
 * bytes that could not be decoded; `kernel`, the kernel's count; `ring`, the loss of all events that write into this ring, if
 * there are several; `at_least`, true if the number is a lower bound */
static int l_lost(lua_State *L)
{
	struct pb_event *e = pb_check(L, 1, PB_EVENT, "Event");
	int known = 1, ring_known = 1;
	uint64_t kernel, all;

	if (e->ev.fd >= 0)
		pb_check_event(L, 1); /* not in the child of a fork */
	all = kernel = own_lost(e, &known);

	if (!known && all < e->ring.lost)
		all = e->ring.lost;
	pb_push_u64(L, all + e->ring.lost_samples);
	lua_createtable(L, 0, 5);
	pb_set_u64(L, "records", e->ring.lost);
	pb_set_u64(L, "samples", e->ring.lost_samples);
	pb_set_u64(L, "damaged", e->ring.damaged);
	if (known)
		pb_set_u64(L, "kernel", kernel);
	else
		pb_set_bool(L, "at_least", 1);
	if (e->writers || e->lost_gone)
		pb_set_u64(L, "ring", ring_lost(e, &ring_known));
	return 2;
}

static void look(struct pb_loss *loss)
{
	loss->known = 1;
	loss->lost = ring_lost(loss->event, &loss->known);
}

/* Upvalue: the userdata. */
static int l_loss(lua_State *L)
{
	struct pb_loss *loss = lua_touserdata(L, lua_upvalueindex(1));

	if (loss->event)
		look(loss);
	pb_push_u64(L, loss->lost);
	lua_pushboolean(L, !loss->known);
	return 2;
}

/* ev:ring_loss(): a function that returns the number of records of all events that were lost in its ring, and true if that is a
 * lower bound. It does not keep the event alive. */
static int l_ring_loss(lua_State *L)
{
	struct pb_event *e = pb_check(L, 1, PB_EVENT, "Event");
	struct pb_loss *loss;

	lua_pushlightuserdata(L, e);
	lua_rawget(L, LUA_REGISTRYINDEX);
	if (!lua_isnil(L, -1))
		return 1;
	lua_pushlightuserdata(L, e);
	loss = pb_newplain(L, sizeof *loss);
	*loss = (struct pb_loss){.event = e};
	if (e->collected) { /* pb_lost_collected has run and will not set the last count */
		look(loss);
		loss->event = NULL;
	}
	lua_pushcclosure(L, l_loss, 1);
	if (e->collected)
		return 1;
	lua_pushvalue(L, -1);
	lua_insert(L, -3);
	lua_rawset(L, LUA_REGISTRYINDEX);
	e->loss = loss;
	return 1;
}

void pb_lost_collected(lua_State *L, struct pb_event *e)
{
	e->collected = 1;
	if (!e->loss)
		return;
	look(e->loss);
	e->loss->event = NULL;
	e->loss = NULL;
	lua_pushlightuserdata(L, e);
	lua_pushnil(L);
	lua_rawset(L, LUA_REGISTRYINDEX);
}

void pb_open_ring_lost(lua_State *L)
{
	static const luaL_Reg methods[] = {{"lost", l_lost}, {"ring_loss", l_ring_loss}, {NULL, NULL}};

	pb_extend(L, "Event", methods);
}
