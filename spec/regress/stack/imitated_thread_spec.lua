-- The story: in one of seven runs of a program, the C stack held words that looked like a Lua thread: a copy of the global
-- state's address at the place where a thread has it, and the type of a thread by chance, in the lowest byte of an address. The
-- unwinder took them for the running thread, and the stack was missing, always at the same machine instructions.
local kit = require "testkit"

it("words of the C stack that look like a Lua thread are not taken for one", function()
  requires { puc = true, registers = true }
  assert(kit.unwind.learn())
  local plain, imitated = kit.unwind.here(), kit.unwind.here(1024)
  assert.is_nil(imitated.failed)
  assert.equal("C", imitated.state)
  assert.is_true(imitated.n > 1)
  assert.equal(plain.n, imitated.n)
end)
