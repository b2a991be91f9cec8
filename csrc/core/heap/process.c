/* See process.h. */
#include "core/heap/process.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/sys.h"
#include "core/base/thread.h"

/* The begin of the file; the arrays follow it. `done` is written last. */
struct image {
	struct pf_heap h;
	uint64_t at[PF_HEAP_ARRAYS];
	uint64_t size;
	int result, done;
};

enum { FILE_FD, END_FD, KEPT_FDS, ALIGNED = 64 };

/* Block the signals of a mask, and no others, by a system call: the C library's function leaves out the signals that it uses itself.
 * Returns the mask before. */
static uint64_t set_mask(uint64_t mask)
{
	uint64_t old = 0;

	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &mask, &old, sizeof mask);
	return old;
}

/* --- the child ------------------------------------------------------------------------------------------------------- */

/* The limit on the size of files (RLIMIT_FSIZE) holds for the file in memory too. If it cannot be raised far enough, the write shall
 * fail: the signal that the kernel also sends would end the child with a core file as large as the program. */
static void raise_file_limit(void)
{
	const struct sigaction ignore = {.sa_handler = SIG_IGN};
	struct rlimit most;

	sigaction(SIGXFSZ, &ignore, NULL);
	if (getrlimit(RLIMIT_FSIZE, &most) == 0) {
		most.rlim_cur = most.rlim_max;
		setrlimit(RLIMIT_FSIZE, &most);
	}
}

/* A signal that the program handles would run the program's code here. */
static void reset_signals(void)
{
	const struct sigaction ignore = {.sa_handler = SIG_IGN}, normal = {.sa_handler = SIG_DFL};
	struct sigaction now;

	for (int s = 1; s < NSIG; s++)
		if (sigaction(s, NULL, &now) == 0 && now.sa_handler != SIG_IGN && now.sa_handler != SIG_DFL)
			sigaction(s, s == SIGPIPE || s == SIGHUP || s == SIGUSR1 || s == SIGUSR2 || s == SIGPROF ? &ignore : &normal, NULL);
}

/* Keep only the two descriptors that are needed, as numbers 0 and 1. There may be room for no other number. */
static int close_others(int file, int end)
{
	struct rlimit most = {.rlim_cur = 1024};

	if (end == FILE_FD)
		end = dup2(end, file == KEPT_FDS ? KEPT_FDS + 1 : KEPT_FDS);
	if (end < 0 || dup2(file, FILE_FD) < 0 || dup2(end, END_FD) < 0)
		return -1;
#ifdef SYS_close_range
	if (syscall(SYS_close_range, KEPT_FDS, ~0u, 0) == 0)
		return 0;
#endif
	getrlimit(RLIMIT_NOFILE, &most);
	for (int fd = KEPT_FDS; (rlim_t)fd < most.rlim_cur; fd++)
		close(fd);
	return 0;
}

/* Returns 0 or -errno. */
static int write_all(const void *from, uint64_t n, uint64_t at)
{
	while (n > 0) {
		const ssize_t done = pwrite(FILE_FD, from, (size_t)n, (off_t)at);

		if (done <= 0)
			return done < 0 ? -errno : -EIO;
		from = (const char *)from + done;
		n -= (uint64_t)done;
		at += (uint64_t)done;
	}
	return 0;
}

static void leave_image(const struct pf_heap *h, int result)
{
	struct image image = {.h = *h, .size = sizeof image, .result = result};

	for (int i = 0; i < PF_HEAP_ARRAYS && image.result == 0; i++) {
		image.at[i] = (image.size + ALIGNED - 1) / ALIGNED * ALIGNED;
		image.size = image.at[i] + h->a[i].bytes;
		image.result = write_all(h->a[i].items, h->a[i].bytes, image.at[i]);
	}
	image.done = 1;
	write_all(&image, sizeof image, 0);
}

static void run(int file, int end, uint64_t mask, int (*take)(void *data, struct pf_heap *h), void *data)
{
	struct pf_heap h = {0};

	reset_signals();
	raise_file_limit();
	set_mask(mask);
	if (close_others(file, end) == 0)
		leave_image(&h, take(data, &h));
	_exit(0);
}

/* --- the parent ------------------------------------------------------------------------------------------------------ */

static void close_fds(struct pf_heap_child *c)
{
	pf_sys->close(c->file);
	pf_sys->close(c->end);
}

static void reap(struct pf_heap_child *c)
{
	int status;

	if (!pf_inherited(c->generation))
		while (pf_sys->waitpid(c->pid, &status, __WALL) == -EINTR)
			;
	close_fds(c);
	c->pid = 0;
}

int pf_heap_fork(struct pf_heap_child *c, int (*take)(void *data, struct pf_heap *h), void *data)
{
	int fds[2], r = pf_sys->memfd_create("perf.heap", 0);
	uint64_t mask;

	if (r < 0)
		return r;
	c->file = r;
	r = pf_sys->pipe(fds);
	if (r < 0) {
		pf_sys->close(c->file);
		return r;
	}
	c->end = fds[0];
	c->generation = pf_fork_generation();
	mask = set_mask(~UINT64_C(0)); /* until the child has removed the program's handlers */
	r = (int)pf_sys->clone();
	if (r == 0)
		run(c->file, fds[1], mask, take, data);
	set_mask(mask);
	pf_sys->close(fds[1]);
	if (r < 0) {
		close_fds(c);
		return r;
	}
	c->pid = r;
	return 0;
}

static int map(struct pf_heap_child *c, struct pf_heap *h)
{
	struct image image;
	void *p;
	int r;

	if (pf_sys->pread(c->file, &image, sizeof image, 0) != (ssize_t)sizeof image || !image.done)
		return -ECHILD;
	if (image.result < 0)
		return image.result;
	r = pf_sys->mmap(&p, (size_t)image.size, PROT_READ, MAP_SHARED, c->file, 0);
	if (r < 0)
		return r;
	*h = image.h;
	h->map = p;
	h->map_size = (size_t)image.size;
	for (int i = 0; i < PF_HEAP_ARRAYS; i++)
		h->a[i].items = (char *)p + image.at[i];
	return 0;
}

int pf_heap_receive(struct pf_heap_child *c, struct pf_heap *h, int timeout)
{
	const uint64_t start = pf_clock_ns(CLOCK_MONOTONIC);
	struct pollfd end = {.fd = c->end, .events = POLLIN};
	int left = timeout, r;

	/* A signal of the program ends the poll, whatever its flags are. */
	while ((r = pf_sys->poll(&end, 1, left)) == -EINTR)
		if (timeout >= 0) {
			const uint64_t ms = (pf_clock_ns(CLOCK_MONOTONIC) - start) / 1000000;

			left = ms < (uint64_t)timeout ? timeout - (int)ms : 0;
		}
	if (r <= 0)
		return r == 0 ? -ETIMEDOUT : r;
	r = map(c, h);
	reap(c);
	return r;
}

void pf_heap_abandon(struct pf_heap_child *c)
{
	if (!c->pid)
		return;
	if (!pf_inherited(c->generation))
		pf_sys->kill(c->pid, SIGKILL);
	reap(c);
}
