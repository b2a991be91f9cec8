/* The parts of perf.ext.symbols: symbols.c (resolver of addresses), symbols_elf.c (one file:
 * offsets, build ids), symbols_unwind.c (stacks), symbols_kernel.c (/proc/kallsyms), symbols_text.c (files of other users). */
#ifndef PX_SYMBOLS_H
#define PX_SYMBOLS_H

#include <elfutils/libdwfl.h>
#include <gelf.h>

#include "ext/base/ext.h"

#define PX_RESOLVER "perf.symbols.Resolver"

/* Owns a Dwfl session: the modules and the data read from them. dwfl is NULL when closed. */
struct px_resolver {
	Dwfl *dwfl;
	Dwfl_Callbacks callbacks;
	char *debuginfo_path; /* NULL: libdwfl's own list of directories */
	int attached;         /* for symbols_unwind.c's callbacks */
	struct px_sample *sample;
};

struct px_resolver *px_check_resolver(lua_State *L, int i);

/* Open a regular file for reading, without waiting. Returns the descriptor or -errno. */
int px_open_regular(const char *path, int flags);

/* nil, "what: libdwfl's message", code */
int px_dwfl_fail(lua_State *L, const char *what);

/* symbols_elf.c */
int px_symbol_offset(lua_State *L);
/* Finds the load address of a file, if its bytes from pgoff on are mapped at addr. *bias: the number to add to the file's own
 * addresses; *first: its first own address. Returns 0 or -errno; fd stays open. */
int px_load_bias(int fd, uint64_t addr, uint64_t pgoff, uint64_t *bias, uint64_t *first);

/* symbols_unwind.c: resolver:frames(machine registers, stack, most) */
int px_unwind(lua_State *L);

/* symbols_kernel.c, symbols_text.c: add their functions to the module on top of the stack */
void px_open_kernel(lua_State *L);
/* Read all bytes of a descriptor into memory of malloc, with a zero byte at the end. Returns 0 or -errno. */
int px_read_all(int fd, char **out, size_t *size);
int px_read_owned(lua_State *L);

#endif
