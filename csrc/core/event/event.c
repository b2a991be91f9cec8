/* Reading formats (read_format decides; every field is a u64):
 *
 *   one event:  value [enabled] [running] [id] [lost]
 *   GROUP:      nr [enabled] [running] { value [id] [lost] } x nr
 */
#include "core/event/event.h"

#include <errno.h>

#include "core/kernel/attr.h"
#include "core/counts/meter.h"
#include "core/base/sys.h"
#include "core/base/thread.h"

int pf_event_open(struct pf_event *ev, struct pf_attr *attr, pid_t pid, int cpu, int group_fd, unsigned long flags,
		  uint32_t *kernel_size)
{
	uint32_t size = pf_attr_size(attr);
	long fd;

	attr->size = size;
	*kernel_size = 0;
	ev->format = attr->read_format;
	ev->generation = pf_fork_generation();
	ev->reset_at = 0;
	ev->hidden = 0;
	ev->awake = ev->shared = ev->leads = ev->held = 0;
	ev->leader = NULL;
	ev->own = (struct pf_own){.link = NULL};
	ev->off = attr->disabled && !attr->enable_on_exec;
	ev->user = (struct pf_user){.page = NULL};
	fd = pf_sys->perf_event_open(attr, pid, cpu, group_fd, flags | PF_FLAG_FD_CLOEXEC);
	if (fd == -E2BIG && attr->size != size)
		*kernel_size = attr->size;
	ev->fd = fd < 0 ? -1 : (int)fd;
	return fd < 0 ? (int)fd : 0;
}

void pf_event_may_user(struct pf_event *ev)
{
	ev->user.fd = ev->fd;
	ev->user.owner = pf_thread_token();
	ev->user.may = 1;
}

void pf_event_close(struct pf_event *ev)
{
	int fd = ev->fd;

	pf_own_forget(ev);
	ev->fd = -1;
	pf_user_drop(&ev->user);
	if (fd >= 0 && ev->leads && ev->off && !pf_inherited(ev->generation))
		pf_sys->ioctl(fd, PF_IOC_DISABLE, (void *)(uintptr_t)PF_IOC_FLAG_GROUP);
	if (fd >= 0)
		pf_sys->close(fd);
}

int pf_event_ioctl_ptr(const struct pf_event *ev, unsigned long request, void *arg)
{
	int r = pf_event_usable(ev);

	return r < 0 ? r : pf_sys->ioctl(ev->fd, request, arg);
}

int pf_event_ioctl(const struct pf_event *ev, unsigned long request, unsigned long arg)
{
	return pf_event_ioctl_ptr(ev, request, (void *)(uintptr_t)arg);
}

int pf_event_enable(struct pf_event *ev)
{
	int r = pf_event_usable(ev);

	if (r < 0)
		return r;
	if (ev->user.may) /* before the event counts; without the page, readings are system calls */
		pf_user_map(&ev->user);
	ev->off = ev->held = 0;
	return pf_sys->ioctl(ev->fd, PF_IOC_ENABLE, NULL);
}

int pf_event_reset(struct pf_event *ev)
{
	int r = pf_event_ioctl(ev, PF_IOC_RESET, 0);
	uint64_t words[PF_EVENT_WORDS], own;

	if (r == 0)
		pf_own_reset_event(ev);
	if (r == 0 && (ev->format & ~PF_FORMAT(LOST)) == PF_EVENT_FORMAT &&
	    pf_event_read_own(ev, words, PF_EVENT_WORDS, &own) >= PF_EVENT_VALUES)
		ev->reset_at = words[1];
	return r;
}

int pf_event_disable(struct pf_event *ev)
{
	int r = pf_event_ioctl(ev, PF_IOC_DISABLE, 0);

	ev->awake = 0;
	if (r == 0)
		ev->off = 1;
	return r;
}

int pf_event_user(struct pf_event *ev, uint64_t *words)
{
	struct pf_user *user = &ev->user;
	uint64_t group[3 + 2]; /* nr enabled running value id */
	int r = (ev->format & ~PF_FORMAT(LOST)) != PF_EVENT_FORMAT ? -ENOTSUP
		: ev->format != PF_EVENT_FORMAT ? -EAGAIN : pf_user_read(&user, 1, group);

	if (r < 0)
		return r;
	words[0] = group[3];
	words[1] = group[1];
	words[2] = group[2];
	words[3] = group[4];
	return 0;
}

/* Inlined into both, so that no return lies between a system call and the caller: see meter.c. */
static inline __attribute__((always_inline)) int read_one(struct pf_event *ev, uint64_t *words)
{
	ssize_t got;

	if (ev->user.page && pf_event_user(ev, words) == 0)
		return 0;
	got = pf_own_read(ev->fd, words, PF_EVENT_WORDS * sizeof *words, (struct pf_own_words){0, 3, PF_EVENT_WORDS});
	return got >= (ssize_t)(PF_EVENT_VALUES * sizeof *words) ? 0 : got < 0 ? (int)got : -ENODATA;
}

