/* Collects the samples of other processes that run Lua. A BPF program on their events writes a snapshot of each sample into a ring. A
 * thread of the collector reads it at once, unwinds the stack and adds the sample to those with the same stack. The memory of a process
 * is searched for Lua states when it is attached, or at its first sample, and again when samples are outside of all known states. */
#ifndef PF_COLLECTOR_H
#define PF_COLLECTOR_H

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

#include "core/outside/states.h"
#include "core/stack/stacks.h"

/* Descriptors of the BPF program's maps. */
struct pf_snapshot_maps {
	int ring, processes, known, stacks, generations, counts, switches;
};

/* A file with code, which is one image however many processes have mapped it; or a process, for its code that is in no file. Functions
 * get their names by it. */
struct pf_image {
	pid_t pid; /* the process; of a file: one that has mapped it, and still runs if any of them does */
	char *maps; /* the mappings of the process, or the one of the file. NULL: the process has ended, and is forgotten */
	uint64_t device, inode, offset; /* of the file; inode 0: it is a process */
};

/* A mapping with code of a process. */
struct pf_mapped {
	uint64_t from, to;
	size_t at; /* of its line in the text of all mappings */
	unsigned image; /* the number of the file's image; 0: none yet */
	int is_file;
};

enum { PF_TARGET_LABELS = 64 };

struct pf_target {
	pid_t pid;
	uint64_t program; /* of its last sample; see snapshot.h */
	char *maps; /* the text of its mappings; NULL: it was not read yet, or the process has no Lua state */
	struct pf_mapped *code_maps;
	unsigned code_maps_n;
	uint64_t looked, look_pause; /* as `searched` and `pause`, but of reading the mappings again, for code that is in none of them */
	unsigned image; /* the number of its own image, from 1; 0: none yet */
	int n;          /* the number of its states, or -errno of the last search */
	uint64_t global[PF_SNAPSHOT_STATES];
	uint64_t searched, pause; /* the time of the last search, and the least time until the next one */
	int has_ended; /* it was found to have ended, and no sample of it was read since */
	int runs_lua;  /* a sample of it had a Lua state */
	struct pf_code code;
	struct pf_fixed fixed;
	struct pf_puc_layout puc; /* with the addresses of this process */
	struct pf_luajit_layout luajit; /* with the main_below of this process */
	struct {
		uint64_t address;
		uint32_t frame;
	} labels[PF_TARGET_LABELS]; /* those that were read, each in the slot of its address */
};

/* A thread that has left its CPU: the node of its stack, to which its time off the CPU is added; the time when it left, 0: it has
 * returned, or was forgotten; and how much of its time was added already. */
struct pf_off_cpu {
	uint32_t thread, node;
	pid_t number; /* the thread's number in our pid namespace; `thread` is that in the first one */
	uint64_t time, added;
};

/* A stack whose samples the BPF program counts: its key, 0: none; its node, and the samples that were added to the node. */
struct pf_stack_of_key {
	uint64_t key;
	struct pf_counted added;
	uint32_t node;
};

/* A record that was taken out of the ring; its bytes follow. */
struct pf_queued {
	struct pf_queued *next;
	uint64_t at; /* its place in the ring */
	size_t size;
};

struct pf_collector {
	struct pf_stacks stacks;
	struct pf_interpreter interpreter;
	struct pf_reader *reader;
	uint32_t *frames; /* room for one stack, and its native frames */
	uint32_t *frames_before; /* of the first of two unwindings */
	int native; /* with native frames; set it before the start, as the next one */
	int alone; /* a coroutine's stack ends at its own first function */
	char *own_maps;
	struct pf_target **targets;
	unsigned targets_n, targets_room, targets_most; /* at this number, those that have ended are forgotten */
	uint64_t targets_looked_at;                     /* when it was last asked which have ended, by CLOCK_MONOTONIC */
	struct pf_image *images;
	unsigned images_n, images_room;
	unsigned images_ended, image_of_all; /* images of processes that have ended; the shared image, 0: none yet */
	struct pf_off_cpu *off; /* a hash table by thread, with open addressing */
	uint64_t off_ns;        /* the time of those that were off their CPU at the stop, or at the last pause */
	uint64_t off_ended;     /* how many entries with `ended` were removed from the BPF program's map */
	unsigned off_n, off_slots;
	struct pf_stack_of_key *keys; /* a hash table with room for twice PF_SNAPSHOT_STACKS, with open addressing */
	unsigned keys_n, keys_refused; /* keys_refused: those for which there was no room */
	uint64_t generation_of_keys, old_until; /* old_until: no record from this place in the ring on has a key of the last generation */
	/* New keys are learned; or, before the keys of the last generation are given up, a run of the program may still use them, or
	 * the ring may have samples with them. */
	enum { PF_KEYS_LEARNED, PF_KEYS_IN_USE, PF_KEYS_IN_RING } keys_state;
	unsigned cpus;
	uint64_t *runs; /* PF_SNAPSHOT_RUNS of each CPU when this generation began; then room for the present ones */
	struct pf_snapshot_maps maps;
	/* The ring. */
	uint64_t *consumer; /* a page with the position up to which it was read */
	const uint8_t *producer; /* a page with the position up to which it was written; then the data, mapped twice */
	size_t data_size;
	struct {
		struct pf_queued *first, **last;
		size_t bytes, n;
	} queue;
	int wake[2];
	pthread_t thread;
	int running, started, is_paused;
	uint32_t generation;
	uint64_t stopped; /* the time when it was told to stop, by CLOCK_MONOTONIC */
	atomic_int stopping, pausing;
	sem_t paused, resumed;
	size_t before_pause; /* 1 more than the queued snapshots that are read before a pause; 0: none was asked for */
	uint64_t samples, resolved, sum; /* samples that were read; those of them with a stack; the weight of all */
	uint64_t dropped, dropped_weight; /* samples for which there was no memory, and their weight */
	uint64_t failures[PF_UNWIND_FAILURES];
	uint64_t ns; /* the time that the thread took for them */
};

