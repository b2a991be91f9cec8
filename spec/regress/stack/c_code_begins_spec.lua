-- The stories of two places where LuaJIT's C code runs while the innermost frame is not whole, both of its interpreter:
-- - An FFI callback makes objects for its arguments before its function begins. This was shown on the function's last line, even
--   if that never ran, with up to half of the samples: the C stack had the address of the function's constants, which is the
--   address after its last instruction.
-- - string.byte writes its results over its own frame. From the second result on, the stack was lost: with 100 results, in 64 %
--   of the samples of the loop.
local perf = require "perf"
local profiling = require "spec.support.profiling"

local jit = rawget(_G, "jit")

describe("C code of LuaJIT's interpreter", function()
  before_each(function()
    requires { perf_open = "user", ffi = true, jit = true, registers = true, nostress = true }
    jit.off()
  end)
  after_each(function() if jit then jit.on() end end)

  it("that begins a callback is shown on the function's first line", function()
    local ffi = require "ffi"
    pcall(ffi.cdef, "void qsort(void *, size_t, size_t, int (*)(const int *, const int *));")
    local numbers = ffi.new "int[100]"
    for n = 0, 3 do -- the constants begin at a multiple of 8 bytes, so not always after the last instruction
      local text = "local x = 1.5 return function(p, q)\nx = x / 1.01 + 1\nif p[0] < q[0] then return 1 end%s\n"
        .. "if p[0] > q[0] then return -1 end\nreturn 0 end"
      local less = assert(loadstring(text:format((" x = 1.5"):rep(n)), "=less"))()
      local callback = ffi.cast("int (*)(const int *, const int *)", less)
      local prof = assert(perf.profile({ freq = 4000 }, function()
        local from = os.clock()
        repeat
          for i = 0, 99 do numbers[i] = i * 7919 % 101 end
          ffi.C.qsort(numbers, 100, 4, callback)
        until os.clock() - from > 0.2
      end))
      callback:free()
      assert.is_true(profiling.on_line(prof, 1) > 0.1 * prof.total, profiling.text(prof))
      assert.equal(0, tonumber(profiling.on_line(prof, 5)), profiling.text(prof))
    end
  end)

  it("that writes the results of a builtin is in its caller", function()
    local text = ("word "):rep(40)
    local line = profiling.next_line() + 1
    local function bytes()
      for _ = 1, 2000 do local _ = text:byte(1, 100) end
    end
    local prof = assert(perf.profile({ freq = 2000 }, function()
      local from = os.clock()
      repeat bytes() until os.clock() - from > 0.3
    end))
    assert.is_true(profiling.on_line(prof, line) > 0.8 * prof.total, profiling.text(prof))
    assert.is_nil((prof.failures or {})["no function"], profiling.text(prof))
  end)
end)
