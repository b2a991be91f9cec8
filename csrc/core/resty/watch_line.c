/* The line about a turn that goes on and on, and names of system calls. */
#include "core/resty/watch.h"

#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "core/base/sys.h"

/* System calls in which a thread may sleep. Some architectures lack some of them. */
static const struct {
	long number;
	const char *name;
} calls[] = {
#define CALL(name) {SYS_##name, #name}
	CALL(read), CALL(write), CALL(pread64), CALL(pwrite64), CALL(readv), CALL(writev), CALL(openat), CALL(close), CALL(fsync),
	CALL(fdatasync), CALL(flock), CALL(fcntl), CALL(connect), CALL(accept), CALL(accept4), CALL(recvfrom), CALL(sendto),
	CALL(recvmsg), CALL(sendmsg), CALL(ppoll), CALL(pselect6), CALL(epoll_pwait), CALL(nanosleep), CALL(clock_nanosleep),
	CALL(wait4), CALL(waitid), CALL(clone), CALL(execve), CALL(futex), CALL(madvise), CALL(mmap), CALL(munmap),
#ifdef SYS_poll
	CALL(poll), CALL(select), CALL(epoll_wait), CALL(open), CALL(vfork), CALL(stat), CALL(lstat), CALL(unlink), CALL(rename),
#endif
#ifdef SYS_statx
	CALL(statx),
#endif
#ifdef SYS_clone3
	CALL(clone3),
#endif
#undef CALL
};

const char *pf_watch_call(long number)
{
	for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
		if (calls[i].number == number)
			return calls[i].name;
	return NULL;
}

/* Text of a bounded length. */
struct line {
	size_t n;
	char text[1024];
};

static void add(struct line *l, const char *text)
{
	size_t n = strlen(text), room = sizeof l->text - l->n;

	n = n < room ? n : room;
	memcpy(l->text + l->n, text, n);
	l->n += n;
}

/* Names come from requests, so only printable bytes of ASCII stand as they are. */
static void add_escaped(struct line *l, const char *text)
{
	char byte[8];

	for (; *text; text++) {
		snprintf(byte, sizeof byte, *text >= ' ' && *text <= '~' ? "%c" : "\\x%02X", (unsigned char)*text);
		add(l, byte);
	}
}

static int ends_with(const char *text, const char *end)
{
	size_t n = strlen(text), m = strlen(end);

	return n >= m && strcmp(text + n - m, end) == 0;
}

static void add_stack(struct line *l, const struct pf_blocked *b)
{
	const char *before = ", at ";
	char number[32];
	int most = 4;

	for (unsigned i = 0; i < b->n && most > 0; i++) {
		const struct pf_watch_place *p = &b->place[i];

		if (p->kind != PF_PLACE_LUA || ends_with(p->name, "resty/perf.lua")) /* the hooks are on every stack */
			continue;
		add(l, before);
		add_escaped(l, p->name + (p->name[0] == '@' || p->name[0] == '='));
		snprintf(number, sizeof number, ":%u", (unsigned)p->line);
		add(l, number);
		before = " < ";
		most--;
	}
}

void pf_watch_tell(const struct pf_blocked *b, const char *route, const char *phase, uint64_t ns)
{
	struct line l = {0};
	struct tm tm = {0};
	time_t now = time(NULL);
	char text[96];
	const char *call = b->call >= 0 ? pf_watch_call(b->call) : NULL;

	localtime_r(&now, &tm);
	l.n = strftime(l.text, sizeof l.text, "%Y/%m/%d %H:%M:%S ", &tm);
	snprintf(text, sizeof text, "[warn] %d#%ld: blocked: a turn of ", (int)getpid(), syscall(SYS_gettid));
	add(&l, text);
	add_escaped(&l, route);
	add(&l, ", ");
	add(&l, phase);
	snprintf(text, sizeof text, ", has run for %.1fs and goes on", (double)ns / 1e9);
	add(&l, text);
	add_stack(&l, b);
	if (call) {
		add(&l, ", in the system call ");
		add(&l, call);
	}
	if (l.n == sizeof l.text)
		l.n--;
	l.text[l.n++] = '\n';
	pf_sys->write(STDERR_FILENO, l.text, l.n);
}
