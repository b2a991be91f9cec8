/* See maps.h. */
#include "core/outside/maps.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "core/base/sys.h"
#include "core/outside/reader.h"

char *pf_maps_text(pid_t pid, int *error)
{
	size_t room = 1 << 16, n = 0;
	char path[32], *text = NULL, first;
	ssize_t got;
	int fd;

	if (pid)
		snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
	else
		strcpy(path, "/proc/self/maps");
	fd = pf_sys->open(path, O_RDONLY, 0);
	*error = fd < 0 ? fd : 0;
	if (fd < 0)
		return NULL;
	do {
		char *more = realloc(text, room);

		if (!more) {
			got = -ENOMEM;
			break;
		}
		text = more;
		got = pf_sys->read(fd, text + n, room - n - 1);
		if (got > 0)
			n += (size_t)got;
		if (n + 1 == room)
			room *= 2;
	} while (got > 0);
	/* If the process ends meanwhile, the list stops there, as if it had ended: then it is empty from now on. */
	if (got == 0) {
		got = pf_sys->pread(fd, &first, 1, 0);
		got = got == 0 ? -ESRCH : got < 0 ? got : 0;
	}
	pf_sys->close(fd);
	if (got == 0) {
		char *fitting = realloc(text, n + 1);

		text = fitting ? fitting : text;
		text[n] = '\0';
		return text;
	}
	free(text);
	*error = (int)got;
	return NULL;
}

const char *pf_maps_next(const char *line, struct pf_map *map)
{
	char perms[5], head[128]; /* the line up to the path: sscanf looks for the end of its text first, which may be far */
	unsigned major, minor;
	const char *end;
	int name = 0;

	snprintf(head, sizeof head, "%.*s", (int)sizeof head - 1, line);
	if (sscanf(head, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %x:%x %" SCNu64 " %n", &map->from, &map->to, perms, &map->offset, &major,
		   &minor, &map->inode, &name) < 7)
		return NULL;
	map->device = makedev(major, minor);
	map->readable = perms[0] == 'r';
	map->writable = perms[1] == 'w';
	map->executable = perms[2] == 'x';
	map->shared = perms[3] == 's';
	map->path = line + name;
	map->is_stack = strncmp(map->path, "[stack]", 7) == 0;
	end = strchr(line, '\n');
	return end ? end + 1 : line + strlen(line);
}

void pf_maps_stack(const char *text, uint64_t *from, uint64_t *to)
{
	const char *line = strstr(text, "[stack]");
	struct pf_map map;

	while (line && line > text && line[-1] != '\n')
		line--;
	*from = *to = 0;
	if (!line || !pf_maps_next(line, &map) || !map.is_stack)
		return;
	*from = map.from;
	*to = map.to;
}

void pf_maps_fixed(const char *text, struct pf_fixed *fixed)
{
	struct pf_fixed_range *r;
	struct pf_map map;
	size_t size;

	memset(fixed, 0, sizeof *fixed);
	while ((text = pf_maps_next(text, &map)) != NULL && fixed->n < PF_READER_RANGES) {
		if (!map.inode || !map.readable || map.writable)
			continue;
		r = &fixed->ranges[fixed->n];
		if (fixed->n && r[-1].inode == map.inode && r[-1].to == map.from && r[-1].offset + (map.from - r[-1].from) == map.offset) {
			r[-1].to = map.to;
			continue;
		}
		*r = (struct pf_fixed_range){map.from, map.to, map.offset, map.inode, ""};
		size = strcspn(map.path, "\n");
		memcpy(r->path, map.path, size < sizeof r->path ? size : 0);
		fixed->n++;
	}
}

/* --- code ------------------------------------------------------------------------------------------------------------------ */

/* The object whose file begins at this mapping. */
static void add_object(struct pf_process_memory *m, uint64_t base, struct pf_code *code)
{
	enum { MOST_HEADERS = 32 };
	Elf64_Phdr headers[MOST_HEADERS];
	Elf64_Ehdr e;
	uint64_t from = UINT64_MAX, end = 0, table = 0, bias = 0;
	int has_bias = 0;

	if (sizeof(void *) != 8 || pf_read_process(m, &e, base, sizeof e) < 0 || memcmp(e.e_ident, ELFMAG, SELFMAG) != 0 ||
	    e.e_ident[EI_CLASS] != ELFCLASS64 || e.e_phnum > MOST_HEADERS || e.e_phentsize != sizeof *headers ||
	    pf_read_process(m, headers, base + e.e_phoff, e.e_phnum * sizeof *headers) < 0)
		return;
	for (unsigned i = 0; i < e.e_phnum && !has_bias; i++)
		if (headers[i].p_type == PT_LOAD && headers[i].p_offset == 0) {
			bias = base - headers[i].p_vaddr;
			has_bias = 1;
		}
	for (unsigned i = 0; i < e.e_phnum && has_bias; i++) {
		const uint64_t at = bias + headers[i].p_vaddr, last = at + headers[i].p_memsz;

		if (headers[i].p_type == PT_GNU_EH_FRAME)
			table = at;
		if (headers[i].p_type == PT_LOAD && headers[i].p_flags & PF_X) {
			from = at < from ? at : from;
			end = last > end ? last : end;
		}
	}
	if (!table || from >= end)
		return;
	code->objects[code->n].from = from;
	code->objects[code->n].end = end;
	code->objects[code->n].table = table;
	code->n++;
}

void pf_maps_code(struct pf_process_memory *m, const char *text, struct pf_code *code)
{
	struct pf_map map;

	code->n = 0;
	while ((text = pf_maps_next(text, &map)) != NULL && code->n < PF_CODE_OBJECTS)
		if (map.inode && map.offset == 0 && map.readable && !map.shared)
			add_object(m, map.from, code);
}

uint64_t pf_maps_translate(const char *here, uint64_t address, const char *there)
{
	struct pf_map map, other;

	while ((here = pf_maps_next(here, &map)) != NULL) {
		uint64_t offset;

		if (address < map.from || address >= map.to)
			continue;
		if (!map.inode)
			return 0;
		offset = address - map.from + map.offset;
		while ((there = pf_maps_next(there, &other)) != NULL)
			if (other.inode == map.inode && other.device == map.device && other.executable == map.executable && other.writable == map.writable &&
			    offset - other.offset < other.to - other.from)
				return other.from + (offset - other.offset);
		return 0;
	}
	return 0;
}
