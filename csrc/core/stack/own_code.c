/* See c_frames.h. */
#include <link.h>
#include <pthread.h>

#include "core/stack/c_frames.h"

static struct pf_code code;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static int on_object(struct dl_phdr_info *o, size_t size, void *to)
{
	uint64_t from = UINT64_MAX, end = 0, table = 0;

	(void)size;
	(void)to;
	for (unsigned i = 0; i < o->dlpi_phnum; i++) {
		const uint64_t at = o->dlpi_addr + o->dlpi_phdr[i].p_vaddr, last = at + o->dlpi_phdr[i].p_memsz;

		if (o->dlpi_phdr[i].p_type == PT_GNU_EH_FRAME)
			table = at;
		if (o->dlpi_phdr[i].p_type == PT_LOAD && o->dlpi_phdr[i].p_flags & PF_X) {
			from = at < from ? at : from;
			end = last > end ? last : end;
		}
	}
	if (table && from < end) {
		code.objects[code.n].from = from;
		code.objects[code.n].end = end;
		code.objects[code.n].table = table;
		code.n++;
	}
	return code.n == PF_CODE_OBJECTS;
}

static void collect(void)
{
	code.n = 0; /* this may be a child, forked while another thread of its parent was here */
	dl_iterate_phdr(on_object, NULL);
}

const struct pf_code *pf_own_code(void)
{
	pthread_once(&once, collect);
	return &code;
}
