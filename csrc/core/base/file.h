/* A file that appears complete or not at all: written under a temporary name in its directory, and moved to its path at the end. */
#ifndef PF_OUTPUT_H
#define PF_OUTPUT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Write all bytes, also after short writes and signals; with at >= 0 at that offset. Returns 0 or -errno. */
int pf_write_all(int fd, const void *bytes, size_t size, off_t at);

struct pf_output {
	int fd;
	int error;  /* the first; nothing is written after it */
	char *temp; /* NULL for a file that is not regular, which is written directly */
	char *path;
	uint32_t generation; /* pf_fork_generation at the opening */
};

/* All return 0 or -errno. */
int pf_output_open(struct pf_output *o, const char *path);
int pf_output_write(struct pf_output *o, const void *bytes, size_t size);
/* Either the new file is in place, or the old one is unchanged and nothing else is left. Closes in both cases. */
int pf_output_commit(struct pf_output *o);
/* Discards the written data. Idempotent. In the child of a fork the file belongs to the parent and is kept. */
void pf_output_close(struct pf_output *o);

#endif
