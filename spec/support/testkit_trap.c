/* For a program with this module in LD_PRELOAD:
 * - a virtual machine that sometimes does not say that the processor single-stepped: with KIT_VAGUE_TRAPS in the environment, one
 *   in a hundred of its steps looks like a breakpoint;
 * - another thread that installs a handler of SIGTRAP while the library takes it: see link_in_race in testkit_faults.c. */
#include "testkit.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum { BREAKPOINT = 1, STEP = 2, EACH = 100 };

static void (*handler)(int sig, siginfo_t *info, void *context);

__attribute__((visibility("default"))) int sigaction(int sig, const struct sigaction *now, struct sigaction *before);

static void on_trap(int sig, siginfo_t *info, void *context)
{
    static unsigned steps;

    if (info->si_code == STEP && ++steps % EACH == 0)
        info->si_code = BREAKPOINT;
    handler(sig, info, context);
}

int sigaction(int sig, const struct sigaction *now, struct sigaction *before)
{
    int (*next)(int, const struct sigaction *, struct sigaction *);
    void *const found = dlsym(RTLD_NEXT, "sigaction");
    const int vague = sig == SIGTRAP && getenv("KIT_VAGUE_TRAPS");
    struct sigaction changed;
    void (*const theirs)(int, siginfo_t *, void *) = handler;
    int r;

    memcpy(&next, &found, sizeof next);
    if (vague && now && now->sa_flags & SA_SIGINFO) {
        changed = *now;
        handler = now->sa_sigaction;
        changed.sa_sigaction = on_trap;
        now = &changed;
    }
    r = next(sig, now, before);
    if (vague && before && before->sa_sigaction == on_trap)
        before->sa_sigaction = theirs;
    if (sig == SIGTRAP && !now)
        tk_race();
    return r;
}
