-- The story: infinity is a whole number for math.floor, so it passed as the number of a CPU or a process. perf.pool made a thread
-- that was not bound to any CPU, and other functions ended with errors inside the library.
local perf = require "perf"
local util = require "spec.support.util"

describe("numbers that the kernel's int cannot have", function()
  for _, v in ipairs { math.huge, 2 ^ 31, 2 ^ 63, 1e300, -1 } do
    it("are refused as the numbers of CPUs and processes: " .. v, function()
      assert.matches("option 'cpus': '.*' is no CPU's number", util.message_of(perf.pool, { cpus = { v } }))
      assert.matches("option 'cpus': CPU number expected, got ", util.message_of(perf.set, "task-clock", { cpus = { v } }))
      assert.matches("option 'pid': a process number expected, got ", util.message_of(perf.symbols.open, { pid = v }))
    end)
  end

  it("are refused as integers without bounds: infinity", function()
    for _, v in ipairs { math.huge, -math.huge, 0 / 0 } do
      assert.matches("option 'pid': ", util.message_of(perf.set, "task-clock", { pid = v }))
    end
  end)
end)
