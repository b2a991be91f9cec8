-- `pairs`, under a name that LuaJIT's parser does not know.
--
-- LuaJIT compiles a loop over `pairs` or `next` by these names to a special instruction. In the LuaJIT of Debian 12 (and others
-- from September 2021 on) such a compiled loop can enter itself for ever within a finalizer: when it is left by an exit that is
-- not compiled, execution returns to the loop's first instruction, until the exit is compiled, but finalizers compile nothing. A
-- program's last work is done in finalizers, so no loop of this library uses these names.
return pairs
