--- Terms between slashes, by the format and event files of PMUs; events that several PMUs count together.
local golden = require "spec.support.golden"

local USER, KERNEL, plus = golden.USER, golden.KERNEL, golden.plus
local m

setup(function() m = golden.machines() end)
teardown(function() golden.remove(m) end)
-- Hundreds of names, without C code: minutes under pressure by the collector, which would find nothing here.
before_each(function() requires { nostress = true } end)

describe("terms of a PMU", function()
  it("are put into the fields that its format files name", function()
    golden.check(m.server, {
      {"cpu/event=0x3c/", {type = 4, config = 0x3c}, kind = "pmu"}, {"cpu/event=60/", {type = 4, config = 0x3c}},
      {"cpu/event=0x3c,umask=1/", {type = 4, config = 0x13c}},
      {"cpu/umask=0x1ff,event=1/", {type = 4, config = "0x1000000ff01"}},
      {"cpu/event=0xff,umask=0xffff,edge,inv,cmask=0xff/", {type = 4, config = "0xff00ff84ffff"}},
      {"cpu/event=1,edge/", {type = 4, config = 0x40001}}, {"cpu/event=1,edge=1/", {type = 4, config = 0x40001}},
      {"cpu/event=1,edge=0/", {type = 4, config = 1}}, {"cpu/ event = 1 , umask = 2 /", {type = 4, config = 0x201}},
      {"cpu/event=0xb7,offcore_rsp=0xffffffffffffffff/", {type = 4, config = 0xb7, config1 = "0xffffffffffffffff"}},
      {"cpu/split=0xff/", {type = 4, config = 0, config2 = "0xf0000000f"}},
      {"cpu/split=0xa5/", {type = 4, config = 0, config2 = "0xa00000005"}},
      {"cpu/acr_mask=3/", {type = 4, config = 0, config2 = 3}},
      {"cpu/wide3=0x123456789abcdef/", {type = 4, config = 0, config3 = "0x123456789abcdef"}},
      {"cpu//", {type = 4, config = 0}}, {"cpu//u", plus(USER, {type = 4, config = 0})},
      {"cpu/event=0x3c/u", plus(USER, {type = 4, config = 0x3c})},
      {"cpu/event=0x3c/:k", plus(KERNEL, {type = 4, config = 0x3c})},
      {"cpu/event=1,event=2/", {type = 4, config = 2}},
      {"intel_pt/tsc,noretcomp=0,psb_period=3/", {type = 44, config = 0x3000400}},
      {"msr/event=1/", {type = 43, config = 1}}, {"kprobe/retprobe/", {type = 6, config = 1}},
      {"uprobe/ref_ctr_offset=0xffffffff/", {type = 7, config = "0xffffffff00000000"}},
    })
    golden.check(m.arm, {
      {"armv8_pmuv3_0/event=0x11,long=1/", {type = 8, config = 0x11, config1 = 1}},
      {"armv8_pmuv3/event=0x11/u", plus(USER, {type = 8, config = 0x11})},
      {"arm_cmn_0/type=5,eventid=0xff/", {type = 9, config = 0xff0005}},
    })
  end)

  it("may be a raw number, or a generic event of a core", function()
    golden.check(m.server, {
      {"cpu/r1a8/", {type = 4, config = 0x1a8}}, {"cpu/r0x1a8,edge/", {type = 4, config = 0x401a8}},
      {"cpu/config=0x1a8/", {type = 4, config = 0x1a8}},
      {"cpu/config=0x100,event=1/", {type = 4, config = 0x101}}, {"cpu/read/", {type = 4, config = 0x77}},
      {"cpu/cycles/", {type = 0, config = 0}}, {"cpu/branch-misses/u", plus(USER, {type = 0, config = 5})},
      {"cpu/LLC-load-misses/", {type = 3, config = 0x10002}},
      {"cpu/cycles,period=1000/", {type = 0, config = 0, sample_period = 1000}},
      {"software/page-faults/", {type = 1, config = 2}, unit = nil},
      {"software/task-clock/u", plus(USER, {type = 1, config = 1}), unit = "ns"},
      {"software/config=9/", {type = 1, config = 9}}, {"tracepoint/config=316/", {type = 2, config = 316}},
    })
    golden.fails(m.server, "software/cycles/",
      "unknown term 'cycles' at character 10; the PMU 'software' has no terms of its own")
    golden.fails(m.server, "power/cycles/", "unknown term 'cycles'")
    golden.fails(m.server, "cpu/cycles,event=1/", "'cycles' cannot be combined with the PMU's own terms")
  end)

  it("may be an event that sysfs lists in another case, or with the value 1, as perf accepts them", function()
    golden.check(m.server, {
      {"cpu/READ/", {type = 4, config = 0x77}}, {"cpu/read=1/", {type = 4, config = 0x77}},
      {"cpu/Read,edge/", {type = 4, config = 0x40077}},
    })
    golden.fails(m.server, "cpu/read=2/", "unknown term 'read'")
    golden.fails(m.server, "cpu/EVENT=1/", "unknown term 'EVENT'")
  end)

  it("may be an event that sysfs lists, and change it", function()
    golden.check(m.server, {
      {"cpu/cpu-cycles/", {type = 4, config = 0x3c}}, {"cpu/mem-loads/", {type = 4, config = 0x1cd, config1 = 3}},
      {"cpu/mem-loads,ldat=30/upp", plus(USER, {type = 4, config = 0x1cd, config1 = 30, precise_ip = 2})},
      {"cpu/ldat=30,mem-loads/", {type = 4, config = 0x1cd, config1 = 30}}, {"cpu/param,umask=7/", {type = 4, config = 0x710}},
      {"cpu/mem-stores,cmask=1,name=stores/", {type = 4, config = 0x10082d0}, label = "stores"},
      {"cpu/topdown-total-slots/", {type = 4, config = 0x3c}, scale = 2}, {"msr/tsc/", {type = 43, config = 0}},
      {"power/energy-pkg/", {type = 42, config = 2}, scale = 2.3283064365386962890625e-10, unit = "Joules", per_pkg = true,
        snapshot = true, cpumask = "0"},
      {"mem-loads", {type = 4, config = 0x1cd, config1 = 3}, kind = "pmu"},
      {"mem-loads:pp", {type = 4, config = 0x1cd, config1 = 3, precise_ip = 2}},
      {"mem-loads/ldat=50/k", plus(KERNEL, {type = 4, config = 0x1cd, config1 = 50})}, {"slots", {type = 4, config = 0x400}},
      {"energy-pkg", {type = 42, config = 2}, unit = "Joules"}, {"tsc", {type = 43, config = 0}},
    })
    golden.check(m.arm, {
      {"inst_retired:u", plus(USER, {type = 8, config = 8})}, {"armv8_pmuv3_0/l1d_cache_refill/", {type = 8, config = 3}},
    })
    golden.fails(m.server, "cpu/param/", "event 'param' needs a value: umask= at character 5")
    golden.fails(m.server, "cpu/mem-loads,mem-stores/", "both 'mem-loads' and 'mem-stores' are events at character 15")
    golden.fails(m.server, "broken/bad/", "event 'bad' of sysfs (nosuch=1): unknown term 'nosuch' at character 8")
  end)

  it("include those that every PMU accepts", function()
    local c = {type = 4, config = 0x3c}
    golden.check(m.server, {
      {"cpu/event=0x3c,period=100003/", plus(c, {sample_period = 100003})},
      {"cpu/event=0x3c,freq=999/", plus(c, {sample_freq = 999})},
      {"cpu/event=0x3c,config1=0x10,config2=2,config3=3,config4=4/",
        plus(c, {config1 = 16, config2 = 2, config3 = 3, config4 = 4})},
      {"cpu/event=0x3c,name=busy/u", plus(c, USER), label = "busy"},
      {"cpu/event=0x3c,name='busy, really'/", c, label = "busy, really"},
      {"cpu/event=0x3c,name='a/b:c=d'/u", plus(c, USER), label = "a/b:c=d"},
      {"cpu/event=0x3c,time/", plus(c, {sample_type = {"time"}})}, {"cpu/event=0x3c,time=0/", c},
      {"cpu/event=0x3c,call-graph=fp/", plus(c, {sample_type = {"callchain"}})}, {"cpu/event=0x3c,call-graph=no/", c},
      {"cpu/event=0x3c,call-graph=lbr/", plus(c, {sample_type = {"callchain"},
        branch_sample_type = {"user", "call_stack", "no_flags", "no_cycles"}})},
      {"cpu/event=0x3c,branch_type=any/", plus(c, {branch_sample_type = {"any"}})}, {"cpu/event=0x3c,branch_type=no/", c},
      {"cpu/event=0x3c,branch_type=any_ret|u|save_type/", plus(c, {branch_sample_type = {"any_return", "user", "type_save"}})},
      {"cpu/event=0x3c,stack-size=1024/", plus(c, {sample_stack_user = 1024})},
      {"cpu/event=0x3c,max-stack=7/", plus(c, {sample_max_stack = 7})},
      {"cpu/event=0x3c,inherit/", plus(c, {inherit = true})}, {"cpu/event=0x3c,no-inherit/", c},
      {"cpu/event=0x3c,no-inherit=0/", plus(c, {inherit = true})},
      {"cpu/event=0x3c,overwrite/", plus(c, {write_backward = true})}, {"cpu/event=0x3c,no-overwrite/", c},
      {"cpu/event=0x3c,aux-output/", plus(c, {aux_output = true})},
      {"cpu/event=0x3c,aux-sample-size=4096/", plus(c, {aux_sample_size = 4096})},
      {"cpu/event=0x3c,aux-action=pause/", plus(c, {aux_pause = true})},
      {"cpu/event=0x3c,aux-action=resume/", plus(c, {aux_resume = true})},
      {"intel_pt/aux-action=start-paused/", {type = 44, config = 0, aux_start_paused = true}},
      {"cycles/period=1000,name=c/u", plus(USER, {type = 0, config = 0, sample_period = 1000}), label = "c"},
      {"cycles//u", plus(USER, {type = 0, config = 0})},
      {"page-faults/period=1/", {type = 1, config = 2, sample_period = 1}},
      {"LLC-loads/freq=99/k", plus(KERNEL, {type = 3, config = 2, sample_freq = 99})},
      {"r1a8/name=raw/", {type = 4, config = 0x1a8}, label = "raw"},
    })
  end)

  it("are refused by name and place", function()
    golden.fails(m.server, "cpu/evnt=0x3c/",
      "cpu/evnt=0x3c/: unknown term 'evnt' at character 5; the PMU has: acr_mask, cmask, edge, event,",
      "; did you mean 'event'?")
    golden.fails(m.server, "cpu/event=1,umsk=1/", "unknown term 'umsk' at character 13", "did you mean 'umask'?")
    golden.fails(m.server, "cpu/mem-laods/", "unknown term 'mem-laods' at character 5", "did you mean 'mem-loads'?")
    golden.fails(m.server, "cpu/event=0x100/",
      "the value 0x100 of 'event' does not fit into 8 bits (config:0-7) at character 11")
    golden.fails(m.server, "cpu/edge=2/", "the value 0x2 of 'edge' does not fit into 1 bits (config:18)")
    golden.fails(m.server, "cpu/split=0x100/", "the value 0x100 of 'split' does not fit into 8 bits (config2:0-3,32-35)")
    golden.fails(m.server, "cpu/event=0x10000000000000000/", "does not fit into 64 bits at character 11")
    golden.fails(m.server, "cpu/event=zz/", "the value 'zz' of 'event' is not a number at character 11")
    golden.fails(m.server, "cpu/event=-1/", "the value '-1' of 'event' is not a number")
    golden.fails(m.server, "cpu/event=/", "a value expected for 'event' at character 11")
    golden.fails(m.server, "cpu/event=1,,umask=1/", "a term expected at character 13")
    golden.fails(m.server, "cpu/event=1,/", "a term expected at character 13")
    golden.fails(m.server, "cpu/=1/", "a term expected at character 5")
    golden.fails(m.server, "cpu/event=1 umask=1/", "the value '1 umask=1' of 'event' is not a number")
    golden.fails(m.server, "cpu/ev ent/", "',' expected after 'ev' at character 8")
    golden.fails(m.server, "cpu/e$/", "character '$' in a term's name at character 6")
    golden.fails(m.server, "cpu/event=1,name='x/", "no second '/' for the one at character 4")
    golden.fails(m.server, "cpu/event=1,name/", "'name' needs a value at character 13")
    golden.fails(m.server, "cpu/time=2/", "the value 2 of 'time' is over 1 at character 10")
    golden.fails(m.server, "cpu/max-stack=65536/", "is over 65535")
    golden.fails(m.server, "cpu/call-graph=dwarf/", "needs a choice of registers")
    golden.fails(m.server, "cpu/call-graph=x/", "unknown call-graph 'x'; there are fp, lbr, no")
    golden.fails(m.server, "cpu/branch_type=some/", "unknown branch type 'some' at character 17")
    golden.fails(m.server, "cpu/aux-action=stop/", "unknown aux-action 'stop'")
    golden.fails(m.server, "cpu/percore/", "'percore' is an option of the perf command, not of an event at character 5")
    golden.fails(m.server, "cpu/period=1,freq=1/", "both a period and a freq")
    golden.fails(m.server, "cpu/../../power/type/", "unknown term '..'")
    golden.fails(m.server, "cpu/../", "unknown term '..' at character 5")
    golden.fails(m.server, "cycles/event=1/", "unknown term 'event' at character 8")
    golden.fails(m.server, "cycles/perod=1/", "unknown term 'perod' at character 8; did you mean 'period'?")
    golden.fails(m.server, "cpu/event=1", "cpu/event=1: no second '/' for the one at character 4")
    golden.fails(m.server, "cpu/event=1/u/", "unknown modifier '/' at character 14")
    golden.fails(m.server, "/event=1/", "a name expected before '/' at character 1")
    golden.fails(m.server, "../event=1/", "'..' cannot be a PMU's name at character 1")
    golden.fails(m.server, "broken/junk=1/", "unknown term 'junk'")
  end)

  it("of a missing PMU are the machine's refusal", function()
    golden.refused(m.bare, "cpu/event=0x3c/", "ENODEV",
      "cpu/event=0x3c/: no PMU 'cpu' here; there are: breakpoint, kprobe, software")
    golden.refused(m.hybrid, "cpu/event=0x3c/", "ENODEV", "there are: breakpoint, cpu_atom, cpu_core,")
    golden.refused(m.server, "cpux/event=1/u", "ENODEV", "no PMU 'cpux' here")
    golden.refused(m.nowhere, "cpu//", "ENODEV", "none (is sysfs mounted?)")
  end)
end)

