/* perf.ext.zstd: unpacks the compressed records of perf.data files. A stream's state is in a userdata, so it is freed by this
 * library and never by the reader, which only calls run. */
#include <errno.h>
#include <zstd.h>

#include "core/data/read.h"
#include "binding/data/data.h"

struct stream {
	struct pf_inflate base; /* first: the reader sees only this */
	ZSTD_DStream *z;
};

static int run(struct pf_inflate *base, const unsigned char *in, size_t *n, unsigned char *out, size_t *room)
{
	struct stream *s = (struct stream *)base;
	ZSTD_inBuffer from = {in, *n, 0};
	ZSTD_outBuffer to = {out, *room, 0};
	size_t r = 0;

	if (!s->z)
		return -EBADF; /* at the close of the Lua state, it may be collected before its reader */
	/* A call may stop at the end of a frame or block, although input and room for output are left. */
	do {
		size_t before = from.pos + to.pos;

		r = ZSTD_decompressStream(s->z, &to, &from);
		if (ZSTD_isError(r) || from.pos + to.pos == before)
			break;
	} while (from.pos < from.size && to.pos < to.size);
	*n = from.pos;
	*room = to.pos;
	return ZSTD_isError(r) ? -EBADMSG : 0;
}

static int l_free(lua_State *L)
{
	struct stream *s = luaL_checkudata(L, 1, PB_INFLATE);

	ZSTD_freeDStream(s->z);
	s->z = NULL;
	return 0;
}

/* new(): a state for one stream, for the core's reader. */
static int l_new(lua_State *L)
{
	struct stream *s = pb_new(L, sizeof *s, PB_INFLATE);

	s->base.run = run;
	s->z = ZSTD_createDStream();
	if (!s->z)
		return pb_fail(L, ENOMEM, "zstd");
	return 1;
}

__attribute__((visibility("default"))) int luaopen_perf_ext_zstd(lua_State *L);

int luaopen_perf_ext_zstd(lua_State *L)
{
	pb_class(L, PB_INFLATE, NULL, l_free);
	lua_newtable(L);
	pb_set_function(L, "new", l_new);
	pb_set_text(L, "version", ZSTD_versionString());
	return 1;
}
