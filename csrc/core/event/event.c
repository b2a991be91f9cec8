#include "core/event/event.h"

#include "core/base/sys.h"
#include "core/counts/meter.h"
#include "core/kernel/attr.h"

int pf_event_open(struct pf_counter *c, struct pf_opening *o)
{
	struct pf_attr *attr = o->attr;
	const uint32_t size = pf_attr_size(attr);
	const int on = !attr->disabled || attr->enable_on_exec;
	long fd;

	attr->size = size;
	*c = (struct pf_counter){.fd = -1, .generation = pf_fork_generation(), .format = attr->read_format, .hidden = o->hidden,
				 .leader = o->leader};
	pf_counter_set(c, on);
	if (attr->disabled && on)
		pf_counter_share(c); /* the kernel will enable it */
	fd = pf_sys->perf_event_open(attr, o->pid, o->cpu, o->leader ? o->leader->fd : -1, o->flags | PF_FLAG_FD_CLOEXEC);
	o->kernel_size = fd == -E2BIG && attr->size != size ? attr->size : 0;
	if (fd < 0)
		return (int)fd;
	c->fd = (int)fd;
	if (o->leader)
		o->leader->leads = 1;
	if (o->may_user && (c->format == PF_COUNTER_FORMAT || c->format == PF_METER_FORMAT)) {
		c->user.fd = c->fd;
		c->user.owner = pf_thread_token();
		c->user.may = 1;
	}
	return 0;
}

void pf_event_close(struct pf_counter *c)
{
	const int fd = c->fd;

	pf_own_forget(c);
	c->fd = -1;
	pf_user_drop(&c->user);
	if (fd < 0)
		return;
	if (c->leads && !(pf_counter_state(c) & PF_COUNTER_ON) && !pf_inherited(c->generation))
		pf_sys->ioctl(fd, PF_IOC_DISABLE, (void *)(uintptr_t)PF_IOC_FLAG_GROUP);
	pf_sys->close(fd);
}

int pf_event_lost(const struct pf_counter *c, uint64_t *out)
{
	uint64_t words[3 + 3 * 128], id = 0; /* a group has at most 128 events */
	struct pf_reading rd;
	ssize_t n;

	if (!(c->format & PF_FORMAT(LOST)))
		return 0;
	n = pf_counter_read(c, words, sizeof words / sizeof *words);
	if (n <= 0 || pf_read_decode(c->format, words, (size_t)n, &rd) < 0)
		return 0;
	if (rd.nr > 1 && (!rd.id_at || pf_counter_ioctl_ptr(c, PF_IOC_ID, &id) < 0))
		return 0;
	for (uint64_t i = 0; i < rd.nr; i++)
		if (rd.nr == 1 || rd.values[i * rd.stride + rd.id_at] == id) {
			*out = rd.values[i * rd.stride + rd.lost_at];
			return 1;
		}
	return 0;
}
