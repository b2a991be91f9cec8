-- The story: when a C function returns, Lua 5.4 stores the value of its first result in the place of the function before the
-- type. A sample between the two stores took the address of a string for that of a C function: 0.2 % of the samples of a loop
-- that calls string.sub had a frame "function 0x558b02e2cb30".
local make = require("perf.profile.collect").make

it("a string that a C function returns is not shown as a function", function()
  requires { puc = true }
  local profiler = { label = "page-faults", unit = "", attr = { sample_period = 1 }, started = 1, pid = 1, tid = 1 }
  local line = { kind = "lua", source = "@/nowhere/a.lua", linedefined = 0, line = 3 }
  -- There is no code at address 64.
  local prof = make(profiler, { frames = { line, { kind = "c", address = 64 } }, parent = { 0, 1 }, frame = { 1, 2 },
    weight = { 5, 2 }, count = { 5, 2 }, unsampled = 0, unsampled_count = 0, total = 7, lost = 0, samples = 7, duration_ns = 1,
    memory = 1 })
  local list = prof:samples()
  assert.equal(1, #list)
  assert.same({ 7, 7, 1 }, { list[1].weight, list[1].count, #list[1].stack })
  assert.equal("/nowhere/a.lua:3 main chunk", list[1].stack[1].name)
end)