describe("an event on several PMUs", function()
  it("is one attr for each core type of a hybrid CPU", function()
    golden.check(m.hybrid, {
      {"cycles", {type = 0, config = "0x400000000"}, {type = 0, config = "0xa00000000"}, kind = "hardware"},
      {"instructions:u", plus(USER, {type = 0, config = "0x400000001"}), plus(USER, {type = 0, config = "0xa00000001"})},
      {"LLC-load-misses", {type = 3, config = "0x400010002"}, {type = 3, config = "0xa00010002"}},
      {"cycles:P", {type = 0, config = "0x400000000", precise_ip = 3}, {type = 0, config = "0xa00000000", precise_ip = 2}},
      {"cycles/period=7,name=c/", {type = 0, config = "0x400000000", sample_period = 7},
        {type = 0, config = "0xa00000000", sample_period = 7}, label = "c"},
      {"mem-loads", {type = 10, config = 0x5d0}, {type = 4, config = 0x1cd, config1 = 3}},
      {"cpu_core/cycles/", {type = 0, config = "0x400000000"}},
      {"cpu_atom/LLC-loads/u", plus(USER, {type = 3, config = "0xa00000002"})},
      {"cpu_atom/event=0x3c/", {type = 10, config = 0x3c}},
      {"cpu_*/event=0x3c/", {type = 10, config = 0x3c}, {type = 4, config = 0x3c}},
      {"page-faults", {type = 1, config = 2}}, {"r1a8", {type = 4, config = 0x1a8}}, {"0:0", {type = 0, config = 0}},
    })
    assert.same({"cpu_core", "cpu_atom"}, m.hybrid:resolve("cycles").pmus)
    golden.check(m.little, {
      {"cycles:u", plus(USER, {type = 0, config = "0x800000000"}), plus(USER, {type = 0, config = "0x900000000"})},
    })
    golden.check(m.arm, {{"cycles:u", plus(USER, {type = 0, config = 0})}})
  end)

  it("is one attr for each box of an uncore family", function()
    local boxes, clocks = {"uncore_imc/cas_count_read/"}, {"imc/clockticks,umask=2/"}
    for box = 0, 11 do
      boxes[box + 2], clocks[box + 2] = {type = 20 + box, config = 0x304}, {type = 20 + box, config = 0x2ff}
    end
    boxes.scale, boxes.unit, boxes.cpumask = 6.103515625e-5, "MiB", "0,28"
    golden.check(m.server, {
      boxes, clocks, {"uncore_imc_3/cas_count_read/", {type = 23, config = 0x304}, unit = "MiB"},
      {"uncore_imc_1?/event=1/", {type = 30, config = 1}, {type = 31, config = 1}}, {"pcu/event=2/", {type = 41, config = 2}},
    })
    assert.equal("uncore_imc_11", m.server:resolve("cas_count_read").pmus[12])
  end)
end)
