-- The story: a C function's return address that was not saved where its unwind table says is any number. On Lua 5.1 and 5.2, one
-- that is too large for a number is a string; in the profile of another process with native frames it was compared with a number,
-- and the profile was lost with an error.
local foreign = require "perf.profile.foreign"
local native = require "perf.profile.native"
local host = require "perf.kernel.host"
local core = require "perf.core"

describe("an address that is too large for a number", function()
  local LARGE = core.shl(0xffffff, 40)

  it("is no code, in another process as in this one", function()
    local image = { pid = (core.pid()), maps = host.read_file "/proc/self/maps" }
    local names = foreign.new({ image }, 0, {})
    finally(function() names:close() end)
    local frame, is_interpreter = names:native { kind = "native", image = 1, address = LARGE }
    assert.equal("(compiled code)", frame.name)
    assert.is_nil(is_interpreter)
    assert.is_nil((names:find { kind = "c", image = 1, address = LARGE }))
    local own = native.new()
    assert.is_nil(own:mapping(LARGE))
    own:close()
  end)
end)
