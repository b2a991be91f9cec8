/* The allocators of a Lua state: those of csrc/core/memory/allocator.h that call the state's own one. */
#ifndef PB_ALLOCATOR_H
#define PB_ALLOCATOR_H

#include "core/memory/allocator.h"
#include "binding/base/binding.h"

#define PB_BLOCKS "perf.Blocks" /* a struct pf_block_reader */

struct pb_allocators; /* those of a Lua state */

/* Those of L's state, until it closes. May raise for lack of memory. */
struct pb_allocators *pb_allocators_of(lua_State *L);

/* Put one in front of the allocator of L's state. The caller becomes one of its users, until it calls pb_allocator_give. Neither raises.
 * Returns 0, -ENOMEM, or -ECANCELED if the state is being closed. */
int pb_allocator_take(lua_State *L, struct pb_allocators *all, struct pf_allocator **in);
void pb_allocator_give(lua_State *L, const struct pf_allocator *in);

#endif
