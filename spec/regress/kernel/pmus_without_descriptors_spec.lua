-- The story: a program measured while all its descriptors were in use, so the files of the PMUs in sysfs could not be opened.
-- They were taken for missing until the process ended: a CPU had no PMUs of cores, and an event had no scale.
local kit = require "testkit"
local pmu = require "perf.kernel.pmu"
local trees = require "spec.support.trees"

-- Call fn() without a free descriptor.
local function without_descriptors(fn)
  local taken, limit = kit.fds(), 0
  while taken[limit] do limit = limit + 1 end
  local soft = kit.rlimit "nofile"
  kit.rlimit("nofile", limit)
  local ok, result = pcall(fn)
  kit.rlimit("nofile", soft)
  assert.is_true(ok, result)
  return result
end

describe("a PMU whose files could not be opened", function()
  local hybrid, server

  setup(function() hybrid, server = trees.hybrid(), trees.server() end)
  teardown(function()
    trees.remove(hybrid)
    trees.remove(server)
  end)

  it("is one of the cores as soon as a descriptor is free", function()
    local pmus = pmu.new(hybrid)
    assert.equal(0, without_descriptors(function() return #pmus:cores() end))
    assert.equal(2, #pmus:cores())
    assert.equal(pmus:cores(), pmus:cores()) -- the list that was read is kept
  end)

  it("is one of the cores if only its own files could not be opened", function()
    local pmus = pmu.new(hybrid)
    for _, name in ipairs(pmus:names()) do pmus:get(name) end
    without_descriptors(function()
      for _, name in ipairs { "cpu_core", "cpu_atom" } do assert.is_false(pmus:get(name):is_core()) end
    end)
    assert.equal(2, #pmus:cores())
  end)

  it("has its events, their scales and its terms as soon as a descriptor is free", function()
    local imc, fresh = pmu.new(server):get "uncore_imc_0", pmu.new(server):get "uncore_imc_0"
    assert.same({}, without_descriptors(function() return imc:describe().events end))
    imc.facts["events/cas_count_read"] = fresh:text "events/cas_count_read" -- the event's text is known, but not its scale
    without_descriptors(function() return imc:event "cas_count_read" end)
    assert.same(fresh:describe(), imc:describe())
    assert.is_number(imc:event("cas_count_read").scale)
  end)
end)
