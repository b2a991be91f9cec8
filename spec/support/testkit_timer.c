/* A slow setitimer(2) for a program with this module in LD_PRELOAD and KIT_SLOW_TIMER in its environment: after it has started
 * ITIMER_PROF, it returns only when the timer may have expired. <sys/time.h> is left out, since its declaration of setitimer
 * differs between C libraries. */
#include "testkit.h"

#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { PROF = 2, SLOW_MS = 100 };

__attribute__((visibility("default"))) int setitimer(int which, const long *now, long *before);

static long cpu_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (long)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

int setitimer(int which, const long *now, long *before)
{
    const int r = (int)syscall(SYS_setitimer, which, now, before);
    const int starts = which == PROF && now && (now[2] || now[3]); /* seconds or microseconds until it expires */

    if (starts && getenv("KIT_SLOW_TIMER"))
        for (long from = cpu_ms(); cpu_ms() - from < SLOW_MS;)
            ;
    return r;
}
