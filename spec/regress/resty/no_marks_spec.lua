-- The story: the stack of a blocked turn is taken by the function that profilers use, which sets the mode in which LuaJIT's
-- compiler marks lines. Nobody cleared it after that, so all code that a worker compiled after its first profile was larger.
local compiled = require "spec.support.compiled"
local perf = require "perf"
local opened = require "spec.support.accounting"
local util = require "spec.support.util"

it("a watcher of turns leaves the compiler's mode as it is", function()
  requires { jit = true, perf_open = true, registers = true, paranoid = 2 }
  assert(perf.profile({ event = "page-faults:u" }, function() end)) -- finds the mode's place
  local none = compiled.exits()
  local _, accounting = opened.open()
  assert.is_true(accounting.watch(1e6, false))
  assert.is_true(util.eventually(function()
    opened.turn(5e6)
    local found = accounting.blocked()
    return found and found.stack
  end))
  opened.close()
  assert.equal(none, compiled.exits())
end)
