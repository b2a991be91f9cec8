/* Learns the places that the reader of a heap needs (core/heap/luajit.h, puc.h) in this interpreter. All of it happens in a Lua state
 * of its own, whose allocator knows each block: so a field is found by known values and known blocks, and in the end each block must be
 * explained. The program's own state is not touched.
 *
 * A byte of an address may look like the value that is searched. So there are several attempts, each with its blocks at other addresses,
 * until two of them have found the same layout.
 *
 *   learn.c                 the state, its blocks, the checks
 *   learn_luajit.c          LuaJIT: objects
 *   learn_luajit_global.c   LuaJIT: the global state, the FFI
 *   learn_luajit_vectors.c  LuaJIT: the arrays that belong to the state
 *   learn_puc.c             PUC Lua: values, strings, tables, userdata
 *   learn_puc_function.c    PUC Lua: functions, upvalues, prototypes, threads
 *   learn_puc_global.c      PUC Lua: the global state and the collector's lists */
#ifndef PB_HEAP_LEARN_H
#define PB_HEAP_LEARN_H

#include "binding/base/binding.h"
#include "binding/stack/learn.h"
#include "core/heap/luajit.h"
#include "core/heap/puc.h"

/* Is there a reader for it? */
#define PB_HEAP_IS_KNOWN (PB_LUAJIT || UINTPTR_MAX > UINT32_MAX)

#if PB_LUAJIT
#define pb_heap_layout pf_heap_luajit
#define pb_heap_reader pf_heap_luajit_reader
#else
#define pb_heap_layout pf_heap_puc
#define pb_heap_reader pf_heap_puc_reader
#endif

#if PB_HEAP_IS_KNOWN
struct pb_block {
	uint64_t at, size; /* 0: an empty slot; size 0: it was freed */
	uint32_t born;     /* the number of the allocation */
	uint16_t before;   /* unused bytes before the block, which give it another address in each attempt */
	uint16_t is_explained;
};

enum { PB_BLOCKS = 1 << 15 };

struct pb_heap_learner {
	lua_State *L; /* of the state for learning */
	struct pb_heap_layout *l;
	const char *why;
	int is_refused; /* memory was refused; whatever failed then says nothing about the interpreter */
	uint64_t global;
	uint32_t allocations, attempt;
	lua_Alloc alloc; /* behind the one that knows the blocks */
	void *ud;
	struct pb_block *blocks; /* open addressing */
	unsigned blocks_n;
	struct pb_heap_finalizing *finalizing; /* while pb_heap_finalize runs */
	struct pf_heap heap;
};

/* Learn. Returns 0, -ENOMEM, or -ENOTSUP with the reason in *why. Does not touch any other Lua state, and raises no error. */
int pb_heap_learn(const struct pf_memory *m, struct pb_heap_layout *l, const char **why);

/* --- for the learners ------------------------------------------------------------------------------------------------ */

/* Ends the learning. */
void pb_heap_fail(struct pb_heap_learner *w, const char *what) __attribute__((noreturn));
/* The size of the block that begins at an address; 0 if there is none. */
uint64_t pb_heap_block(const struct pb_heap_learner *w, uint64_t at);
/* The block that contains an address; NULL if there is none. */
struct pb_block *pb_heap_block_of(const struct pb_heap_learner *w, uint64_t at);
/* The begin of the block that has an object. */
uint64_t pb_heap_start(const struct pb_heap_learner *w, uint64_t at);
/* Run a text that may return values; the second function gives it n numbers as arguments. */
void pb_heap_run(struct pb_heap_learner *w, const char *text, int results);
void pb_heap_run_with(struct pb_heap_learner *w, const char *text, const int *numbers, int n, int results);

/* Some userdata are collected, to find the list of the objects that wait for their finalizers. */
enum { PB_HEAP_FINALIZED = 4 };
struct pb_heap_finalizing {
	/* Both rule out places. made, which may be NULL, is called after each userdata is made; narrow is called by each finalizer. */
	void (*made)(struct pb_heap_learner *w, struct pb_heap_finalizing *f, uint64_t newest);
	void (*narrow)(struct pb_heap_learner *w, struct pb_heap_finalizing *f);
	void *places, *new_places; /* of narrow, and of made */
	uint64_t waiting[PB_HEAP_FINALIZED]; /* the userdata that are not finalized yet; 0: it is finalized */
	int calls;
};
/* Make the userdata, and collect them. */
void pb_heap_finalize(struct pb_heap_learner *w, struct pb_heap_finalizing *f);
/* Returns whether `at` is a userdata that is not finalized yet; for 0, whether all are finalized. */
int pb_heap_is_waiting(const struct pb_heap_finalizing *f, uint64_t at);

/* Set `place` to the only place in [from, end), in steps, for which a condition of `o` holds. */
#define PB_HEAP_FIND(place, from, end, step, holds, what)                            \
	do {                                                                         \
		unsigned n_ = 0, at_ = 0;                                            \
                                                                                     \
		for (unsigned o = (from); o + (step) <= (end); o += (step))          \
			if (holds) {                                                 \
				n_++;                                                \
				at_ = o;                                             \
			}                                                            \
		if (n_ != 1)                                                         \
			pb_heap_fail(w, what);                                       \
		(place) = (uint16_t)at_;                                             \
	} while (0)

/* Set it to the first of them. */
#define PB_HEAP_FIND_FIRST(place, from, end, step, holds, what)                      \
	do {                                                                         \
		unsigned o = (from);                                                 \
                                                                                     \
		while (o + (step) <= (end) && !(holds))                              \
			o += (step);                                                 \
		if (o + (step) > (end))                                              \
			pb_heap_fail(w, what);                                       \
		(place) = (uint16_t)o;                                               \
	} while (0)

/* The interpreter's part: all of the layout. */
void pb_heap_learn_layout(struct pb_heap_learner *w, const struct pf_memory *m);
/* The address of L's global state. */
uint64_t pb_heap_global(lua_State *L, const struct pb_heap_layout *l);
/* The address of the global variables' table. */
uint64_t pb_heap_globals(lua_State *L);

#if PB_LUAJIT
void pb_heap_learn_objects(struct pb_heap_learner *w);
void pb_heap_learn_global(struct pb_heap_learner *w);
void pb_heap_learn_roots(struct pb_heap_learner *w);
void pb_heap_learn_ffi(struct pb_heap_learner *w);
void pb_heap_learn_vectors(struct pb_heap_learner *w);
#else
/* The address of the object at an index; of strings too. */
uint64_t pb_heap_at(const struct pb_heap_learner *w, int i);
void pb_heap_learn_state(struct pb_heap_learner *w);
void pb_heap_learn_values(struct pb_heap_learner *w);
void pb_heap_learn_functions(struct pb_heap_learner *w);
void pb_heap_learn_threads(struct pb_heap_learner *w);
void pb_heap_learn_global(struct pb_heap_learner *w);
/* The array that the global state has for the making of strings, if it has one; all other blocks are known. */
void pb_heap_learn_buffer(struct pb_heap_learner *w);
/* Is an object in the collector's list of all objects? */
int pb_heap_is_listed(const struct pb_heap_learner *w, uint64_t at);
/* A pointer to an array of s, and the count that explains the size of the array, in n structures. Returns 0 if there is none. */
int pb_heap_find_items(const struct pb_heap_learner *w, const uint64_t s[], unsigned n, unsigned bytes, unsigned pointer, struct pf_heap_items *v);
#endif
#endif
#endif
