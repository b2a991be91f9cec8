-- The causes of EINVAL, with simulated kernels that refuse what the spec chooses.
local core = require "perf.core"
local machine = require "spec.support.machine"

local why, with, cycles, dummy = machine.why, machine.with, machine.cycles, machine.dummy

local here

after_each(function()
  if here then
    assert.equal(0, here.opened)
    here:close()
  end
  here = nil
end)

describe("invalid", function()
  -- A kernel that accepts everything except what the spec refuses.
  local function kernel(refuses)
    here = machine.new()
    here:answer(function(attr, pid, cpu, leader) return refuses(attr, pid, cpu, leader) and "EINVAL" or nil end)
  end
  local function never() return false end
  local function always() return true end

  it("names fields that contradict each other", function()
    kernel(never)
    for text, fields in pairs {
      ["sample_stack_user is 12, and must be a multiple of 8 below 65535"] = { sample_type = { "stack_user" },
        sample_stack_user = 12 },
      ["sample_stack_user is 65536, and must be a multiple of 8 below 65535"] = { sample_type = { "stack_user" },
        sample_stack_user = 65536 },
      ['branch_stack needs a kind of branch in branch_sample_type; add branch_sample_type={"any"}'] =
        { sample_type = { "branch_stack" } },
      ['branch_sample_type has a privilege level but no kind of branch; add "any"'] = { sample_type = { "branch_stack" },
        branch_sample_type = { "user" } },
      ["weight and weight_struct exclude each other"] = { sample_type = { "weight", "weight_struct" } },
      ["inherit_thread needs inherit"] = { inherit_thread = true },
      ["remove_on_exec and enable_on_exec exclude each other"] = { remove_on_exec = true, enable_on_exec = true },
      ["sigtrap needs remove_on_exec"] = { sigtrap = true },
      ["aux_pause and aux_resume exclude each other"] = { aux_pause = true, aux_resume = true },
      ['inherit with read in sample_type needs tid there too; add "tid" to sample_type'] = { inherit = true,
        sample_type = { "read", "ip" } },
      ["sample_regs_user names no register; set it to a mask of the CPU's registers"] = { sample_type = { "regs_user" } },
      ["sample_period is 2^63 or more"] = { sample_period = "0x8000000000000000" },
      ["sample_freq is 200000, and kernel.perf_event_max_sample_rate 100000; use sample_freq=100000, or run: sysctl "
        .. "kernel.perf_event_max_sample_rate=200000"] = { sample_freq = 200000 },
      ["aux_sample_size acts on the AUX area of the event that leads its group; open it in such a group"] = {
        aux_sample_size = 4096 },
    } do
      assert.equal(text, why("dummy", with(dummy, fields), "EINVAL"))
    end
  end)

  it("explains a wrong target", function()
    kernel(never)
    for text, ctx in pairs {
      ["pid=-1 with cpu=-1 would be every process on every CPU; give cpu=, or use perf.set, which opens one event on each CPU"] =
        { pid = -1 },
      ["a cgroup's event needs a CPU; give cpu=, or use perf.set"] = { cgroup = "/x" },
      ["there is no CPU 7; this machine has 0-3"] = { pid = -1, cpu = 7 },
      ["no process has the pid -2"] = { pid = -2 }, ["no CPU has the number -3"] = { cpu = -3 },
    } do
      assert.equal(text, why("dummy", dummy, "EINVAL", ctx))
    end
  end)

  it("finds names and bits that the kernel does not know", function()
    kernel(function(attr)
      local list = attr.sample_type
      if type(list) == "table" then
        for _, name in ipairs(list) do
          if name == "weight_struct" then return true end
        end
      end
      return type(list) == "number" and list == 2 ^ 25 or attr.read_format == 2 ^ 5
    end)
    assert.equal("this kernel does not know 'weight_struct' of sample_type; leave it out",
      why("dummy", with(dummy, { sample_type = { "ip", "weight_struct" } }), "EINVAL"))
    assert.equal("this kernel does not know 'bit25' of sample_type; leave it out",
      why("dummy", with(dummy, { sample_type = 2 ^ 25 + 1 }), "EINVAL"))
    assert.equal("this kernel does not know 'bit5' of read_format; leave it out",
      why("dummy", with(dummy, { read_format = 2 ^ 5 }), "EINVAL"))
  end)

  it("finds fields that the kernel does not know", function()
    kernel(function(attr) return attr.defer_callchain end)
    assert.equal("this kernel does not know the field defer_callchain; leave it out",
      why("dummy", with(dummy, { defer_callchain = true, sample_type = { "callchain" } }), "EINVAL"))
  end)

  it("finds registers that the CPU does not have", function()
    kernel(function(attr) return attr.sample_regs_user and tonumber(attr.sample_regs_user) > 2 ^ 20 end)
    assert.equal("sample_regs_user names registers that this CPU does not have: bit 24, 30",
      why("dummy", with(dummy, { sample_type = { "regs_user" }, sample_regs_user = 2 ^ 30 + 2 ^ 24 + 3 }), "EINVAL"))
  end)

  it("knows the rules of breakpoints", function()
    kernel(always)
    local function bp(fields) return why("b", with({ type = "breakpoint" }, fields), "EINVAL") end
    assert.equal('bp_type is empty; set it to {"w"}, {"r", "w"} or {"x"}', bp { bp_addr = 4096, bp_len = 4 })
    assert.equal('a breakpoint on code cannot watch data too; use bp_type={"x"}', bp { bp_type = { "r", "x" }, bp_addr = 4096,
      bp_len = 8 })
    assert.equal("bp_len is 3, and must be 1, 2, 4 or 8", bp { bp_type = { "w" }, bp_addr = 4096, bp_len = 3 })
    assert.equal("bp_addr 0x1002 is not a multiple of bp_len 4", bp { bp_type = { "w" }, bp_addr = 4098, bp_len = 4 })
    assert.equal("bp_addr 0xfffffffffffff000 is the kernel's, and exclude_kernel leaves the kernel out",
      bp { bp_type = { "w" }, bp_addr = -4096, bp_len = 8, exclude_kernel = true })
    local _, name = core.uname()
    if name == "x86_64" then
      assert.equal('x86 cannot watch reads alone; use bp_type={"r", "w"}', bp { bp_type = { "r" }, bp_addr = 4096, bp_len = 8 })
      assert.equal("bp_len is 4, and on code it must be 8", bp { bp_type = { "x" }, bp_addr = 4096, bp_len = 4 })
    end
  end)

  it("knows PMUs that count no processes, no modes, no samples", function()
    here = machine.new { files = { ["sys/bus/event_source/devices/uncore_imc/type"] = "12",
      ["sys/bus/event_source/devices/uncore_imc/cpumask"] = "0,18", ["sys/bus/event_source/devices/msr/type"] = "9" } }
    here:answer(function(attr) return (attr.exclude_kernel or attr.sample_period) and "EINVAL" or nil end)
    assert.equal("the PMU uncore_imc counts for all of a socket, not for a process; use pid=-1 and cpu=0",
      why("uncore_imc/cas/", { type = 12 }, "EINVAL", { pid = 0 }))
    assert.equal("the PMU msr cannot tell user space from the kernel; leave the modifiers and exclude_ fields out",
      why("msr/tsc/u", { type = 9, exclude_kernel = true }, "EINVAL", { pid = -1, cpu = 0 }))
    assert.equal("the PMU msr can count but not sample; leave sample_period and sample_freq out",
      why("msr/tsc/", { type = 9, sample_period = 1000 }, "EINVAL", { pid = -1, cpu = 0 }))
  end)

  it("explains clocks, and invalid places of tracepoints and probes", function()
    kernel(never)
    assert.equal('clock tai is for software events only; use clockid="monotonic" or "monotonic_raw"',
      why("t", { type = "tracepoint", config = 1, clockid = "tai" }, "EINVAL"))
    assert.equal("no tracepoint has id 99999, or perf cannot use it; ids are in tracefs, events/*/*/id",
      why("t", { type = "tracepoint", config = 99999 }, "EINVAL"))
    assert.equal("no uprobe can be set at offset 0x10 of /bin: no instruction begins there, or it is no regular file",
      why("u", { type = 7, uprobe_path = "/bin", probe_offset = 16 }, "EINVAL"))
  end)

  it("gives the reason why an event cannot join its group", function()
    here = machine.new()
    here:answer(function(_, _, _, leader) return leader and "EINVAL" or nil end)
    local function beside(info, attr, ctx)
      ctx = ctx or {}
      ctx.group = { info = function() return info end }
      return why("b", with(dummy, attr or {}), "EINVAL", ctx)
    end
    local a = { label = "a", attr = dummy, pid = 0, cpu = -1 }
    assert.equal("pinned is for the leader of a group; set it there", beside(a, { pinned = true }))
    assert.equal("it is on CPU 1 and its leader a on CPU -1", beside(a, nil, { cpu = 1 }))
    assert.equal("it counts process 7 and its leader a process 0", beside(a, nil, { pid = 7 }))
    assert.equal("inherit must be the same as that of its leader a", beside(a, { inherit = true }))
    assert.equal("clockid must be the same as that of its leader a", beside(a, { clockid = "monotonic" }))
    assert.equal("its leader a is itself a member of a group; give that group's leader",
      beside { label = "a", attr = dummy, pid = 0, cpu = -1, leader = {} })
    assert.equal("it opens alone, but not beside its leader a: it belongs to another PMU, or there are not enough counters; "
      .. "open it outside of the group", beside(a))
  end)

  it("leaves out fields until the event opens", function()
    here = machine.new()
    here:answer(function(attr)
      if attr.exclude_idle then return "EINVAL" end
      for _, name in ipairs(type(attr.sample_type) == "table" and attr.sample_type or {}) do
        -- the name alone is known (tested with the dummy event), but cannot be combined with this event
        if name == "transaction" and attr.config ~= 9 then return "EINVAL" end
      end
    end)
    assert.equal("without exclude_idle it opens", why("x", with(cycles, { exclude_idle = true }), "EINVAL"))
    assert.equal("without 'transaction' in sample_type it opens",
      why("x", { type = "software", config = 0, sample_type = { "ip", "transaction", "tid" } }, "EINVAL"))
  end)

  it("claims no more than is certain", function()
    kernel(always)
    assert.is_nil(why("dummy", dummy, "EINVAL"))
    assert.is_nil(why("dummy", dummy, "EILSEQ"))
    assert.is_nil(why("dummy", dummy, "E999"))
  end)
end)
