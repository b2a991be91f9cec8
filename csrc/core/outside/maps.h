/* The mappings of a process, and what is found in them: its Lua states, the unwind tables of its code. */
#ifndef PF_MAPS_H
#define PF_MAPS_H

#include <sys/types.h>

#include "core/outside/reader.h"
#include "core/stack/c_frames.h"

struct pf_map {
	uint64_t from, to, offset;
	uint64_t device, inode; /* 0: no file */
	int readable, writable, executable, shared;
	int is_stack; /* the first thread's C stack */
	const char *path; /* up to the end of the line */
};

/* The text of /proc/PID/maps (0: of this process), which the caller frees. Returns NULL and -errno in *error: -ESRCH if the process has
 * ended, also if its parent has not waited for it yet. */
char *pf_maps_text(pid_t pid, int *error);
/* The mapping that a line of it describes. Returns the next line, NULL after the last one. */
const char *pf_maps_next(const char *line, struct pf_map *map);

/* Get the range of the first thread's C stack; 0 to 0 if it is not in the text. */
void pf_maps_stack(const char *text, uint64_t *from, uint64_t *to);

/* List the mappings that never change. */
void pf_maps_fixed(const char *text, struct pf_fixed *fixed);

/* The objects with code of another process. */
void pf_maps_code(struct pf_process_memory *m, const char *text, struct pf_code *code);

/* Translate an address of a process with the maps `here` to a process with the maps `there`: to the address of the same byte of the
 * same file. Returns 0 if the file is not mapped there. */
uint64_t pf_maps_translate(const char *here, uint64_t address, const char *there);

#endif
