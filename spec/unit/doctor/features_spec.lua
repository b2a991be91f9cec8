-- perf.features, perf.supported and related functions on simulated machines. Twice: the features are those of the kernel.
local features = require "perf.doctor.features"
local machine = require "spec.support.machine"

local here

-- Lua code over a simulated kernel: pressure by the collector would find nothing here, and take minutes.
before_each(function() requires { nostress = true } end)

after_each(function()
  if here then
    assert.equal(0, here.opened)
    here:close()
  end
  here = nil
  features.features { refresh = true } -- later callers get the facts of the real machine
end)

local function ask(facts, answer)
  here = machine.new(facts)
  here:answer(answer or function() end)
  return features.features { refresh = true }
end

local function has(list, name)
  for _, v in ipairs(type(list) == "table" and list or {}) do
    if v == name then return true end
  end
  return false
end

-- A kernel from some years ago, without a PMU.
local function old_kernel(attr)
  if attr.config4 or attr.config3 or attr.sig_data then return "E2BIG" end
  for _, field in ipairs { "defer_callchain", "defer_output", "build_id", "sigtrap", "remove_on_exec", "inherit_thread",
    "aux_pause", "aux_resume", "aux_start_paused" } do
    if attr[field] then return "EINVAL" end
  end
  if has(attr.sample_type, "weight_struct") or has(attr.read_format, "lost") then return "EINVAL" end
  if has(attr.sample_type, "branch_stack") or attr.aux_output then return "EOPNOTSUPP" end
  if attr.type == "hardware" then return "ENOENT" end
end

describe("perf.features", function()
  it("names the features that an old kernel lacks", function()
    local f = ask({}, old_kernel)
    assert.is_true(f.attr.clockid)
    assert.is_false(f.attr.build_id)
    assert.is_false(f.attr.config3)
    assert.is_false(f.attr.aux_pause)
    assert.equal("needs a PMU", f.attr.aux_output)
    assert.is_nil(f.attr.kprobe_func)
    assert.is_true(f.sample_type.ip)
    assert.is_false(f.sample_type.weight_struct)
    assert.equal("needs a PMU", f.sample_type.branch_stack)
    assert.is_false(f.read_format.lost)
    assert.is_true(f.read_format.group)
    assert.equal("needs a PMU", f.branch_sample_type.any)
    assert.is_true(f.clockid.tai)
    assert.is_false(f.pmu.present)
    assert.is_nil(f.pmu.counters)
    assert.same({ "breakpoint", "software", "tracepoint", "uprobe" }, f.pmu.names)
    assert.matches("\nread_format +4 of 5; not known to this kernel: lost\n", tostring(f))
    assert.matches("\nbranch_sample_type +needs a PMU\n", tostring(f))
  end)

  it("counts the counters of a PMU, and asks it for branches", function()
    local held = 0
    local f = ask({}, function(attr, _, _, leader)
      if attr.type ~= "hardware" then return has(attr.sample_type, "branch_stack") and "EOPNOTSUPP" or nil end
      if has(attr.branch_sample_type, "abort_tx") then return "EOPNOTSUPP" end
      if attr.sample_type then return nil end
      if not leader then held = 0 end
      held = held + 1
      return held > 5 and "EINVAL" or nil
    end)
    assert.is_true(f.pmu.present)
    assert.equal(5, f.pmu.counters)
    assert.is_true(f.branch_sample_type.any)
    assert.equal("not on this CPU", f.branch_sample_type.abort_tx)
    assert.is_true(f.sample_type.branch_stack)
    assert.matches("\nhardware +yes, 5 counters\n", tostring(f))
  end)

  it("does not guess if no event opens", function()
    local f = ask({ seccomp = 2 }, function() return "EPERM" end)
    assert.is_false(f.supported)
    assert.is_nil(f.pmu.present)
    assert.is_nil(f.breakpoints)
    assert.same({}, f.attr)
    assert.same({}, f.ioctl)
    assert.matches("\nsample_type +unknown\n", tostring(f))
  end)

  it("names the needs of probes and BPF", function()
    local files = { ["sys/bus/event_source/devices/kprobe/type"] = "6" }
    local f = ask { files = files }
    assert.equal("needs CAP_PERFMON", f.kprobe)
    assert.equal("needs CAP_SYS_ADMIN", f.uprobe)
    assert.equal("needs CAP_BPF and CAP_PERFMON", f.bpf)
    here:close()
    f = ask { files = files, cap = "000000c000000000" } -- CAP_PERFMON and CAP_BPF
    assert.same({ true, "needs CAP_SYS_ADMIN", true }, { f.kprobe, f.uprobe, f.bpf })
    here:close()
    f = ask { cap = "000001ffffffffff", files = { ["proc/sys/kernel/unprivileged_bpf_disabled"] = false } }
    assert.same({ false, true, false }, { f.kprobe, f.uprobe, f.bpf })
    here:close()
    f = ask { files = { ["sys/kernel/tracing/events/header_page"] = "x", ["sys/kernel/tracing/kprobe_events"] = "" } }
    assert.equal("through tracefs only", f.kprobe)
  end)

  it("says where tracefs is", function()
    assert.equal("not mounted", ask {}.tracefs)
    here:close()
    assert.equal("/sys/kernel/debug/tracing",
      ask { files = { ["sys/kernel/debug/tracing/events/header_page"] = "x" } }.tracefs)
    here:close()
    assert.equal("unreadable: /sys/kernel/tracing",
      ask { files = { ["proc/self/mounts"] = "tracefs /sys/kernel/tracing tracefs rw 0 0" } }.tracefs)
  end)

  it("probes once, and again on request", function()
    local f = ask {}
    assert.equal(f, features.features())
    assert.equal(f, features.features {})
    assert.not_equal(f, features.features { refresh = true })
  end)

  it("refuses unknown options", function()
    assert.error_matches(function() features.features(1) end,
      "bad argument #1 to 'features' %(table of options expected, got number%)")
    assert.error_matches(function() features.features { fresh = true } end, "unknown option 'fresh'")
  end)

  it("knows its interpreter", function()
    local i = features.interpreter()
    assert.equal(rawget(_G, "jit") ~= nil, i.jit)
    assert.matches(i.jit and "^LuaJIT" or "^Lua 5", i.version)
  end)

  it("names the package of each part that is not built", function()
    for name, value in pairs(features.modules()) do
      if value == true then
        assert.is_table(require("perf.ext." .. name))
      else
        assert.matches("^not built: apt%-get install [%w%-]+, then make", value)
      end
    end
  end)

  it("reports that a part is built but does not load", function()
    package.preload["perf.ext.bpf"] = function() error "libbpf.so.1: cannot open shared object file" end
    local was = package.loaded["perf.ext.bpf"]
    package.loaded["perf.ext.bpf"] = nil
    local value = features.modules().bpf
    package.preload["perf.ext.bpf"], package.loaded["perf.ext.bpf"] = nil, was
    assert.matches("^does not load: .*libbpf.so.1: cannot open", value)
  end)
end)

describe("perf.supported", function()
  it("returns the reason after false", function()
    here = machine.new { paranoid = 4 }
    here:answer(function() return "EACCES" end)
    local ok, reason = features.supported()
    assert.is_false(ok)
    assert.matches("^dummy:u: perf_event_open: Permission denied %(kernel.perf_event_paranoid is 4, where", reason)
    here:answer(function() end)
    assert.same({ true }, { features.supported() })
  end)
end)
