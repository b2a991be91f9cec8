/* Threads that run Lua, each in a new Lua state. A thread gets a chunk of Lua; everything later goes through channels.
 *
 * struct worker belongs to the Thread object and to the thread itself; the last of the two frees it. So a thread that is not
 * joined may outlive the state that started it. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include <lualib.h>

#include "core/base/clock.h"
#include "core/base/thread.h"
#include "binding/base/binding.h"

#define PB_THREAD "perf.Thread"

struct worker {
	atomic_int owners;
	pthread_t id;
	pthread_mutex_t lock;
	pthread_cond_t ended;
	int done; /* the thread has closed its state: joining it does not wait */
	char *error; /* the error that the code raised, or NULL */
	size_t size;
	char code[]; /* a chunk of Lua */
};

struct thread {
	struct worker *w; /* NULL once joined or detached */
	uint32_t generation;
};

static void release(struct worker *w)
{
	if (atomic_fetch_sub(&w->owners, 1) > 1)
		return;
	free(w->error);
	pthread_cond_destroy(&w->ended);
	pthread_mutex_destroy(&w->lock);
	free(w);
}

/* Runs protected in the new state. */
static int run(lua_State *L)
{
	const struct worker *w = lua_touserdata(L, 1);

	luaL_openlibs(L);
	if (luaL_loadbuffer(L, w->code, w->size, "=thread") != 0)
		return lua_error(L);
	lua_call(L, 0, 0);
	return 0;
}

static void *main_of_thread(void *p)
{
	const uint32_t generation = pf_fork_generation();
	struct worker *w = p;
	lua_State *L = luaL_newstate();

	if (!L || pb_cpcall(L, run, w) != 0) {
		const char *text = L ? lua_tostring(L, -1) : "not enough memory";

		w->error = strdup(text ? text : "an error that is not a string");
	}
	if (L)
		lua_close(L);
	if (pf_inherited(generation))
		return NULL; /* in the child of a fork: no thread waits for it, and the lock may have been held at the fork */
	pthread_mutex_lock(&w->lock);
	w->done = 1;
	pthread_cond_broadcast(&w->ended);
	pthread_mutex_unlock(&w->lock);
	release(w);
	return NULL;
}

static struct worker *new_worker(const char *code, size_t size)
{
	struct worker *w = calloc(1, sizeof *w + size);

	if (!w)
		return NULL;
	pthread_mutex_init(&w->lock, NULL);
	pf_clock_condition(&w->ended);
	atomic_init(&w->owners, 1);
	w->size = size;
	memcpy(w->code, code, size);
	return w;
}

/* core.thread(code): a Thread that runs a chunk in a separate Lua state with the standard libraries; or nil, message, code */
static int l_thread(lua_State *L)
{
	size_t size;
	const char *code = luaL_checklstring(L, 1, &size);
	struct thread *t = pb_new(L, sizeof *t, PB_THREAD);
	int r;

	t->generation = pf_fork_generation();
	t->w = new_worker(code, size);
	if (!t->w)
		return pb_fail(L, -ENOMEM, "thread");
	atomic_store(&t->w->owners, 2);
	r = -pthread_create(&t->w->id, NULL, main_of_thread, t->w);
	if (r < 0) {
		atomic_store(&t->w->owners, 1);
		release(t->w);
		t->w = NULL;
		return pb_fail(L, r, "pthread_create");
	}
	return 1;
}

static int has_ended(struct worker *w, lua_Number seconds)
{
	struct timespec until;
	int r = 0, done;

	pthread_mutex_lock(&w->lock);
	if (seconds < 0) {
		while (!w->done)
			pthread_cond_wait(&w->ended, &w->lock);
	} else if (!w->done && seconds > 0) {
		until = pf_clock_after(seconds > 1e9 ? (int64_t)1e18 : (int64_t)(seconds * 1e9));
		while (!w->done && r == 0)
			r = pthread_cond_timedwait(&w->ended, &w->lock, &until);
	}
	done = w->done;
	pthread_mutex_unlock(&w->lock);
	return done;
}

/* thread:join([seconds]): true once the thread has ended, false if it still runs after that time. Without seconds it waits
 * without limit. The second result is the error that ended the thread's code. In the child of a fork, which does not have the
 * thread: true. */
static int l_join(lua_State *L)
{
	struct thread *t = pb_check(L, 1, PB_THREAD, "Thread");
	lua_Number seconds = luaL_optnumber(L, 2, -1);
	struct worker *w = t->w;

	if (!w || pf_inherited(t->generation))
		return pb_bool(L, 1);
	if (!has_ended(w, seconds))
		return pb_bool(L, 0);
	lua_pushboolean(L, 1);
	lua_pushstring(L, w->error); /* NULL gives nil */
	pthread_join(w->id, NULL);
	t->w = NULL;
	release(w);
	return 2;
}

/* A Thread that was not joined is detached. */
static int l_gc(lua_State *L)
{
	struct thread *t = pb_test(L, 1, PB_THREAD);
	struct worker *w = t ? t->w : NULL;

	if (!w)
		return 0;
	t->w = NULL;
	if (pf_inherited(t->generation))
		return 0; /* inherited by a fork: its lock may have been held then */
	pthread_detach(w->id);
	release(w);
	return 0;
}

void pb_open_thread(lua_State *L)
{
	static const luaL_Reg methods[] = {{"join", l_join}, {NULL, NULL}};

	pb_set_function(L, "thread", l_thread);
	pb_new_class(L, PB_THREAD, methods, l_gc);
}
