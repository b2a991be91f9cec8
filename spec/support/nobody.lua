--- Runs a function as an ordinary user, in a child.
local kit = require "testkit"
local sysctl = require "spec.support.sysctl"
local util = require "spec.support.util"

local NOBODY = 65534

--- Runs fn(...) in a child as user nobody, at a level of kernel.perf_event_paranoid. Returns its first result as a string. Load
-- the modules that fn needs before the call, since only root may be able to read the tree.
return function(level, fn, ...)
  return sysctl("perf_event_paranoid", level, util.in_child, function(...)
    assert(kit.drop(NOBODY))
    return fn(...)
  end, ...)
end
