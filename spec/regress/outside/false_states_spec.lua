-- The story: each place that looks like a main thread is checked by some reads of the process's memory. A process could fill its
-- memory with such places, and the search for its Lua states took hours.
-- Twice: only LuaJIT's FFI makes such a process; the search is the same code on all interpreters.
local core = require "perf.core"
local kit = require "testkit"
local outside = require "spec.support.outside"
local perf = require "perf"
local util = require "spec.support.util"

-- Fill memory below everything else with false main threads of LuaJIT, two words each. Their type is 6, and the address of their
-- global state is their own.
local function fill()
  local ffi = require "ffi"
  ffi.cdef "void *mmap(void *, size_t, int, int, int, long);"
  local from, words = 2 ^ 32, 2 ^ 22
  local at = ffi.C.mmap(ffi.cast("void *", from), 8 * words, 3, 0x100022, -1, 0) -- MAP_FIXED_NOREPLACE, PRIVATE, ANONYMOUS
  assert(tonumber(ffi.cast("intptr_t", at)) == from)
  at = ffi.cast("uint64_t *", at)
  for i = 0, words - 2, 2 do
    at[i] = from + 8 * i - 16
    at[i + 1] = 0x600
  end
end

it("a search for Lua states ends in a process that is full of false ones", function()
  outside.requires { lua = "luajit", ffi = true, nosan = true } -- a sanitizer has its own tables at this address
  local p, message, code
  util.with_tmpname(function(path)
    os.remove(path)
    local child = assert(kit.start(function()
      fill()
      util.write_file(path, "filled")
      while true do os.execute "sleep 1" end
    end))
    child:go()
    for _ = 1, 6000 do
      local f = io.open(path)
      if f then
        f:close()
        break
      end
      core.watch({}, 0.01)
    end
    p, message, code = perf.profiler { pid = child:pid() }
    child:close()
  end)
  assert.is_nil(p)
  local reason = "too many places in its memory look like a Lua state and are none, so the search was ended"
  assert.matches("^process %d+: " .. reason .. "$", message)
  assert.equal("E2BIG", code)
end)
