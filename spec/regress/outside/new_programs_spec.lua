-- The story: a process started scripts under LuaJIT which ran for a tenth of a second each, and half of it or all was outside
-- Lua. The first sample of a program comes before it has a Lua state, and its memory was searched again after 0.2 seconds only.
-- If the sample came before the exec, the search for the program was late too. Later a first search that found no state was taken
-- for one that found something new, if the parent has a state: the next search was not due for a tenth of a second. Twice: C
-- decides when a memory is searched.
local outside = require "spec.support.outside"
local profiling = require "spec.support.profiling"
local util = require "spec.support.util"

local SCRIPT = [[
  local ended = os.clock() + 0.1
  local function work()
    local n = 0
    while os.clock() < ended do for i = 1, 1000 do n = n + i % 7 end end
    return n
  end
  local n = work()
  io.open("/dev/null", "w"):write(n)]]

it("programs that run for a short time are profiled by Lua line", function()
  outside.requires { nosan = true } -- a search takes longer than these programs run
  util.with_tmpname(function(path)
    util.write_file(path, SCRIPT)
    local command = ("exec %s %s"):format(util.lua(), path)
    local prof = outside.profile({ event = "cpu-clock", freq = 1000 }, function()
      for _ = 1, 10 do os.execute(command) end
    end)
    local text = profiling.text(prof)
    assert.is_true(profiling.under(prof, "work") > 0.5e9, text) -- each program uses 0.1 s, in Lua and before
  end)
end)

-- Its story: the first milliseconds of Lua in each new program were outside Lua, until the program's memory was searched again.
it("a new program's first Lua code is profiled by Lua line", function()
  outside.requires { nosan = true }
  util.with_tmpname(function(path)
    util.write_file(path, "local function first() require('testkit').touch_pages(300) end first()\n" .. SCRIPT)
    local command = ("exec %s %s"):format(util.lua(), path)
    local prof = outside.profile({ event = "page-faults", period = 1 }, function()
      for _ = 1, 3 do os.execute(command) end
    end)
    assert.is_true(profiling.under(prof, "first") >= 900, profiling.text(prof))
  end)
end)
