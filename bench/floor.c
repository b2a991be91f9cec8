/* The floor of the benchmark: the cheapest sequence of system calls that gives the same numbers, with nothing around them. Counts
 * are read with their times, by which they are scaled, but without ids, which are the same at each read; an event alone is read
 * without PERF_FORMAT_GROUP.
 *
 *     floor ROW [GROUPS]
 *     floor faults N       touches N fresh pages, for a perf.data file with as many samples
 *
 * GROUPS are the kernel groups to use, as "type:config,type:config;type:config": members of one group are separated by commas,
 * groups by semicolons; ":u" after a config excludes the kernel. Prints "ready", then for each number N on its input the
 * nanoseconds that N repetitions took; 0 ends it. Reading an event takes longer the more events its task has open, so this
 * process opens only the row's events. */
#include <linux/perf_event.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { MAX_GROUPS = 16, MAX_EVENTS = 64, WORDS = 3 + 2 * MAX_EVENTS, RING_PAGES = 256, SAMPLES = 4000 };

struct group {
	int n, fd[MAX_EVENTS];
	struct perf_event_attr attr[MAX_EVENTS];
};

static struct group groups[MAX_GROUPS];
static int ngroups;
static uint64_t before[MAX_GROUPS][WORDS], after[MAX_GROUPS][WORDS];

static void die(const char *what)
{
	printf("none %s\n", what);
	exit(0);
}

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int open_event(struct perf_event_attr *attr, int leader)
{
	return (int)syscall(SYS_perf_event_open, attr, 0, -1, leader, PERF_FLAG_FD_CLOEXEC);
}

static void parse(const char *text)
{
	struct group *g = groups;

	ngroups = 1;
	for (char *end; *text; text = end) {
		struct perf_event_attr *a = &g->attr[g->n++];

		memset(a, 0, sizeof *a);
		a->size = sizeof *a;
		a->type = (uint32_t)strtoul(text, &end, 10);
		a->config = strtoull(end + 1, &end, 10);
		a->read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
		if (strncmp(end, ":u", 2) == 0) {
			a->exclude_kernel = 1;
			end += 2;
		}
		if (*end == ';') {
			g = &groups[ngroups++];
			end++;
		} else if (*end == ',') {
			end++;
		}
	}
	for (g = groups; g < groups + ngroups; g++)
		for (int i = 0; g->n > 1 && i < g->n; i++)
			g->attr[i].read_format |= PERF_FORMAT_GROUP;
}

/* Opens everything; it runs from the start on. */
static void open_groups(void)
{
	for (struct group *g = groups; g < groups + ngroups; g++)
		for (int i = 0; i < g->n; i++) {
			g->fd[i] = open_event(&g->attr[i], i ? g->fd[0] : -1);
			if (g->fd[i] < 0)
				die("perf_event_open was refused");
		}
}

static void close_groups(void)
{
	for (struct group *g = groups; g < groups + ngroups; g++)
		for (int i = g->n; i-- > 0;)
			close(g->fd[i]);
}

static void read_groups(uint64_t into[][WORDS])
{
	for (int i = 0; i < ngroups; i++)
		if (read(groups[i].fd[0], into[i], sizeof into[i]) <= 0)
			abort();
}

static void nothing(void)
{
}
static void (*volatile fn)(void) = nothing;

static uint64_t run_measure(unsigned n)
{
	uint64_t start = now();

	while (n--) {
		read_groups(before);
		fn();
		read_groups(after);
	}
	return now() - start;
}

static uint64_t run_read(unsigned n)
{
	uint64_t start = now();

	while (n--)
		read_groups(after);
	return now() - start;
}

/* A count starts at 0, so one read is enough. */
static uint64_t run_first(unsigned n)
{
	uint64_t start = now();

	while (n--) {
		open_groups();
		fn();
		read_groups(after);
		close_groups();
	}
	return now() - start;
}

/* n events open at once; closing them is not counted. */
static uint64_t run_many(unsigned n)
{
	int *fd = malloc(n * sizeof *fd);
	uint64_t start = now(), end;

	for (unsigned i = 0; i < n; i++)
		fd[i] = open_event(&groups[0].attr[0], -1);
	end = now();
	for (unsigned i = 0; i < n; i++)
		if (close(fd[i]) < 0)
			abort();
	free(fd);
	return end - start;
}

/* --- records from a ring -------------------------------------------------------------------------------------------- */

static struct perf_event_mmap_page *ring;
static char *pages;
static long page_size;
static volatile uint64_t sum;

