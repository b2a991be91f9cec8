/* See keys.h. */
#include "core/process/keys.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "core/base/sys.h"

enum { IN = 0, OUT = 1 };

static atomic_flag taken = ATOMIC_FLAG_INIT;
static struct termios modes; /* of the terminal before */
static volatile sig_atomic_t is_set, again; /* `modes` is known; ours were set since pf_keys_next() last said so */
static struct sigaction stop; /* of SIGTSTP before */

static void put(const char *text)
{
	pf_sys->write(OUT, text, strlen(text)); /* a terminal that is gone shows nothing */
}

/* In the background a change of the terminal's modes would stop the process. */
static int in_foreground(void)
{
	return tcgetpgrp(IN) == getpgrp();
}

/* Set our modes, unless they are set. Those before are taken here, not when the process begins: if that is in the background, the
 * terminal has the modes in which a shell edits its line. Returns -1 without a terminal. */
static int set(void)
{
	struct termios now;

	if (tcgetattr(IN, &now) < 0)
		return -1;
	if (!(now.c_lflag & (tcflag_t)(ICANON | ECHO)) && !now.c_cc[VMIN] && !now.c_cc[VTIME])
		return 0;
	modes = now;
	is_set = again = 1;
	now.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	now.c_cc[VMIN] = now.c_cc[VTIME] = 0; /* a read does not wait */
	tcsetattr(IN, TCSANOW, &now);
	put("\33[?25l\33[?7l");
	return 0;
}

/* If a shell takes the terminal meanwhile, since our parent has stopped already, SIGTTOU would stop us here, and after the shell's
 * SIGCONT the raise() below once more. */
static void restore(void)
{
	sigset_t ttou, before;

	if (!is_set)
		return;
	sigemptyset(&ttou);
	sigaddset(&ttou, SIGTTOU);
	pthread_sigmask(SIG_BLOCK, &ttou, &before);
	if (in_foreground()) {
		tcsetattr(IN, TCSANOW, &modes);
		put("\33[?7h\33[?25h");
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* ^Z: it stops in raise(), and goes on there. */
static void suspend(int signal)
{
	const int error = errno;
	struct sigaction ours;

	restore();
	sigaction(signal, &stop, &ours);
	raise(signal);
	sigaction(signal, &ours, NULL);
	if (in_foreground())
		set();
	errno = error;
}

int pf_keys_begin(void)
{
	struct sigaction action = {.sa_handler = suspend, .sa_flags = SA_NODEFER};

	if (!isatty(OUT) || tcgetpgrp(IN) < 0 || atomic_flag_test_and_set(&taken))
		return 0;
	is_set = again = 0;
	sigaction(SIGTSTP, NULL, &stop);
	if (stop.sa_handler != SIG_IGN)
		sigaction(SIGTSTP, &action, NULL);
	if (in_foreground())
		set();
	return 1;
}

int pf_keys_next(void)
{
	unsigned char byte;

	if (!in_foreground())
		return tcgetpgrp(IN) < 0 ? PF_KEYS_GONE : PF_KEYS_AWAY;
	if (set() < 0) /* unless they are set, the process went on after SIGSTOP, or came to the foreground */
		return PF_KEYS_GONE;
	if (again) {
		again = 0;
		return PF_KEYS_AGAIN;
	}
	return pf_sys->read(IN, &byte, 1) == 1 ? byte : PF_KEYS_NONE;
}

void pf_keys_end(void)
{
	if (stop.sa_handler != SIG_IGN)
		sigaction(SIGTSTP, &stop, NULL);
	restore();
	atomic_flag_clear(&taken);
}

void pf_keys_size(int fd, int *rows, int *columns)
{
	struct winsize size = {.ws_row = 0};

	ioctl(fd, TIOCGWINSZ, &size);
	*rows = size.ws_row;
	*columns = size.ws_col;
}
