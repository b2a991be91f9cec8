-- The story: a linker can be told to write a build id of more than 20 bytes. A recording has room for 20 bytes, so it holds the
-- first ones; and a resolver then refused the file, as if it had been replaced since.
local elf = require "spec.support.elf"
local util = require "spec.support.util"

describe("a resolver of a recording's mappings", function()
  before_each(function() requires { ext = "symbols" } end)

  local function problems(id, recorded)
    local text = elf.build { symbols = { { name = "f", addr = elf.TEXT, size = 16 } }, build_id = id }
    local found
    util.with_tmpname(function(path)
      util.write_file(path, text)
      local r = assert(require("perf.symbols").open { maps = { { filename = path, addr = elf.TEXT, pgoff = elf.TEXT,
        build_id = recorded } } })
      found = r.problems
      r:close()
    end)
    return found[1] and found[1].code
  end

  it("accepts a file with a longer build id that begins with the recorded one", function()
    assert.is_nil(problems(("\171"):rep(32), ("ab"):rep(20)))
    assert.is_nil(problems(("\171"):rep(32), ("ab"):rep(32)))
    assert.is_nil(problems(("\171"):rep(8), ("ab"):rep(8)))
  end)

  it("refuses a file with another build id", function()
    assert.equal("ESTALE", problems(("\171"):rep(32), ("ac"):rep(20)))
    assert.equal("ESTALE", problems(("\171"):rep(32), ("ab"):rep(8)))
    assert.equal("ESTALE", problems(("\171"):rep(8), ("ab"):rep(20)))
    assert.equal("ESTALE", problems(("\171"):rep(20), ("ab"):rep(32)))
  end)
end)
