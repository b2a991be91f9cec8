-- The story: samples that came while a new program was loaded by the dynamic linker had no thread of Lua, so they were given to
-- the only state of the parent, whose memory the program does not have: "too deep". The collector took that for the program's
-- first Lua, read the program's mappings before the interpreter was there, and C functions had no names for the rest of its time.
local assert = require "luassert"
local outside = require "spec.support.outside"
local profiling = require "spec.support.profiling"
local util = require "spec.support.util"

it("samples of a program that is being loaded are not in its parent's Lua state", function()
  outside.requires()
  local prof = outside.profile({ event = "page-faults", period = 1 }, function()
    for _ = 1, 3 do os.execute(("exec %s -e 'local s = 1'"):format(util.lua())) end
  end)
  local text = profiling.text(prof)
  assert.is_nil((prof.failures or {})["too deep"], text)
  -- Those that are read after the program has found its Lua may belong to it or not.
  assert.is_true(profiling.under(prof, "(outside Lua)") + profiling.under(prof, "(unsampled)") > 300, text)
end)
