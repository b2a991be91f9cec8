local pmu = require "perf.kernel.pmu"
local trees = require "spec.support.trees"

local function names_of(list)
  local out = {}
  for i, p in ipairs(list) do out[i] = p.name end
  return out
end

describe("pmu", function()
  local server, hybrid, arm, little, bare

  setup(function()
    server, hybrid, arm, little, bare = trees.server(), trees.hybrid(), trees.arm(), trees.big_little(), trees.bare()
  end)
  teardown(function()
    for _, root in ipairs{server, hybrid, arm, little, bare} do trees.remove(root) end
  end)

  it("lists PMUs in the order of their numbers", function()
    local names = pmu.new(server):names()
    local at = {}
    for i, name in ipairs(names) do at[name] = i end
    assert.equal(at.uncore_imc_2 + 1, at.uncore_imc_3)
    assert.equal(at.uncore_imc_9 + 1, at.uncore_imc_10)
    assert.equal(24, #names)
  end)

  it("has a name, a type and the other facts of sysfs", function()
    local power = pmu.new(server):get("power")
    assert.equal("power", power.name)
    assert.equal(42, power.type)
    assert.equal("0", power:text("cpumask"))
    assert.is_nil(power:text("cpus"))
    assert.is_nil(power:text("caps/max_precise"))
    assert.equal(0, power:max_precise())
    assert.equal(3, pmu.new(server):get("cpu"):max_precise())
    assert.same({"branches", "max_precise", "pmu_name"}, pmu.new(server):get("cpu"):caps())
  end)

  it("lists the PMUs that exist if one is missing", function()
    local p, message, code = pmu.new(server):get("cpux")
    assert.is_nil(p)
    assert.equal("no PMU 'cpux' here; there are: breakpoint, broken, cpu, intel_pt, kprobe, msr, power, software, "
      .. "tracepoint, uncore_imc_*, uncore_imc_free_running_*, uncore_pcu, uprobe", message)
    assert.equal("ENODEV", code)
    p, message, code = pmu.new(server .. "/nowhere"):get("cpu")
    assert.is_nil(p)
    assert.equal("no PMU 'cpu' here; there are: none (is sysfs mounted?)", message)
    assert.equal("ENODEV", code)
    assert.same({}, pmu.new(server .. "/nowhere"):names())
  end)

  it("never leaves its directory", function()
    local pmus = pmu.new(server .. "/cpu")
    for _, name in ipairs{"..", "../cpu", ".", "", "../power", "/etc", "cpu\0", "a\nb"} do
      assert.is_nil((pmus:get(name)), name)
    end
    local cpu = pmu.new(server):get("cpu")
    for _, name in ipairs{"..", ".", "", "../type", "../../power/type", "event\0"} do
      assert.is_nil(cpu:format(name), name)
      assert.is_nil(cpu:event(name), name)
    end
  end)

  it("reads format files", function()
    local cpu = pmu.new(server):get("cpu")
    assert.same({field = "config", ranges = {{0, 7}}, width = 8, text = "config:0-7"}, cpu:format("event"))
    assert.same({field = "config", ranges = {{8, 15}, {40, 47}}, width = 16, text = "config:8-15,40-47"}, cpu:format("umask"))
    assert.same({field = "config", ranges = {{18, 18}}, width = 1, text = "config:18"}, cpu:format("edge"))
    assert.same({field = "config1", ranges = {{0, 63}}, width = 64, text = "config1:0-63"}, cpu:format("offcore_rsp"))
    assert.same({field = "config3", ranges = {{0, 63}}, width = 64, text = "config3:0-63"}, cpu:format("wide3"))
    assert.is_nil(cpu:format("nosuch"))
    local broken = pmu.new(server):get("broken")
    assert.is_nil(broken:format("junk"))
    assert.is_nil(broken:format("over"))
    assert.same({}, pmu.new(server):get("software"):formats())
  end)

  it("reads events and the files beside them", function()
    local pmus = pmu.new(server)
    assert.same({terms = "event=0x02", scale = 2.3283064365386962890625e-10, unit = "Joules", per_pkg = true,
      snapshot = true}, pmus:get("power"):event("energy-pkg"))
    assert.same({terms = "event=0x3c"}, pmus:get("cpu"):event("cpu-cycles"))
    assert.same({"energy-pkg"}, pmus:get("power"):events())
    assert.is_nil(pmus:get("power"):event("energy-pkg.scale"))
    assert.is_nil(pmus:get("power"):event("nosuch"))
    assert.same({}, pmus:get("software"):events())
  end)

  it("finds a family, by either of its names", function()
    local pmus = pmu.new(server)
    assert.equal(12, #pmus:match("uncore_imc"))
    assert.equal(12, #pmus:match("imc"))
    assert.same({"uncore_imc_3"}, names_of(pmus:match("uncore_imc_3")))
    assert.same({"uncore_imc_3"}, names_of(pmus:match("imc_3")))
    assert.same({"uncore_imc_1", "uncore_imc_10", "uncore_imc_11"}, names_of(pmus:match("uncore_imc_1*")))
    assert.same({"uncore_imc_10", "uncore_imc_11"}, names_of(pmus:match("imc_1?")))
    assert.same({"uncore_pcu"}, names_of(pmus:match("pcu")))
    assert.same({"cpu"}, names_of(pmus:match("cpu")))
    assert.same({"armv8_pmuv3_0"}, names_of(pmu.new(arm):match("armv8_pmuv3")))
    assert.equal("uncore_imc", pmus:family("uncore_imc_7"))
    assert.equal("uncore_imc_free_running_0", pmus:family("uncore_imc_free_running_0"))
    assert.equal("cpu", pmus:family("cpu"))
    local found, message, code = pmus:match("nosuch")
    assert.is_nil(found)
    assert.matches("no PMU 'nosuch' here", message, 1, true)
    assert.equal("ENODEV", code)
  end)

  it("does not take core types for one family", function()
    assert.is_nil((pmu.new(hybrid):match("cpu")))
    assert.is_nil((pmu.new(little):match("armv8_cortex")))
  end)

  it("knows the PMUs of the cores", function()
    assert.same({"cpu"}, names_of(pmu.new(server):cores())) -- if a PMU is named cpu, it is the only one of the cores
    assert.same({"cpu_core", "cpu_atom"}, names_of(pmu.new(hybrid):cores()))
    assert.same({"armv8_pmuv3_0"}, names_of(pmu.new(arm):cores()))
    assert.same({"armv8_cortex_a53", "armv8_cortex_a72"}, names_of(pmu.new(little):cores()))
    assert.same({}, pmu.new(bare):cores())
  end)

  it("finds the PMUs that have an event", function()
    assert.same({"cpu_atom", "cpu_core"}, names_of(pmu.new(hybrid):with_event("mem-loads")))
    assert.equal(12, #pmu.new(server):with_event("clockticks"))
    assert.same({}, pmu.new(server):with_event("nosuch"))
  end)

  it("describes itself", function()
    assert.same({
      name = "intel_pt", type = 44, nr_addr_filters = 2, caps = {mtc = "1"}, events = {},
      formats = {tsc = "config:10", noretcomp = "config:11", pt = "config:0", psb_period = "config:24-27"},
    }, pmu.new(server):get("intel_pt"):describe())
    assert.equal("16-23", pmu.new(hybrid):get("cpu_atom"):describe().cpus)
    assert.same({terms = "event=0xd0,umask=0x5"}, pmu.new(hybrid):get("cpu_atom"):describe().events["mem-loads"])
  end)

  it("reads a file once", function()
    local root = trees.make{["x/type"] = "7", ["x/cpumask"] = "0"}
    local p = pmu.new(root):get("x")
    assert.equal("0", p:text("cpumask"))
    trees.remove(root)
    assert.equal("0", p:text("cpumask"))
    assert.is_nil(p:text("cpus"))
  end)
end)
