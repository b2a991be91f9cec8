-- The story: a program whose coroutines resumed each other 150 deep worked, but failed under the profiler with "C stack
-- overflow": coroutine.resume was replaced by a function that called the library's by lua_pcall, so each resumption took two of
-- Lua's 200 levels of C. Now the library's function runs on the frame of ours.
local perf = require "perf"

local function deepest(way)
  local most = 0
  local function go(depth)
    most = depth
    if depth == 1000 then return end
    if way == "wrap" then
      coroutine.wrap(go)(depth + 1)
    else
      local ok, message = coroutine.resume(coroutine.create(go), depth + 1)
      if not ok then error(message, 0) end
    end
  end
  pcall(go, 1)
  return most
end

describe("coroutines that resume each other", function()
  before_each(function() requires { perf_open = "user" } end)

  for _, coroutines in ipairs { "alone", "resumer", "creator" } do
    it("nest equally deep under a profiler, coroutines = " .. coroutines, function()
      for _, way in ipairs { "resume", "wrap" } do
        local plain = deepest(way)
        local p = assert(perf.profiler { event = "page-faults", coroutines = coroutines })
        assert(p:start())
        local profiled = deepest(way)
        assert(p:stop())
        assert.equal(plain, profiled, way)
      end
    end)
  end

  it("that died of errors do not count as running", function()
    local p = assert(perf.profiler { freq = 5000, coroutines = "resumer" })
    assert(p:start())
    for i = 1, 2000 do
      local outer = coroutine.wrap(function()
        local inner = coroutine.wrap(function() error "dead" end)
        pcall(inner)
        pcall(inner)
        for _ = 1, 50 do i = i + 1 end
        error "dead too"
      end)
      pcall(outer)
      if i % 100 == 0 then collectgarbage() end
    end
    assert.is_true(assert(p:stop()).total > 0)
  end)
end)
