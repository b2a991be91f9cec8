-- The meaning of a kernel's answer for a field or a bit. spec/live/doctor/features_spec.lua asks the real kernel.
local machine = require "spec.support.machine"
local probe = require "perf.event.probe"

local here

after_each(function()
  assert.equal(0, here.opened) -- everything that was opened was closed
  here:close()
end)

local function kernel(answer)
  here = machine.new()
  here:answer(answer)
end

describe("probe", function()
  it("learns from a refusal for lack of permission or of a PMU", function()
    for code, verdict in pairs { EACCES = true, EPERM = true, EINVAL = false, E2BIG = false, EOPNOTSUPP = "needs a PMU",
      ENOSYS = "not on this CPU" } do
      kernel(function() return code end)
      assert.equal(verdict, probe.field("build_id", "bit"))
      assert.equal(verdict, probe.name("sample_type", "cgroup"))
      here:close()
    end
    kernel(function() end)
    assert.is_true(probe.field("build_id", "bit"))
  end)

  it("probes with a disabled event that counts nothing, in user space", function()
    local asked
    kernel(function(attr, pid, cpu) asked = { attr, pid, cpu } end)
    probe.field("build_id", "bit")
    assert.same({ { type = "software", config = 9, exclude_kernel = true, exclude_hv = true, disabled = true,
      build_id = true }, 0, -1 }, asked)
  end)

  it("sets the fields that a bit needs", function()
    local attr
    kernel(function(a) attr = a end)
    probe.field("sigtrap", "bit")
    assert.is_true(attr.remove_on_exec)
    probe.field("inherit_thread", "bit")
    assert.is_true(attr.inherit)
    probe.name("sample_type", "stack_user")
    assert.equal(8, attr.sample_stack_user)
    probe.name("branch_sample_type", "user")
    assert.same({ "branch_stack" }, attr.sample_type)
    assert.same({ "user", "any", "user" }, attr.branch_sample_type)
    probe.name("clockid", "tai")
    assert.equal("tai", attr.clockid)
  end)

  it("leaves out fields that the dummy event does not have", function()
    kernel(function() error "not to be asked" end)
    for _, field in ipairs { "bp_addr", "kprobe_func", "uprobe_path" } do assert.is_nil(probe.field(field, "u64")) end
  end)

  it("finds the single field or name that is refused", function()
    kernel(function(attr)
      if attr.exclude_idle then return "EINVAL" end
      for _, name in ipairs(attr.sample_type or {}) do
        if name == "aux" then return "EINVAL" end
      end
    end)
    assert.same({ "exclude_idle" }, { probe.refused_field({ type = "raw", exclude_idle = true, inherit = true }, "raw", {}) })
    assert.same({ "sample_type", "aux" }, {
      probe.refused_field({ type = "raw", sample_type = { "ip", "aux", "tid" } }, "raw", {}) })
    assert.is_nil(probe.refused_field({ type = "raw", exclude_idle = true, sample_type = { "aux" } }, "raw", {}))
    assert.is_nil(probe.refused_field({ type = "raw" }, "raw", {}))
  end)

  it("does not open again an event for which the kernel patches its code", function()
    kernel(function() error "not to be asked" end)
    for _, kind in ipairs { "tracepoint", "kprobe", "uprobe" } do
      assert.is_nil(probe.refused_field({ type = 9, exclude_idle = true }, kind, {}))
    end
    assert.is_nil(probe.refused_field({ type = "software", exclude_idle = true }, "software", { cgroup = "/x" }))
  end)

  it("tells whether the CPU's counters are available", function()
    for code, verdict in pairs { ENOENT = false, EOPNOTSUPP = false, ENODEV = false, ENXIO = false, EINVAL = false,
      EBUSY = true } do
      kernel(function() return code end)
      assert.equal(verdict, probe.cpu_pmu())
      here:close()
    end
    for _, code in ipairs { "EACCES", "EPERM", "ENOSYS", "EMFILE" } do
      kernel(function() return code end)
      assert.is_nil(probe.cpu_pmu())
      here:close()
    end
    kernel(function(attr) return attr.config == 0 and "ENOENT" or nil end) -- instructions alone
    assert.is_true(probe.cpu_pmu())
  end)
end)
