-- `pairs`, under a name that LuaJIT's parser does not know.
--
-- A loop over `pairs` or `next` by that name becomes an instruction of its own there. In the LuaJIT that Debian 12 has (and
-- others from September 2021 on) a compiled one can enter itself for ever within a finalizer: what leaves it by an exit that
-- is not compiled comes back to its first instruction, and counts on being compiled soon, which a finalizer forbids. What is
-- left to do when a program ends is done in finalizers, so no loop of this library goes by that name.
return pairs
