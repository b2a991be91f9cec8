--- Names of events that belong to no particular PMU, their modifiers, lists of names, and unknown names.
local core = require "perf.core"
local golden = require "spec.support.golden"
local names = require "perf.names"

local USER, KERNEL, plus = golden.USER, golden.KERNEL, golden.plus
local m

setup(function() m = golden.machines() end)
teardown(function() golden.remove(m) end)
-- Hundreds of names and no C code: with the collector running all the time it takes minutes, and would find nothing.
before_each(function() requires { nostress = true } end)

describe("names of generic events", function()
  it("hardware", function()
    golden.check(m.bare, {
      {"cpu-cycles", {type = 0, config = 0}, kind = "hardware"}, {"cycles", {type = 0, config = 0}},
      {"instructions", {type = 0, config = 1}}, {"cache-references", {type = 0, config = 2}},
      {"cache-misses", {type = 0, config = 3}}, {"branch-instructions", {type = 0, config = 4}},
      {"branches", {type = 0, config = 4}}, {"branch-misses", {type = 0, config = 5}}, {"bus-cycles", {type = 0, config = 6}},
      {"stalled-cycles-frontend", {type = 0, config = 7}}, {"idle-cycles-frontend", {type = 0, config = 7}},
      {"stalled-cycles-backend", {type = 0, config = 8}}, {"idle-cycles-backend", {type = 0, config = 8}},
      {"ref-cycles", {type = 0, config = 9}}, {"CYCLES", {type = 0, config = 0}}, {"Cache-Misses", {type = 0, config = 3}},
    })
  end)

  it("software", function()
    golden.check(m.bare, {
      {"cpu-clock", {type = 1, config = 0}, kind = "software", unit = "ns"},
      {"task-clock", {type = 1, config = 1}, unit = "ns"}, {"page-faults", {type = 1, config = 2}},
      {"faults", {type = 1, config = 2}}, {"context-switches", {type = 1, config = 3}}, {"cs", {type = 1, config = 3}},
      {"cpu-migrations", {type = 1, config = 4}}, {"migrations", {type = 1, config = 4}},
      {"minor-faults", {type = 1, config = 5}}, {"major-faults", {type = 1, config = 6}},
      {"alignment-faults", {type = 1, config = 7}}, {"emulation-faults", {type = 1, config = 8}},
      {"dummy", {type = 1, config = 9}}, {"bpf-output", {type = 1, config = 10}},
      {"cgroup-switches", {type = 1, config = 11}}, {"Page-Faults", {type = 1, config = 2}},
    })
  end)

  it("hardware and software, as core.generic resolves them, unless the cores are of several types", function()
    local defs, compared = core.defs(), 0
    for _, kind in ipairs { "hardware", "software" } do
      for _, row in ipairs(defs[kind]) do
        for _, name in ipairs { row.name, row.alias } do
          local number, config, unit = core.generic(name)
          for _, machine in ipairs { m.bare, m.server, m.arm } do
            local found = machine:resolve(name)
            assert.same({ { type = number, config = config } }, found.attrs, name)
            assert.equal(unit, found.unit, name)
            compared = compared + 1
          end
        end
      end
    end
    assert.is_true(compared > 60)
    assert.is_nil(core.generic "LLC-loads")
    assert.is_nil(core.generic "")
  end)

  it("caches, by the names that perf list prints", function()
    local ops = {{"loads", "load-misses"}, {"stores", "store-misses"}, {"prefetches", "prefetch-misses"}}
    local has = {["L1-dcache"] = {0, 0, 1, 2}, ["L1-icache"] = {1, 0, 2}, LLC = {2, 0, 1, 2}, dTLB = {3, 0, 1, 2},
      iTLB = {4, 0}, branch = {5, 0}, node = {6, 0, 1, 2}}
    local cases = {}
    for cache, list in pairs(has) do
      for i = 2, #list do
        local config = list[1] + 256 * list[i]
        cases[#cases + 1] = {cache .. "-" .. ops[list[i] + 1][1], {type = 3, config = config}, kind = "cache"}
        cases[#cases + 1] = {cache .. "-" .. ops[list[i] + 1][2], {type = 3, config = config + 65536}}
      end
    end
    assert.equal(32, #cases)
    golden.check(m.bare, cases)
  end)

  it("caches, in other spellings", function()
    local cases = {}
    for name, config in pairs{
      ["l1d"] = 0, ["L1-d"] = 0, ["l1-data"] = 0, ["L1-dcache"] = 0, ["l1-dcache-load"] = 0, ["l1d-read"] = 0,
      ["l1d-read-access"] = 0, ["L1-dcache-loads-refs"] = 0, ["l1d-Reference"] = 0, ["l1d-ops"] = 0,
      ["l1d-misses"] = 0x10000, ["l1d-miss"] = 0x10000, ["l1d-read-miss"] = 0x10000, ["l1d-misses-load"] = 0x10000,
      ["L1-DCACHE-LOAD-MISSES"] = 0x10000, ["l1d-write"] = 0x100, ["l1d-store-ops"] = 0x100, ["l1d-write-misses"] = 0x10100,
      ["l1d-prefetch"] = 0x200, ["l1d-speculative-read"] = 0x200, ["l1d-speculative-load-miss"] = 0x10200,
      ["l1i"] = 1, ["l1-i-load-misses"] = 0x10001, ["L1-instruction-prefetches"] = 0x201,
      ["LLC"] = 2, ["llc"] = 2, ["L2"] = 2, ["l2-stores"] = 0x102, ["LLC-misses"] = 0x10002, ["LLC-prefetch-misses"] = 0x10202,
      ["dtlb"] = 3, ["d-tlb-store-misses"] = 0x10103, ["Data-TLB-loads"] = 3, ["dTLB-prefetch-misses"] = 0x10203,
      ["i-tlb"] = 4, ["Instruction-TLB-load-misses"] = 0x10004,
      ["branch"] = 5, ["bpu-loads"] = 5, ["btb-load-misses"] = 0x10005, ["bpc"] = 5, ["branch-miss"] = 0x10005,
      ["branches-loads"] = 5, ["node"] = 6, ["node-prefetches"] = 0x206, ["NODE-store-misses"] = 0x10106,
    } do
      cases[#cases + 1] = {name, {type = 3, config = config}}
    end
    golden.check(m.bare, cases)
  end)

  it("raw and by number", function()
    golden.check(m.bare, {
      {"r1a8", {type = 4, config = 0x1a8}, kind = "raw"}, {"r0x1a8", {type = 4, config = 0x1a8}},
      {"r0", {type = 4, config = 0}},
      {"rFFFFFFFFFFFFFFFF", {type = 4, config = "0xffffffffffffffff"}}, {"r00000000000000000003c", {type = 4, config = 0x3c}},
      {"1:2", {type = 1, config = 2}}, {"0x2:0x13c", {type = 2, config = 0x13c}},
      {"4294967295:18446744073709551615", {type = 4294967295, config = "0xffffffffffffffff"}},
      {"1:2:u", plus(USER, {type = 1, config = 2})},
      {"r1a8:uk", {type = 4, config = 0x1a8, exclude_hv = true}},
      {"r9007199254740993", {type = 4, config = "0x9007199254740993"}},
    })
  end)

  it("white space around them does not count", function()
    golden.check(m.bare, {{"  cycles:u\t", plus(USER, {type = 0, config = 0}), label = "cycles:u"}})
  end)
end)

describe("modifiers", function()
  local C = {type = 0, config = 0}
  local READ = {sample_type = {"read", "id"}, read_format = {"total_time_enabled", "total_time_running", "id", "group"}}

  it("select the levels to count", function()
    golden.check(m.bare, {
      {"cycles:", C}, {"cycles:u", plus(C, USER)}, {"cycles:k", plus(C, KERNEL)},
      {"cycles:h", plus(C, {exclude_user = true, exclude_kernel = true})},
      {"cycles:uk", plus(C, {exclude_hv = true})}, {"cycles:ku", plus(C, {exclude_hv = true})},
      {"cycles:uh", plus(C, {exclude_kernel = true})}, {"cycles:kh", plus(C, {exclude_user = true})}, {"cycles:ukh", C},
      {"cycles:G", plus(C, {exclude_host = true})}, {"cycles:H", plus(C, {exclude_guest = true})}, {"cycles:GH", C},
      {"cycles:HG", C}, {"cycles:uG", plus(C, plus(USER, {exclude_host = true}))}, {"cycles:I", plus(C, {exclude_idle = true})},
      {"page-faults:u", plus(USER, {type = 1, config = 2})}, {"LLC-loads:k", plus(KERNEL, {type = 3, config = 2})},
    })
  end)

  it("set the precision", function()
    golden.check(m.server, {
      {"cycles:p", plus(C, {precise_ip = 1})}, {"cycles:pp", plus(C, {precise_ip = 2})},
      {"cycles:ppp", plus(C, {precise_ip = 3})},
      {"cycles:upp", plus(C, plus(USER, {precise_ip = 2}))}, {"cycles:pup", plus(C, plus(USER, {precise_ip = 2}))},
      {"cycles:P", plus(C, {precise_ip = 3})}, {"r3c:P", {type = 4, config = 0x3c, precise_ip = 3}},
      {"cpu/event=0x3c/P", {type = 4, config = 0x3c, precise_ip = 3}}, {"LLC-loads:P", {type = 3, config = 2, precise_ip = 3}},
      {"page-faults:P", {type = 1, config = 2}}, {"power/energy-pkg/P", {type = 42, config = 2}},
    })
    golden.check(m.bare, {{"cycles:P", C}, {"cycles:Pp", plus(C, {precise_ip = 1})}})
    golden.fails(m.bare, "cycles:pppp", "cycles:pppp: precise_ip is at most 3 (ppp) at character 8")
  end)

  it("set how the counters are shared", function()
    golden.check(m.bare, {
      {"cycles:D", plus(C, {pinned = true})}, {"cycles:e", plus(C, {exclusive = true})},
      {"cycles:De", plus(C, {pinned = true, exclusive = true})}, {"cycles:W", C}, {"cycles:b", C},
      {"cycles:S", plus(C, READ)},
      {"cycles:ukhGHIpppPDeSWb", plus(plus(C, READ), {precise_ip = 3, exclude_idle = true, pinned = true, exclusive = true})},
    })
    assert.is_true(m.bare:resolve("cycles:W").weak)
    assert.is_nil(m.bare:resolve("cycles:u").weak)
    assert.is_true(m.bare:resolve("cycles:b").bpf)
  end)

  it("are refused by name and place", function()
    golden.fails(m.bare, "cycles:x", "cycles:x: unknown modifier 'x' at character 8; there are ukhGHIpPDeSWb")
    golden.fails(m.bare, "cycles:uux5", "unknown modifier 'x' at character 10")
    golden.fails(m.bare, "cycles:kuk", "modifier 'k' twice at character 10")
    golden.fails(m.bare, "sched:sched_switch:z", "unknown modifier 'z' at character 20")
    golden.fails(m.server, "cpu/event=1/uz", "unknown modifier 'z' at character 14")
    golden.fails(m.server, "cpu/event=1/:uz", "unknown modifier 'z' at character 15")
    golden.fails(m.bare, "mem:0x1000:rw:z", "unknown modifier 'z' at character 15")
  end)
end)

describe("breakpoints", function()
  it("have an address, a length and an access", function()
    local _, machine = core.uname()
    local insn = (machine:find("^aarch64") or machine:find("^arm") or not machine:find("64")) and 4 or 8
    local function bp(addr, len, bits) return {type = 5, config = 0, bp_addr = addr, bp_len = len, bp_type = bits} end
    golden.check(m.bare, {
      {"mem:0x1000", bp(0x1000, 4, 3), kind = "breakpoint"}, {"mem:4096", bp(0x1000, 4, 3)}, {"mem:0x1000:r", bp(0x1000, 4, 1)},
      {"mem:0x1000:w", bp(0x1000, 4, 2)}, {"mem:0x1000:rw", bp(0x1000, 4, 3)}, {"mem:0x1000:wr", bp(0x1000, 4, 3)},
      {"mem:0x1000:x", bp(0x1000, insn, 4)}, {"mem:0x1000:rwx", bp(0x1000, 4, 7)}, {"mem:0x1000/8", bp(0x1000, 8, 3)},
      {"mem:0x1000/8:w", bp(0x1000, 8, 2)}, {"mem:0x1000/1:w:u", plus(USER, bp(0x1000, 1, 2))},
      {"mem:0x1000/0x2:w:k", plus(KERNEL, bp(0x1000, 2, 2))}, {"mem:0x1000:u", plus(USER, bp(0x1000, 4, 3))},
      {"mem:0xffffffff81000000:w", bp("0xffffffff81000000", 4, 2)},
      {"mem:18446744073709551615/1", bp("0xffffffffffffffff", 1, 3)},
      {"mem:0x1000/8:w/name=cell,period=1/u", plus(USER, plus(bp(0x1000, 8, 2), {sample_period = 1})), label = "cell"},
      {"mem:0x1000/period=3/", plus(bp(0x1000, 4, 3), {sample_period = 3})},
    })
  end)

  it("are refused by place", function()
    golden.fails(m.bare, "mem:", "mem:: the address '' is not a number at character 5")
    golden.fails(m.bare, "mem:main", "the address 'main' is not a number")
    golden.fails(m.bare, "mem:0x10000000000000000", "does not fit into 64 bits")
    golden.fails(m.bare, "mem:0x1000/0", "the length is 0 at character 12")
    if select(2, core.uname()) == "x86_64" then
      golden.fails(m.bare, "mem:0x1000/3", "the length is 3, and must be 1, 2, 4 or 8 at character 12")
    end
    golden.fails(m.bare, "mem:0x1000/9x", "the length '9x' is not a number at character 12")
    golden.fails(m.bare, "mem:0x1000:rr", "the access 'rr' names a letter twice at character 12")
    golden.fails(m.bare, "mem:0x1000;rw", "unexpected ';rw' at character 11")
    golden.fails(m.bare, "mem:0x1000/", "no second '/' for the one at character 11")
  end)
end)

describe("tracepoints", function()
  it("are found by group and name", function()
    golden.check(m.bare, {
      {"sched:sched_switch", {type = 2, config = 316}, kind = "tracepoint"},
      {"sched:sched_switch:u", plus(USER, {type = 2, config = 316})},
      {"sched:sched_wakeup:k", plus(KERNEL, {type = 2, config = 317})},
      {"syscalls:sys_enter_read", {type = 2, config = 700}}, {"irq-x:odd.name", {type = 2, config = 9}},
      {"raw_syscalls:sys_enter/name=calls,call-graph=fp/u", plus(USER, {type = 2, config = 21, sample_type = {"callchain"}}),
        label = "calls"},
    })
  end)

  it("are mistakes if tracefs has none of the name", function()
    golden.fails(m.bare, "sched:sched_swtich", "sched:sched_swtich: unknown event; did you mean 'sched:sched_switch'?")
    golden.fails(m.bare, "sched:switch", "did you mean 'sched:sched_switch'?")
    golden.fails(m.bare, "nogroup:nothing", "nogroup:nothing: unknown event")
    golden.fails(m.bare, "sched:nosuch/period=1/", "sched:nosuch: unknown event")
    golden.fails(m.bare, "sched:*", "a pattern is not one event; perf.tracepoints('sched:*')")
    golden.fails(m.bare, "sched:..", "unknown event")
    golden.fails(m.bare, "..:sched_switch", "unknown event")
    golden.fails(m.bare, "a:b:c:d", "a:b:c:d: unknown event")
  end)

  it("are the machine's refusal if tracefs cannot be read", function()
    golden.refused(m.deaf, "sched:sched_switch", "ENOENT", "mount -t tracefs tracefs /sys/kernel/tracing")
    golden.refused(m.deaf, "sched:sched_switch:u", "ENOENT", "sched:sched_switch: no tracepoints can be looked up")
    golden.refused(m.deaf, "sched:sched_switch/period=1/", "ENOENT", "tracefs is not mounted")
  end)
end)

describe("unknown names", function()
  it("raise an error, with similar names", function()
    golden.fails(m.bare, "cylces", "cylces: unknown event; did you mean 'cycles'?")
    golden.fails(m.bare, "page-fault", "did you mean 'page-faults'?")
    golden.fails(m.bare, "instrutions:u", "instrutions:u: unknown event", "'instructions'")
    golden.fails(m.bare, "page-fautls:u", "page-fautls:u: unknown event; did you mean 'page-faults'?")
    golden.fails(m.bare, "LLC-laod-misses", "did you mean 'LLC-load-misses'")
    golden.fails(m.server, "mem-lods", "did you mean 'mem-loads'?")
    golden.fails(m.server, "cas_count", "did you mean 'cas_count_read'")
    golden.fails(m.bare, "x", "x: unknown event")
    golden.fails(m.bare, "completely-made-up-name", "completely-made-up-name: unknown event)")
    golden.fails(m.server, "cpu", "cpu: a PMU, not an event: cpu/EVENT/ or cpu/TERM=VALUE,.../")
    golden.fails(m.bare, "software", "software: a PMU, not an event")
    golden.fails(m.bare, "iTLB-stores", "iTLB-stores: iTLB has no stores")
    golden.fails(m.bare, "branch-prefetches:u", "branch has no prefetches")
    golden.fails(m.bare, "L1-icache-stores/period=1/", "L1-icache has no stores at character 1")
    golden.fails(m.bare, "l1d-load-store", "unknown event")
    golden.fails(m.bare, "l1d-miss-miss", "unknown event")
    golden.fails(m.bare, "l1dx", "unknown event")
    golden.fails(m.bare, "r", "unknown event")
    golden.fails(m.bare, "rxyz", "unknown event")
    golden.fails(m.bare, "r11112222333344445", "does not fit into 64 bits")
    golden.fails(m.bare, "4294967296:1", "has a type over 32 bits")
    golden.fails(m.bare, "1:0x10000000000000000", "does not fit into 64 bits")
    golden.fails(m.bare, "", "empty event name")
    golden.fails(m.bare, "  ", "empty event name")
    golden.fails(m.bare, ":u", "unknown event")
    golden.fails(m.bare, "cycles\0:u", "cycles?:u: control character at character 7")
    golden.fails(m.bare, "cy\ncles", "control character at character 3")
    golden.fails(m.bare, "cycles,instructions", "2 events, where one is expected")
    golden.fails(m.bare, "{cycles}", "a group, where one event is expected")
    golden.fails(m.bare, 5, "event name or table expected, got number")
    golden.fails(m.bare, nil, "event name or table expected, got nil")
    golden.fails(m.bare, true, "event name or table expected, got boolean")
  end)

  it("are looked up in libpfm4 last, if it is installed", function()
    local asked = {}
    local kept = package.loaded["perf.names.pfm"]
    package.loaded["perf.names.pfm"] = {
      find = function(name)
        asked[#asked + 1] = name
        if name == "INST_RETIRED:ANY_P:u" then return {type = 4, config = 0xc0, exclude_kernel = true} end
        return nil, "no such event"
      end,
    }
    local ok, why = pcall(function()
      golden.check(m.bare, {{"INST_RETIRED:ANY_P:u", {type = 4, config = 0xc0, exclude_kernel = true}, kind = "pfm"},
      {"cycles", {type = 0, config = 0}},
        {"sched:sched_switch", {type = 2, config = 316}}})
      assert.same({"INST_RETIRED:ANY_P:u"}, asked)
      golden.fails(m.bare, "INST_RETIRED:NOSUCH", "unknown event")
      golden.check(m.deaf, {{"INST_RETIRED:ANY_P:u", {type = 4, config = 0xc0, exclude_kernel = true}}})
      golden.refused(m.deaf, "INST_RETIRED:NOSUCH", "ENOENT", "tracefs is not mounted")
    end)
    package.loaded["perf.names.pfm"] = kept
    if not ok then error(why, 0) end
  end)
end)

describe("lists", function()
  it("are split outside of slashes, braces and quotes", function()
    for list, parts in pairs{
      ["cycles"] = {"cycles"}, ["a,b"] = {"a", "b"}, [" a , b:u "] = {"a", "b:u"}, ["a,b,{c,d}:u"] = {"a", "b", "{c,d}:u"},
      ["cpu/event=1,umask=2/u,b"] = {"cpu/event=1,umask=2/u", "b"}, ["{cpu/a,b/,c}"] = {"{cpu/a,b/,c}"},
      ["cpu/event=1,name='x,y'/,b"] = {"cpu/event=1,name='x,y'/", "b"}, ["cpu/name='a/b,c'/,d"] = {"cpu/name='a/b,c'/", "d"},
      ["mem:0x1000/8:rw,b"] = {"mem:0x1000/8:rw", "b"}, ["{mem:0x1000/8,b},c"] = {"{mem:0x1000/8,b}", "c"},
      ["mem:0x1000/8:w/name=x,period=1/,b"] = {"mem:0x1000/8:w/name=x,period=1/", "b"},
      ["mem:0x1000/name=x,period=1/,b"] = {"mem:0x1000/name=x,period=1/", "b"}, ["imem:x,b"] = {"imem:x", "b"},
    } do
      assert.same(parts, names.split(list), list)
    end
  end)

  it("are refused by place", function()
    for list, part in pairs{
      ["a,,b"] = "a,,b: empty event name at character 3", ["a,"] = "empty event name at character 3",
        [""] = "empty event name at character 1",
      ["{a,b"] = "'{' without '}' at character 1", ["a}"] = "'}' without '{' at character 2",
        ["{a,{b}}"] = "a group within a group at character 4",
    } do
      local ok, message = pcall(names.split, list)
      assert.is_false(ok, list)
      assert.matches(part, message, 1, true)
    end
  end)

  it("are expanded into groups with their modifiers", function()
    assert.same({{"a"}, {"b:u", "c", braces = true}}, names.expand("a,{b:u,c}"))
    assert.same({{{event = "b:u", modifiers = "kD"},
      {event = "c", modifiers = "k"}, braces = true}}, names.expand("{b:u,c}:kD"))
    assert.same({{{event = "b", modifiers = "De"}, "c", braces = true}, {"d"}}, names.expand("{b,c}:De,d"))
    local ok, message = pcall(names.expand, "{a,b}:q")
    assert.is_false(ok)
    assert.matches("unknown modifier 'q'", message, 1, true)
    ok, message = pcall(names.expand, "{a,}")
    assert.is_false(ok)
    assert.matches("empty event name", message, 1, true)
  end)
end)
