--- Being an ordinary user for the time of one child.
local kit = require "testkit"
local sysctl = require "spec.support.sysctl"
local util = require "spec.support.util"

local NOBODY = 65534

--- Runs fn(...) in a child of user nobody at a level of kernel.perf_event_paranoid; its first result, as a string. What fn needs
-- of the tree is to be loaded before, since the tree may stand below a directory that is root's alone.
return function(level, fn, ...)
  return sysctl("perf_event_paranoid", level, util.in_child, function(...)
    assert(kit.drop(NOBODY))
    return fn(...)
  end, ...)
end
