-- The story: where the code leaves a loop in which it began, all lines of the loop count, and a walk along bytecode looked at
-- them again for each such place. Bytecode in which every instruction ends a loop took a million reads a walk.
--
-- A later story: the search for the jumps that lead to an instruction looked at the whole function. In one of 100,000
-- instructions a sample in compiled code took 140 us, 25 times as long as before.
local kit = require "testkit"

describe("a walk along bytecode in which every instruction ends a loop", function()
  before_each(function()
    requires { lua = "luajit", registers = true }
    assert(kit.unwind.learn())
  end)

  for _, n in ipairs { 500, 5000, 30000 } do
    it(("reads each instruction a few times: %d instructions"):format(n), function()
      local found, reads, reads_for_jumps = kit.unwind.walk(n)
      assert.is_false(found)
      assert.is_true(tonumber(reads) < 60000, tostring(reads))
      assert.is_true(tonumber(reads_for_jumps) < 5000, tostring(reads_for_jumps))
    end)
  end
end)
