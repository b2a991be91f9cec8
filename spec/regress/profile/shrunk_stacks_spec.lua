-- The story: PUC Lua's collector makes the stacks of coroutines smaller, and these blocks were on whichever line it interrupted:
-- a loop that had made 20,800 bytes of tables was shown with 96,096.
-- Long: make test runs this file on LuaJIT and Lua 5.4, make test-long on the other interpreters.
local perf = require "perf"
local profiling = require "spec.support.profiling"
local jit = rawget(_G, "jit")

local sink = {}
for i = 1, 100 do sink[i] = false end

local line = profiling.next_line()
local function fill(gone, i) while gone[1] do i = i + 1; sink[i % 100 + 1] = { i } end return i, sink end
if jit then jit.off(fill) end

local function deep(n)
  if n == 0 then return coroutine.yield() end
  return (deep(n - 1))
end

describe("stacks that the collector makes smaller", function()
  it("are not on the line that it interrupts", function()
    requires { registers = true, nostress = true, nosan = true }
    collectgarbage()
    collectgarbage "stop"
    finally(function() collectgarbage "restart" end)
    local each = math.huge
    for i = 1, 5 do -- the compiler may begin at any of them, and needs memory too
      local before = collectgarbage "count"
      sink[1] = { i }
      each = math.min(each, (collectgarbage "count" - before) * 1024)
    end
    local coroutines = {}
    for i = 1, 20 do
      coroutines[i] = coroutine.create(function()
        deep(150)
        coroutine.yield()
      end)
      for _ = 1, 2 do assert(coroutine.resume(coroutines[i])) end
    end
    local made = 0
    local prof = assert(perf.profile({ event = "alloc", period = 1 }, function()
      collectgarbage "restart"
      for _ = 1, 3 do made = fill(setmetatable({ {} }, { __mode = "v" }), made) end -- to the ends of collections
    end))
    local on_line, stacks = 0, 0
    for _, s in ipairs(prof:samples()) do
      local frame = profiling.place(s.stack)
      if frame and frame.line == line and frame.func == "fill" then
        if s.stack[1].name == "(garbage collector)" then
          stacks = stacks + s.count
        elseif s.stack[1].name ~= "(string table)" then
          on_line = on_line + s.weight
        end
      end
    end
    assert.equal(made * each, on_line, profiling.text(prof))
    -- Lua 5.4 leaves the stacks of these coroutines as they are.
    assert(stacks >= 20 or _VERSION == "Lua 5.4", profiling.text(prof))
    assert.equal(20, #coroutines)
  end)
end)
