-- The story: in a directory where nobody may write, `luaperf record missing.lua` said "perf.data: Permission denied". The script
-- did not exist, and that is what the user has to know first; so did a program that is not in PATH, and luaperf stat -o.
local commands = { record = require "perf.command.record", stat = require "perf.command.stat" }
local run = require "perf.command.run"

local nowhere = "/no/such/directory"

describe("a program that does not exist", function()
  it("is named before an output file that cannot be made", function()
    for _, command in pairs(commands) do
      for _, word in ipairs { "no-such-script.lua", "./no-such-script.lua", "no-such-program", nowhere .. "/program" } do
        local status, message, code = command.run({ output = nowhere .. "/perf.data" }, { word }, { interpreter = arg })
        assert.same({ false, word .. ": No such file or directory", "ENOENT" }, { status or false, message, code })
      end
    end
  end)

  it("is found in PATH, here, or by its path", function()
    for _, word in ipairs { "sh", "/bin/sh", "spec/regress/command/missing_program_spec.lua", "/" } do
      assert.is_true(run.exists(word), word)
    end
    assert.is_true(run.exists(nil))
  end)
end)
