/* The keys that a user presses at the terminal, each at once and without echo. The terminal is the standard input, and the standard
 * output shows what the keys change. While keys are read, the cursor is hidden and long lines are cut at the right margin.
 *
 * The terminal gets its own modes back when the process is stopped by ^Z, and ours again when it goes on. In the background, where the
 * terminal belongs to another program, it is left alone. */
#ifndef PF_KEYS_H
#define PF_KEYS_H

/* Begin to read keys. Returns 0 if there is no terminal, if it is not that of this session, or if another caller in this process reads
 * them; else 1. */
int pf_keys_begin(void);
/* The next byte that was typed, or why there is none. It does not wait. */
enum {
	PF_KEYS_NONE = -1,
	PF_KEYS_AWAY = -2,  /* the process is in the background: what is typed is for another program */
	PF_KEYS_GONE = -3,  /* there is no terminal any more */
	PF_KEYS_AGAIN = -4, /* the process has just got the terminal, at first or again: other programs may have written to it */
};
int pf_keys_next(void);
/* Give the terminal its modes back. Idempotent; only for the caller that reads keys. */
void pf_keys_end(void);
/* The rows and columns of the terminal that fd refers to; 0 if they are unknown, or if fd is not a terminal. */
void pf_keys_size(int fd, int *rows, int *columns);

#endif
