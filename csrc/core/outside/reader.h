/* Reads the memory of another process as it was when a snapshot of one of its threads was taken. What is in the snapshot comes from
 * there. Files that are mapped read-only do not change: they are read from the process, or from the file if it has ended. If the owner
 * wishes, the rest is read from the process too, as far as it does not change while a function exists. All else is refused. */
#ifndef PF_READER_H
#define PF_READER_H

#include <sys/types.h>

#include "core/outside/snapshot.h"
#include "core/stack/unwind.h"

enum { PF_READER_BLOCK = 1024, PF_READER_BLOCKS = 32, PF_READER_FIXED = 128, PF_READER_RANGES = 512, PF_READER_FIELDS = 8, PF_READER_PIECES = 4096 };
enum { PF_READER_SETS = 2 * PF_SNAPSHOT_KNOWN };

/* A field of an object that never changes; one with size 0 ends a list of them. */
struct pf_reader_field {
	uint32_t at, size;
};

/* The process that is read, and its memory. */
struct pf_process_memory {
	pid_t pid;
	uint64_t program; /* as in struct pf_snapshot_head; 0: no sample of it was read yet */
	int opened;       /* the descriptor of /proc/PID/mem, plus 1; 0: none yet; -errno: it cannot be opened */
};

struct pf_reader_block {
	uint64_t address; /* 0: none */
	uint8_t bytes[PF_READER_BLOCK];
};

/* The mappings of a process that never change, which are files that it can read but not write; and some blocks of them. */
struct pf_fixed {
	int has_no_memory; /* the kernel has said that the process has ended; it is not asked again */
	unsigned n;
	struct pf_fixed_range {
		uint64_t from, to, offset, inode; /* of a file */
		char path[112];
	} ranges[PF_READER_RANGES];
	struct pf_reader_block blocks[PF_READER_FIXED];
};

/* Pieces of a snapshot, by address. */
struct pf_pieces {
	unsigned n;
	struct pf_reader_piece {
		const struct pf_piece *piece;
		uint64_t address;
		uint64_t end;  /* the highest end of this one and those before it */
		uint64_t used; /* by the sample with this number */
	} at[];
};

/* The objects of a snapshot, which are kept. */
struct pf_objects {
	uint64_t key;
	struct pf_pieces *pieces; /* NULL: none; their bytes follow */
};

struct pf_reader {
	struct pf_memory m; /* the first member: for the unwinder */
	struct pf_process_memory process;
	int live;   /* reads of memory that does not change may ask the process */
	int missed; /* a read asked for such memory */
	struct pf_fixed *fixed;
	/* May this be read from the process? NULL: everything that is not known to change. */
	int (*may_read)(const struct pf_reader *r, uint64_t address, size_t n);
	const void *owner;
	const struct pf_snapshot_head *s;
	const struct pf_piece *kernel; /* the kernel's functions; NULL: none */
	unsigned threads_n;
	const struct pf_snapshot_thread *threads;
	uint64_t number; /* of this sample */
	struct pf_pieces *changing, *objects; /* of this sample; `objects` is one of `kept`, or `new` */
	struct pf_pieces *new;
	struct pf_objects kept[PF_READER_SETS]; /* a hash table by key, with open addressing */
	unsigned kept_n, refused; /* refused: sets for which there was no room */
	int closed; /* no further sets are kept */
	struct pf_reader_field stable[PF_PIECE_KINDS][PF_READER_FIELDS]; /* by the kind of a piece, set by the owner */
	struct pf_reader_block blocks[PF_READER_BLOCKS];
};

/* Choose the process that is read from now on. */
void pf_process_choose(struct pf_process_memory *m, pid_t pid, uint64_t program);
/* Copy n bytes of the process. Returns 0 or -errno; -ESRCH: it has ended, or runs another program by now. */
int pf_read_process(struct pf_process_memory *m, void *to, uint64_t address, size_t n);
/* As pf_read_process, but the kernel is not asked again once it has said that the process has ended: thousands of the process's
 * samples may still have to be read. */
int pf_read_known(struct pf_fixed *f, struct pf_process_memory *m, void *to, uint64_t address, size_t n);

/* A reader that has no snapshot yet. Returns 0, or -ENOMEM. */
int pf_reader_init(struct pf_reader *r);
void pf_reader_free(struct pf_reader *r);
/* Begin with a snapshot of the chosen process, of this size with its pieces. Returns 0, or -EINVAL if it is damaged; 1 if its
 * objects are kept from now on. */
int pf_reader_begin(struct pf_reader *r, const struct pf_snapshot_head *s, size_t size, struct pf_fixed *fixed);
/* Forget the objects that are kept; key(to, key) is called for each of their keys. Call it between two samples. */
void pf_reader_forget(struct pf_reader *r, void (*key)(void *to, uint64_t key), void *to);
/* Begin anew with the same snapshot. Memory that is neither in it nor in a mapped file is read again if `live` is set, and refused otherwise. */
void pf_reader_again(struct pf_reader *r, int live);
/* Do the objects that were read from the snapshot still exist in the process? If not, what was read from there may belong to others. */
int pf_reader_is_current(struct pf_reader *r);
/* Is this Lua thread in the snapshot? */
int pf_reader_has_thread(const struct pf_reader *r, uint64_t thread);

#endif
