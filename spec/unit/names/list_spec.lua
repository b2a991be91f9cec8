local golden = require "spec.support.golden"
local list = require "perf.names.list"
local memory = require "perf.names.memory"

local m

setup(function() m = golden.machines() end)
teardown(function() golden.remove(m) end)
-- Hundreds of names, without C code: minutes under pressure by the collector, which would find nothing here.
before_each(function() requires { nostress = true } end)

local function of(machine, pattern)
  return list.of(machine.pmus, machine.tracefs, pattern)
end

local function names_of(rows)
  local out = {}
  for i, row in ipairs(rows) do out[i] = row.name end
  return out
end

describe("list", function()
  it("has every kind of event", function()
    local count = {}
    for _, row in ipairs(of(m.server)) do count[row.kind] = (count[row.kind] or 0) + 1 end
    assert.same({hardware = 10, software = 12, cache = 32, pmu = 12, raw = 11, breakpoint = 1, tracepoint = 5, memory = 2}, count)
  end)

  it("has names that resolve", function()
    for _, machine in ipairs{m.server, m.hybrid, m.arm, m.little, m.bare} do
      for _, row in ipairs(of(machine)) do
        if row.kind ~= "raw" and row.kind ~= "breakpoint" and row.name ~= "broken/bad/" and row.name ~= "cpu/param/"
          and not row.name:find("/param/") then
          local found = row.kind == "memory" and memory.resolve(row.name) or machine:resolve(row.name)
          assert.is_table(found, row.name)
          assert.equal(row.kind, found.kind, row.name)
          assert.equal(row.unit, found.unit, row.name)
          assert.equal(row.scale, found.scale, row.name)
        end
      end
    end
  end)

  it("describes each event", function()
    assert.same({
      {name = "power/energy-pkg/", kind = "pmu", pmu = "power", unit = "Joules", scale = 2.3283064365386962890625e-10,
        description = "event=0x02"},
    }, of(m.server, "energy"))
    assert.same({{name = "cpu-cycles", alias = "cycles", kind = "hardware",
      description = "Core cycles; their frequency follows the CPU's"}}, of(m.bare, "cpu-cycles"))
    assert.same({{name = "LLC-load-misses", kind = "cache", description = "Load misses of the last-level cache"}},
      of(m.bare, "llc-load-m"))
  end)

  it("lists the boxes of a family once", function()
    assert.same({"uncore_imc/cas_count_read/", "uncore_imc/clockticks/", "uncore_imc/TERM=VALUE,.../",
      "uncore_imc_free_running_0/TERM=VALUE,.../"}, names_of(of(m.server, "imc")))
  end)

  it("selects by part of a name, glob, Lua pattern and kind, in any case", function()
    assert.same({"page-faults"}, names_of(of(m.bare, "page-f")))
    assert.same({"page-faults"}, names_of(of(m.bare, "PAGE-F")))
    assert.same({"page-faults", "minor-faults", "major-faults", "alignment-faults", "emulation-faults"},
      names_of(of(m.bare, "*-faults")))
    assert.same({"cpu-clock", "task-clock"}, names_of(of(m.bare, "-clock")))
    assert.same({"task-clock"}, names_of(of(m.bare, "????-clock")))
    assert.same({"sched:sched_switch", "sched:sched_wakeup"}, names_of(of(m.bare, "sched:*")))
    assert.same({"sched:sched_switch"}, names_of(of(m.bare, "^sched:.*h$")))
    assert.equal(12, #of(m.bare, "software"))
    assert.equal(5, #of(m.bare, "tracepoint"))
    assert.same({"cpu-cycles", "bus-cycles", "ref-cycles"}, names_of(of(m.bare, "*cycles")))
    assert.same({"cpu-migrations"}, names_of(of(m.bare, "migrations")))
    assert.same({}, names_of(of(m.bare, "nosuch")))
    assert.same({}, names_of(of(m.bare, "a.b")))
  end)

  it("works without tracefs and sysfs", function()
    assert.equal(0, #of(m.deaf, "tracepoint"))
    assert.equal(10 + 12 + 32 + 2 + 2, #of(m.nowhere))
  end)

  it("prints as a table", function()
    assert.equal([[
NAME        KIND      UNIT  DESCRIPTION
cpu-clock   software  ns    Time on the CPU, from a high-resolution timer
task-clock  software  ns    Time the task ran]], tostring(of(m.bare, "-clock")))
    assert.equal("page-faults OR faults  software    Page faults, minor and major", tostring(of(m.bare, "page-f")[1]))
  end)
end)

describe("pmus", function()
  it("describe themselves", function()
    local all = list.pmus_of(m.hybrid.pmus)
    local by = {}
    for i, d in ipairs(all) do by[d.name] = all[i] end
    assert.equal(7, #all)
    assert.equal(10, by.cpu_atom.type)
    assert.equal("16-23", by.cpu_atom.cpus)
    assert.equal("config:0-7", by.cpu_core.formats.event)
    assert.equal("event=0xd0,umask=0x5", by.cpu_atom.events["mem-loads"].terms)
    assert.equal("2", by.cpu_atom.caps.max_precise)
  end)

  it("print", function()
    local all = list.pmus_of(m.arm.pmus)
    assert.equal([[
PMU            TYPE  CPUS  TERMS                    EVENTS
arm_cmn_0      9     0     eventid,type
armv8_pmuv3_0  8     0-3   event,long,rdpmc         cpu_cycles,inst_retired,l1d_cache_refill
breakpoint     5
kprobe         6           retprobe
software       1
tracepoint     2
uprobe         7           ref_ctr_offset,retprobe]], tostring(all))
    assert.equal([[
armv8_pmuv3_0  type 8
  cpus         0-3
  caps         slots = 0x00000000
  formats      event = config:0-15
               long = config1:0
               rdpmc = config1:1
  events       cpu_cycles = event=0x0011
               inst_retired = event=0x0008
               l1d_cache_refill = event=0x0003]], tostring(all[2]))
  end)
end)
