/* The Lua states of another process, and what the BPF program has to know of them. */
#ifndef PF_STATES_H
#define PF_STATES_H

#include "core/outside/reader.h"
#include "core/stack/c_frames.h"
#include "core/stack/unwind_luajit.h"
#include "core/stack/unwind_puc.h"

/* An interpreter, by the layout of its structures. */
struct pf_interpreter {
	int is_puc;
	struct pf_luajit_layout luajit;
	struct pf_puc_layout puc;
};

/* A search may take seconds. Once for each MiB it asks `ends` whether to end, with -EINTR. */
struct pf_search_end {
	int (*ends)(void *owner);
	void *owner;
};

/* Find the global states: search the writable memory of the process for main threads. Returns their number, at most
 * PF_SNAPSHOT_STATES, or -errno. maps: its mappings. l: LuaJIT's layout in that process: main_below is changed if its threads have another
 * size, as those of OpenResty's LuaJIT are larger than those of the original. */
int pf_states_find(const struct pf_interpreter *i, struct pf_luajit_layout *l, struct pf_process_memory *m, const char *maps,
		   uint64_t *global, const struct pf_search_end *end);
/* Does the process still have this global state? */
int pf_states_has(const struct pf_interpreter *i, const struct pf_luajit_layout *l, struct pf_process_memory *m, uint64_t global);

/* The layout for the BPF program. Returns 0, or -ENOTSUP if it has no room for an object. */
int pf_states_layout(const struct pf_interpreter *i, struct pf_snapshot_layout *l);
/* The fields of objects that do not change, and what may be read from the process, for a reader. *i must outlive it. */
void pf_states_stable(const struct pf_interpreter *i, struct pf_reader *r);

#endif
