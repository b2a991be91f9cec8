/* The build id that the linker gave a program or library: a note in its ELF file. */
#ifndef PF_BUILD_ID_H
#define PF_BUILD_ID_H

#include <stddef.h>

#define PF_BUILD_ID_MAX 64 /* the linker makes at most 20 bytes, unless it is told which */

struct pf_build_id {
	unsigned char bytes[PF_BUILD_ID_MAX];
	unsigned char size;
};

/* The build id of a regular file, of 32 or 64 bits and either byte order. Returns 0; -ENODATA if the file has none; -ENOEXEC if it
 * is not an ELF file; or -errno. Reads a bounded part of the file. */
int pf_build_id_of_file(const char *path, struct pf_build_id *out);
int pf_build_id_of_fd(int fd, struct pf_build_id *out);

/* The build id of the running kernel, from /sys/kernel/notes. */
int pf_build_id_of_kernel(struct pf_build_id *out);

#endif
