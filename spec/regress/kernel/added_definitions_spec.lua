-- The story: CONTRIBUTING.md says that a new record is a line in record.def and one in body.def. The number of the last record
-- was written in a header too, so that such a line did not compile; for a record or feature of perf.data, the line was not used.
local util = require "spec.support.util"

-- Adds a line to a table of definitions, and expects the constant of the header to be its number.
local function expect_last(header, constant, definitions, prefix, rest)
  requires { cmd = "cc" }
  util.with_directory(function(dir)
    local content = util.read_file("csrc/" .. definitions)
    local last = 0
    for number in content:gmatch "\nX%([%u%d_]+, *(%d+)" do last = tonumber(number) end
    assert.is_true(last > 0)
    os.execute(("mkdir -p %s/$(dirname %s)"):format(dir, definitions))
    util.write_file(dir .. "/" .. definitions, ("%s\nX(ADDED, %d, \"added\"%s)\n"):format(content, last + 1, rest))
    util.write_file(dir .. "/added.c", ('#include "%s"\n_Static_assert(%s == %sADDED, "the last");\n')
      :format(header, constant, prefix))
    local output, status = util.shell(("cc -std=c11 -D_GNU_SOURCE -fsyntax-only -I%s -Icsrc %s/added.c"):format(dir, dir))
    assert.equal(0, status, output)
  end)
end

describe("a line added to the definitions", function()
  it("is the last record of the kernel", function()
    expect_last("core/kernel/uapi.h", "PF_RECORD_LAST", "core/kernel/defs/record.def", "PF_RECORD_", "")
  end)

  it("is the last record of perf.data", function()
    expect_last("core/data/format.h", "PF_USER_LAST", "core/data/user_record.def", "PF_USER_", ", ")
  end)

  it("is the last feature of perf.data", function()
    expect_last("core/data/format.h", "PF_FEATURE_LAST", "core/data/feature.def", "PF_FEATURE_", ", BYTES()")
  end)
end)
