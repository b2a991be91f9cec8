-- The story: under luaperf record and perf.auto, jit.p showed nearly all time of compiled functions at the line of their caller.
-- The session ran LuaJIT's own profiler, so that signals stop compiled code. When jit.p started its own, LuaJIT noted the mode of
-- the new profiler, then stopped the old one, and with that forgot the mode: the compiled code had no tests for jit.p's samples.
local luaperf = require "spec.support.luaperf"
local util = require "spec.support.util"

local SCRIPT = [[
local profile = require "jit.profile"
local inside, outside = 0, 0
local function sum(n)
  local s = 0
  for i = 1, n do s = s + math.sin(i) end                                                  -- line 5
  return s
end
for round = 1, 2 do -- the second after the first has stopped
  profile.start("li1", function(thread, samples)
    local line = tonumber(profile.dumpstack(thread, "l", 1):match ":(%d+)")
    if line == 5 then inside = inside + samples else outside = outside + samples end
  end)
  for _ = 1, 5000 do
    sum(100000)
    if inside + outside >= round * 20 then break end
  end
  profile.stop()
end
io.write(inside > outside and "inside" or ("inside %d, outside %d"):format(inside, outside), " ")
io.write(tostring(select(2, pcall(profile.start, "l", 5))))]]

describe("jit.profile in a script that is profiled", function()
  for _, how in ipairs { "luaperf record -o a.json", "LUA -lperf.auto" } do
    it("shows the lines of compiled code: " .. how, function()
      requires { lua = "luajit", perf_open = "user", registers = true }
      util.with_directory(function(dir)
        util.write_file(dir .. "/a.lua", SCRIPT)
        local text = luaperf.shell(dir, (how:gsub("LUA", util.lua())) .. " a.lua 2>/dev/null")
        assert.equal("inside bad argument #2 to '?' (function expected, got number)", text)
      end)
    end)
  end
end)
