-- The story: a program that loads a module of the library without `require "perf"` got "attempt to call a nil value" for an
-- unknown field of an attr: only perf.base.core set the function for "did you mean".
local util = require "spec.support.util"

local function message_of(code)
  local text
  util.with_tmpname(function(path)
    util.write_file(path, "local core = require 'perf.core' io.write(select(2, pcall(core.pack, " .. code .. ")))")
    text = util.shell(util.lua() .. " " .. path)
  end)
  return text
end

describe("an unknown name in an attr, in a program that has loaded only perf.core", function()
  it("raises an error with the nearest name", function()
    assert.matches("attr field 'sample_typ'; did you mean 'sample_type'?", message_of "{ sample_typ = 1 }", 1, true)
    assert.matches("unknown name 'ipp'; did you mean 'ip'?", message_of "{ sample_type = { 'ipp' } }", 1, true)
  end)
end)