/* The maps stay open until the end; cpus: how many values an entry of a per-CPU map has. Returns 0 or -errno; call
 * pf_collector_free after either. */
int pf_collector_init(struct pf_collector *c, const struct pf_interpreter *i, const struct pf_snapshot_maps *maps, size_t ring_size,
		      unsigned cpus);
void pf_collector_free(struct pf_collector *c); /* idempotent; stops it */

/* Look for the Lua states of a process, before the start. Returns their number or -errno. */
int pf_collector_attach(struct pf_collector *c, pid_t pid, const struct pf_search_end *end);

/* The functions below, up to pf_collector_weight, are for the files of the collector.
 *
 * Set a value in a map of the BPF program, or delete it (NULL). Returns 0 or -errno. */
int pf_collector_tell(int map, const void *key, const void *value);
/* Copy a value out of a map, or the values of all CPUs out of a per-CPU map. Returns 0 or -errno. */
int pf_collector_ask(int map, const void *key, void *value);
/* The record of a process, a new one if it has none; NULL without memory. */
struct pf_target *pf_target_of(struct pf_collector *c, pid_t pid);
void pf_target_free(struct pf_target *t);
/* Note what a sample shows of its process. */
void pf_target_seen(struct pf_collector *c, struct pf_target *t, const struct pf_snapshot_head *s);
/* The `ends` of a search in the collector's thread, with the collector as owner: empties the ring, pauses if pf_collector_pause asks for
 * it, and returns whether the collector stops. */
int pf_collector_ends(void *owner);
/* Search for its states again, unless the pause since the last search still lasts. */
void pf_target_search_again(struct pf_collector *c, struct pf_target *t);
/* Give a process that ended before it was searched what its nearest known ancestor has. */
void pf_target_adopt(struct pf_collector *c, struct pf_target *t, pid_t ancestor);
/* Forget processes that had already ended at the last look, a second ago, or sooner if there are many: the kernel may give their
 * numbers to other processes. At each look, pf_off_cpu_forget is called too. Call it when all samples were read. */
void pf_targets_forget(struct pf_collector *c);

/* images.c. Keep the text of a process's mappings, which is no longer the caller's. */
void pf_images_keep(struct pf_collector *c, struct pf_target *t, char *maps);
/* Keep a copy of an ancestor's mappings. */
void pf_images_adopt(struct pf_target *t, const struct pf_target *ancestor);
/* The number of the image that the code at an address belongs to, and in *address its place there: in a file, its offset. Returns 0 if the
 * mappings of the process are not known, or without memory. */
unsigned pf_image_at(struct pf_collector *c, struct pf_target *t, uint64_t *address);
/* Forget the mappings of a process that has ended, or that runs another program by now. All samples of the old one must have been read. */
void pf_images_forget(struct pf_collector *c, struct pf_target *t);

/* labels.c: the frame of the label at this address of the process; 0: none. */
uint32_t pf_label_frame(struct pf_collector *c, struct pf_target *t, uint64_t address);

/* counted.c. From now on the BPF program counts samples of the stack with this key, whose node this is. */
void pf_counted_know(struct pf_collector *c, uint64_t key, uint32_t node);
/* Add the samples that it has counted since the last call. */
void pf_counted_add(struct pf_collector *c);
/* If the stack of this sample has a known key, add the sample and return 1, else 0: the program may have sent it before it knew the key. */
int pf_counted_has(struct pf_collector *c, const struct pf_snapshot_head *s);
/* If many keys have found no room, begin the next generation. Later, when all samples of the last one have been read, give up its keys. */
void pf_keys_renew(struct pf_collector *c);

/* off_cpu.c: a thread leaves its CPU; a thread returns; take the last returns of threads that have ended, if the ring had no room for
 * them, from the BPF program's map; forget threads whose end the program has missed, since the kernel may give their numbers to
 * other threads; at a pause or the stop, add the time so far of the threads that are off their CPU. now: the time of the pause or
 * the stop, by CLOCK_MONOTONIC. */
void pf_off_cpu_add(struct pf_collector *c, const struct pf_snapshot_head *s, uint32_t node);
void pf_off_cpu_return(struct pf_collector *c, const struct pf_switched_in *in);
void pf_off_cpu_ended(struct pf_collector *c);
void pf_off_cpu_forget(struct pf_collector *c);
void pf_off_cpu_so_far(struct pf_collector *c, uint64_t now);
/* Add a weight to a node that has a sample. */
void pf_collector_weight(struct pf_collector *c, uint32_t node, uint64_t weight);

/* start: once; returns 0 or -errno. stop: after the events have been disabled; adds the snapshots that are left in the ring. */
int pf_collector_start(struct pf_collector *c);
void pf_collector_stop(struct pf_collector *c);

/* Let the thread of a running collector wait after it has added the snapshots that are in the ring now, so that the results can be
 * read; and go on. */
void pf_collector_pause(struct pf_collector *c);
void pf_collector_resume(struct pf_collector *c);

#endif
