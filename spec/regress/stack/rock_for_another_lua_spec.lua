-- The story: a rock for Lua 5.1 that LuaJIT loaded worked, but its profiles said no more than "stacks were taken at the
-- interpreter's safe points: type", the name of a field that the unwinder had looked for.
local util = require "spec.support.util"

local TEXT = [[
  local perf = require "perf"
  local prof = assert(perf.profile({ event = "page-faults:u", period = 1 }, string.rep, "x", 1e5))
  io.write(prof.method, ": ", prof.method_reason, "\n", tostring(perf.doctor()))
]]

it("LuaJIT with a module for Lua 5.1 says so in a profile, and in doctor", function()
  requires { puc = true, cmd = "luajit", perf_open = "user", nosan = true }
  if _VERSION ~= "Lua 5.1" then return pending "needs: a module for Lua 5.1" end
  util.with_tmpname(function(path)
    util.write_file(path, TEXT)
    local output, status = util.shell("luajit " .. path)
    assert.equal(0, status, output)
    local reason = "the unwinder does not support this build of the interpreter (LuaJIT runs this module, which was built for "
      .. "Lua 5.1: build it for LuaJIT)"
    assert.equal("safe point: " .. reason, output:match "^[^\n]*")
    assert.matches("interpreter LuaJIT.*; the profiler takes stacks at safe points,", (output:gsub("%s+", " ")))
  end)
end)