int pf_event_begin(struct pf_event *ev, uint64_t *words)
{
	int r = pf_event_usable(ev);

	if (r < 0)
		return r;
	if ((ev->format & ~PF_FORMAT(LOST)) != PF_EVENT_FORMAT)
		return -ENOTSUP;
	if (!ev->awake || ev->shared) {
		if (ev->user.may) /* not between pf_own_enter and _exit: mapping makes other system calls */
			pf_user_map(&ev->user);
		pf_own_enter(PF_OWN_IOCTL);
		r = pf_event_enable(ev);
		pf_own_exit(PF_OWN_IOCTL);
		if (r < 0)
			return r;
		ev->awake = 1;
	}
	return read_one(ev, words);
}

int pf_event_end(struct pf_event *ev, uint64_t *words)
{
	uint64_t now[PF_EVENT_WORDS];
	int r = pf_event_usable(ev);

	if (r == 0)
		r = read_one(ev, now);
	if (r < 0)
		return r;
	words[0] = ev->reset_at > words[1] ? PF_COUNT_FELL : pf_count_since(words[0], now[0]);
	for (int i = 1; i < 3; i++) /* the times of read(2) and of the user page may differ slightly */
		words[i] = now[i] > words[i] ? now[i] - words[i] : 0;
	words[3] = now[3];
	return 0;
}

ssize_t pf_event_read(const struct pf_event *ev, uint64_t *words, size_t nwords)
{
	ssize_t got = pf_event_usable(ev);

	if (got < 0)
		return got;
	got = pf_sys->read(ev->fd, words, nwords * sizeof *words);
	return got < 0 ? got : got / (ssize_t)sizeof *words;
}

ssize_t pf_event_read_own(const struct pf_event *ev, uint64_t *words, size_t nwords, uint64_t *own)
{
	ssize_t n;

	pf_own_enter(PF_OWN_READ);
	n = pf_event_read(ev, words, nwords);
	*own = ev->own.count;
	pf_own_exit(PF_OWN_READ);
	return n;
}

ssize_t pf_read_decode(uint64_t format, const uint64_t *words, size_t n, struct pf_reading *out)
{
	int group = (format & PF_FORMAT(GROUP)) != 0;
	size_t at = 0, head = group ? 1 : 0;
	unsigned stride = 1;

	*out = (struct pf_reading){.format = format, .nr = 1};
	head += (format & PF_FORMAT(TOTAL_TIME_ENABLED)) ? 1 : 0;
	head += (format & PF_FORMAT(TOTAL_TIME_RUNNING)) ? 1 : 0;
	if (format & PF_FORMAT(ID))
		out->id_at = stride++;
	if (format & PF_FORMAT(LOST))
		out->lost_at = stride++;
	out->stride = stride;

	if (n < head + (group ? 0 : stride))
		return -EBADMSG;
	if (group) {
		out->nr = words[at++];
		if (format & PF_FORMAT(TOTAL_TIME_ENABLED))
			out->enabled = words[at++];
		if (format & PF_FORMAT(TOTAL_TIME_RUNNING))
			out->running = words[at++];
		if (out->nr > (n - head) / stride)
			return -EBADMSG;
		out->values = words + at;
		return (ssize_t)(at + out->nr * stride);
	}
	/* The times stand between the value and its id: shift the offsets past them. */
	out->values = words;
	at = 1;
	if (format & PF_FORMAT(TOTAL_TIME_ENABLED))
		out->enabled = words[at++];
	if (format & PF_FORMAT(TOTAL_TIME_RUNNING))
		out->running = words[at++];
	if (out->id_at)
		out->id_at = (unsigned)at++;
	if (out->lost_at)
		out->lost_at = (unsigned)at++;
	return (ssize_t)at;
}

int pf_event_lost(const struct pf_event *ev, uint64_t *out)
{
	uint64_t words[3 + 3 * 128], id = 0; /* a group has at most 128 events */
	struct pf_reading rd;
	ssize_t n;

	if (!(ev->format & PF_FORMAT(LOST)))
		return 0;
	n = pf_event_read(ev, words, sizeof words / sizeof *words);
	if (n <= 0 || pf_read_decode(ev->format, words, (size_t)n, &rd) < 0)
		return 0;
	if (rd.nr > 1 && (!rd.id_at || pf_event_ioctl_ptr(ev, PF_IOC_ID, &id) < 0))
		return 0;
	for (uint64_t i = 0; i < rd.nr; i++)
		if (rd.nr == 1 || rd.values[i * rd.stride + rd.id_at] == id) {
			*out = rd.values[i * rd.stride + rd.lost_at];
			return 1;
		}
	return 0;
}
