-- The story: if the system refused memory to the first perf.heap, which learns the interpreter's structures, it said that they
-- were not recognized, and gave "EOPNOTSUPP", as if no later call could succeed.
local util = require "spec.support.util"

describe("the first snapshot of a process that may have no more memory", function()
  it("fails for lack of memory, or succeeds", function()
    requires { lua = "luajit", registers = true, nosan = true }
    local refused = 0
    for _, more in ipairs { 0, 500, 1000, 2000, 3000, 4000, 5000, 6000, 64000 } do
      local found = util.in_child(function()
        local core = require "perf.core"
        local ffi = require "ffi"
        ffi.cdef "int setrlimit(int resource, const unsigned long *limits);"
        local f = assert(io.open "/proc/self/statm")
        local bytes = f:read "*n" * 4096 + more * 1024
        f:close()
        assert(ffi.C.setrlimit(9, ffi.new("unsigned long[2]", bytes, bytes)) == 0) -- RLIMIT_AS
        local ok, h, message, code = pcall(core.heap_take)
        if not ok then return "raised " .. tostring(h) end
        return h and "taken" or ("%s %s"):format(code, message)
      end)
      if found:find "^ENOMEM heap: Cannot allocate memory" or found:find "^raised .*not enough memory" then
        refused = refused + 1
      else
        assert.equal("taken", found)
      end
    end
    assert.is_true(refused > 0)
  end)
end)
