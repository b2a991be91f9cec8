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
	CALL(fdatasync), CALL(flock), CALL(fcntl), CALL(connect), CALL(accept4), CALL(recvfrom), CALL(sendto),
	CALL(recvmsg), CALL(sendmsg), CALL(ppoll), CALL(pselect6), CALL(epoll_pwait), CALL(nanosleep), CALL(clock_nanosleep),
	CALL(wait4), CALL(waitid), CALL(clone), CALL(execve), CALL(futex), CALL(madvise), CALL(mmap), CALL(munmap),
#ifdef SYS_poll
	CALL(poll), CALL(select), CALL(epoll_wait), CALL(open), CALL(vfork), CALL(stat), CALL(lstat), CALL(unlink), CALL(rename),
#endif
#ifdef SYS_accept
	CALL(accept),
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
	char *text;
};

static void add(struct line *l, const char *text)
{
	size_t n = strlen(text), room = PF_WATCH_LINE - 1 - l->n;

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

static int is_leap(long year)
{
	return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

/* The time, as in nginx's error log. localtime_r would take a lock. */
static void add_time(struct line *l, long seconds)
{
	static const int lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
	long year = 1970, day = seconds / 86400, n;
	int month = 0;
	char text[96];

	for (; day >= (n = 365 + is_leap(year)); year++)
		day -= n;
	for (; day >= (n = lengths[month] + (month == 1 && is_leap(year))); month++)
		day -= n;
	seconds %= 86400;
	snprintf(text, sizeof text, "%ld/%02d/%02ld %02ld:%02ld:%02ld ", year, month + 1, day + 1, seconds / 3600, seconds / 60 % 60,
		 seconds % 60);
	add(l, text);
}

size_t pf_watch_line(char to[PF_WATCH_LINE], const struct pf_blocked *b, const char *route, const char *phase, uint64_t ns,
		     long gmt_offset)
{
	struct line l = {.text = to};
	char text[96];
	const char *call = b->call >= 0 ? pf_watch_call(b->call) : NULL;

	add_time(&l, (long)time(NULL) + gmt_offset);
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
	to[l.n++] = '\n';
	return l.n;
}