static void *map_ring(int fd)
{
	void *p = mmap(NULL, (size_t)((RING_PAGES + 1) * page_size), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	return p == MAP_FAILED ? NULL : p;
}

static struct perf_event_attr sampling(void)
{
	struct perf_event_attr a;

	memset(&a, 0, sizeof a);
	a.size = sizeof a;
	a.type = PERF_TYPE_SOFTWARE;
	a.config = PERF_COUNT_SW_PAGE_FAULTS;
	a.sample_period = 1;
	a.sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_ADDR;
	a.disabled = 1;
	a.wakeup_events = 1u << 30;
	return a;
}

static void open_ring(void)
{
	struct perf_event_attr a = sampling();

	groups[0].fd[0] = open_event(&a, -1);
	ring = groups[0].fd[0] < 0 ? NULL : map_ring(groups[0].fd[0]);
	pages = mmap(NULL, (size_t)(SAMPLES * page_size), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (!ring || pages == MAP_FAILED)
		die("a ring was refused");
	madvise(pages, (size_t)(SAMPLES * page_size), MADV_NOHUGEPAGE);
}

/* Reads n samples, four fields each. Only the reading is timed, not the faults that write them. */
static uint64_t run_ring(unsigned n)
{
	const char *data = (const char *)ring + page_size;
	const uint64_t mask = (uint64_t)(RING_PAGES * page_size) - 1;
	uint64_t spent = 0;

	while (n > 0) {
		unsigned batch = n < SAMPLES ? n : SAMPLES, seen = 0;
		uint64_t start, head, tail, total = 0;

		madvise(pages, (size_t)(SAMPLES * page_size), MADV_DONTNEED);
		ioctl(groups[0].fd[0], PERF_EVENT_IOC_ENABLE, 0);
		for (unsigned i = 0; i < batch; i++)
			pages[i * page_size] = 1;
		ioctl(groups[0].fd[0], PERF_EVENT_IOC_DISABLE, 0);

		start = now();
		head = __atomic_load_n(&ring->data_head, __ATOMIC_ACQUIRE);
		for (tail = ring->data_tail; tail < head;) {
			union {
				struct perf_event_header h;
				struct {
					struct perf_event_header h;
					uint64_t ip;
					uint32_t pid, tid;
					uint64_t time, addr;
				} s;
				char bytes[64];
			} r;
			uint64_t at = tail & mask, left = mask + 1 - at;

			if (left >= sizeof r.s) {
				memcpy(&r, data + at, sizeof r.s);
			} else {
				memcpy(r.bytes, data + at, left);
				memcpy(r.bytes + left, data, sizeof r.s - left);
			}
			if (r.h.type == PERF_RECORD_SAMPLE) {
				total += r.s.ip + r.s.tid + r.s.time + r.s.addr;
				seen++;
			}
			tail += r.h.size;
		}
		__atomic_store_n(&ring->data_tail, tail, __ATOMIC_RELEASE);
		spent += now() - start;
		sum += total;
		if (seen < batch)
			abort();
		n -= batch;
	}
	return spent;
}

/* n mapped events, each with a ring. */
static uint64_t run_rings(unsigned n)
{
	struct perf_event_attr a = sampling();
	uint64_t start = now(), end;
	int *fd = malloc(n * sizeof *fd);
	void **map = malloc(n * sizeof *map);

	for (unsigned i = 0; i < n; i++) {
		fd[i] = open_event(&a, -1);
		map[i] = mmap(NULL, (size_t)(9 * page_size), PROT_READ | PROT_WRITE, MAP_SHARED, fd[i], 0);
		if (map[i] == MAP_FAILED)
			abort();
	}
	end = now();
	for (unsigned i = 0; i < n; i++) {
		munmap(map[i], (size_t)(9 * page_size));
		close(fd[i]);
	}
	free(fd);
	free(map);
	return end - start;
}

static int touch(size_t n)
{
	char *p = mmap(NULL, n * (size_t)page_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return 1;
	madvise(p, n * (size_t)page_size, MADV_NOHUGEPAGE);
	for (size_t i = 0; i < n; i++)
		p[i * (size_t)page_size] = 1;
	return 0;
}

int main(int argc, char **argv)
{
	const char *row = argc > 1 ? argv[1] : "";
	uint64_t (*run)(unsigned);
	unsigned n;

	setvbuf(stdout, NULL, _IOLBF, 0);
	page_size = sysconf(_SC_PAGESIZE);
	if (argc > 2 && strcmp(row, "faults") == 0)
		return touch(strtoul(argv[2], NULL, 10));
	if (argc > 2)
		parse(argv[2]);
	if (strncmp(row, "measure", 7) == 0 || strncmp(row, "span", 4) == 0 || strncmp(row, "read", 4) == 0) {
		open_groups();
		run = *row == 'r' ? run_read : run_measure;
	} else if (strncmp(row, "first", 5) == 0) {
		if (strstr(row, "kept"))
			open_groups(); /* they stay open: the descriptors are forgotten */
		run = run_first;
	} else if (strncmp(row, "many-events", 11) == 0) {
		run = run_many;
	} else if (strncmp(row, "many-rings", 10) == 0) {
		run = run_rings;
	} else if (strncmp(row, "ring", 4) == 0) {
		open_ring();
		run = run_ring;
	} else {
		die("no such row in C");
	}
	puts("ready");
	while (scanf("%u", &n) == 1 && n > 0)
		printf("%llu\n", (unsigned long long)run(n));
	return 0;
}
