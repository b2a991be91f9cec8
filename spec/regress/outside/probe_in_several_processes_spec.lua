-- The story: of several processes, a probe of a function was sampled in the first one only. The count of the others was
-- "(unsampled)". Twice: the events of processes do not depend on what these run.
local outside = require "spec.support.outside"
local kit = require "testkit"
local perf = require "perf"
local profiling = require "spec.support.profiling"

it("a probe of a function is sampled in each of several processes", function()
  outside.requires { ext = { "bpf", "outside", "symbols" }, uprobe = true }
  local _, path, symbol = kit.probe_place()
  local function call() kit.probe(50) end
  local a, b = assert(kit.start(call)), assert(kit.start(call))
  local event = perf.uprobe { path = path, symbol = symbol }
  local prof = outside.profile_children({ pid = { a:pid(), b:pid() }, event = event }, a, b)
  local text = profiling.text(prof)
  assert.equal(100, tonumber(prof.total), text)
  assert.equal(100, profiling.under(prof, "call"), text)
end)
