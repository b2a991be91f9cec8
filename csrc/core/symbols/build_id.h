/* The build id that the linker gave a program or library: a note in its ELF file. */
#ifndef PF_BUILD_ID_H
#define PF_BUILD_ID_H

#include <stddef.h>

#define PF_BUILD_ID_MAX 20

struct pf_build_id {
	unsigned char bytes[PF_BUILD_ID_MAX];
	unsigned char size;
};

/* Of a regular file, 32 or 64 bits, either byte order. Returns 0, -ENOENT when it has none, -ENOEXEC when it is no ELF file,
 * or -errno. Reads a bounded part of it. */
int pf_build_id_of_file(const char *path, struct pf_build_id *out);

/* Of the running kernel, from its notes. */
int pf_build_id_of_kernel(struct pf_build_id *out);

#endif
