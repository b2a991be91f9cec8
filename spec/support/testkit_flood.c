/* Signals to the whole process group, one after the other. See testkit.h. */
#include "testkit.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

static struct flood {
    atomic_uint here, elsewhere; /* calls of the handler, in this process and in others */
    atomic_int runs;
    pid_t pid;
} *flood; /* shared with children */
static pthread_t sender;

static void on_usr2(int sig)
{
    (void)sig;
    atomic_fetch_add(getpid() == flood->pid ? &flood->here : &flood->elsewhere, 1);
}

static void *send(void *p)
{
    sigset_t all;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    while (atomic_load(&flood->runs))
        kill(0, SIGUSR2);
    return p;
}

/* flood(): handle SIGUSR2, and send it to the process group, which must be this process's own, until the next call of flood. That call
 * returns how often the handler was called in this process, and in its children. */
static int kit_flood(lua_State *L)
{
    const struct sigaction action = { .sa_handler = on_usr2, .sa_flags = SA_RESTART };

    if (flood) {
        atomic_store(&flood->runs, 0);
        pthread_join(sender, NULL);
        lua_pushinteger(L, (lua_Integer)atomic_load(&flood->here));
        lua_pushinteger(L, (lua_Integer)atomic_load(&flood->elsewhere));
        munmap(flood, sizeof *flood);
        flood = NULL;
        return 2;
    }
    flood = mmap(NULL, sizeof *flood, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (flood == MAP_FAILED)
        return luaL_error(L, "flood: no memory");
    flood->pid = getpid();
    atomic_store(&flood->runs, 1);
    sigaction(SIGUSR2, &action, NULL);
    if (pthread_create(&sender, NULL, send, NULL) != 0)
        return luaL_error(L, "flood: no thread");
    return 0;
}

static const luaL_Reg functions[] = { { "flood", kit_flood }, { NULL, NULL } };

void tk_open_flood(lua_State *L)
{
    tk_register(L, functions);
}
