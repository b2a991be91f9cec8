-- The story: on arm64 with Debian 12's LuaJIT, perf.measure({"page-faults"}, fn, 64) at times raised "function expected, got
-- number", from then on, and perf.measure({"page-faults"}, 1) "attempt to call a number". The function that opens a list read its
-- first vararg by `(...)`. A trace that began in a function called before that, and returned from it, took the next vararg:
-- LuaJIT with 64-bit collection computed a wrong place for a fixed number of varargs there, until the middle of 2022.
local kit = require "testkit"
local perf = require "perf"
local callable = require "perf.base.argument".is_callable

describe("a list that is a new table each time", function()
  it("is measured with the given function, and anything else is refused", function()
    requires { perf_open = true }
    local jit = rawget(_G, "jit")
    for _, hot in ipairs(jit and { 2, 8, 56 } or { 0 }) do
      if jit then
        jit.flush() -- the traces compiled before decide what is compiled now
        require "jit.opt".start("hotloop=" .. hot, "hotexit=2")
      end
      local bad = {}
      for i = 1, 200 do
        for k = 1, 3 do callable(k) callable(print) callable "text" end
        local ok, err = pcall(perf.measure, { "page-faults" }, kit.touch_pages, 3)
        if not ok then bad[#bad + 1] = err end
        ok, err = pcall(perf.measure, { "page-faults" }, i)
        if ok or not err:find("(function expected, got number)", 1, true) then bad[#bad + 1] = tostring(err) end
      end
      if jit then require "jit.opt".start("hotloop=56", "hotexit=10") end
      assert.same({}, bad)
    end
  end)
end)
