/* The mappings of a process, from /proc/PID/maps:
 *
 *     7f6227f13000-7f6227f1a000 r--p 00000000 fe:00 1234     /usr/lib/libc.so.6
 *     7f6227f1a000-7f6227f30000 r-xp 00007000 fe:00 1234     /usr/lib/libc.so.6
 *
 * libdwfl parses that text and takes every ELF file in it for a module. But a program may also map a file only to read it, as
 * libdwfl itself does. So we pass on only runs of lines of one file that have rising offsets and include code. */
#include "ext/symbols/symbols.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct line {
	uint64_t start, end, offset, inode;
	unsigned major, minor;
	char perms[5];
	const char *path;
};

/* Parse one line, which ends with a zero byte. */
static int parse(const char *p, struct line *out)
{
	int at = -1;

	if (sscanf(p, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %x:%x %" SCNu64 " %n", &out->start, &out->end, out->perms,
		   &out->offset, &out->major, &out->minor, &out->inode, &at) < 7 ||
	    at < 0)
		return -1;
	out->path = p + at;
	return 0;
}

static int same_run(const struct line *a, const struct line *b)
{
	return a->inode == b->inode && a->major == b->major && a->minor == b->minor && b->offset != 0 &&
	       b->offset >= a->offset && strcmp(a->path, b->path) == 0;
}

/* Keep only the runs that have code, in place, with zero bytes for newlines. *vdso: the line of the vdso. */
static size_t filter(char *text, size_t size, struct line *vdso)
{
	char *out = text, *run = text;
	struct line last = {.inode = 0};
	int code = 0;

	memset(vdso, 0, sizeof *vdso);
	for (char *p = text, *end; (end = memchr(p, '\n', (size_t)(text + size - p))); p = end + 1) {
		struct line now;
		size_t n = (size_t)(end - p) + 1;

		*end = '\0';
		if (parse(p, &now) < 0)
			continue;
		if (strcmp(now.path, "[vdso]") == 0)
			*vdso = now;
		if (!last.inode || !now.inode || !same_run(&last, &now)) {
			if (!code)
				out = run;
			run = out;
			code = 0;
		}
		last = now;
		if (!now.inode)
			continue;
		code |= now.perms[2] == 'x';
		memmove(out, p, n); /* to the left, zero byte included; last.path is compared before more is put there */
		last.path = out + (now.path - p);
		out += n;
	}
	if (!code)
		out = run;
	return (size_t)(out - text);
}

int px_report_process(Dwfl *dwfl, int pid)
{
	char path[64], *text;
	struct line vdso;
	size_t size, n;
	FILE *f;
	int fd, r;

	snprintf(path, sizeof path, "/proc/%d/maps", pid);
	fd = px_open_regular(path);
	if (fd < 0)
		return fd;
	r = px_read_all(fd, &text, &size);
	close(fd);
	if (r < 0)
		return r;
	n = filter(text, size, &vdso);
	for (size_t i = 0; i < n; i++)
		if (text[i] == '\0')
			text[i] = '\n';
	f = n ? fmemopen(text, n, "r") : NULL;
	if (n && !f) {
		r = -errno;
	} else if (f) {
		r = dwfl_linux_proc_maps_report(dwfl, f);
		r = r > 0 ? -r : r < 0;
		fclose(f);
	}
	free(text);
	/* With this name, libdwfl's callback reads the vdso from the process's memory. */
	snprintf(path, sizeof path, "[vdso: %d]", pid);
	if (r == 0 && vdso.end)
		dwfl_report_module(dwfl, path, vdso.start, vdso.end);
	return r;
}
