-- Why the memory of another process cannot be read, on simulated machines: Yama's rules, and ids that differ in part.
-- spec/live/outside/refused_spec.lua causes the other refusals.
local access = require "perf.outside.access"
local core = require "perf.core"
local machine = require "spec.support.machine"

local here
after_each(function()
  if here then here:close() end
  here = nil
end)

local function status(uid, capabilities)
  capabilities = capabilities or "0000000000000000"
  return ("Uid:\t%s\t1000\nGid:\t1000\t1000\t1000\t1000\nCapPrm:\t%s\nCapEff:\t%s\n"):format(uid, capabilities, capabilities)
end

-- The reason for process 70, and the one that is foreseen before the memory is read.
local function reasons(own, theirs, scope)
  if here then here:close() end
  local files = { ["proc/self/status"] = own, ["proc/70/status"] = theirs, ["proc/70/auxv"] = "x",
    ["proc/71/status"] = theirs, ["proc/71/auxv"] = "x" }
  files["proc/sys/kernel/yama/ptrace_scope"] = scope and scope .. "\n"
  files[("proc/%d/task/%d/children"):format(core.pid(), core.pid())] = "71 "
  here = machine.new { files = files }
  local head = "process 70: its memory cannot be read: "
  local function why(message)
    return message and message:sub(#head + 1):gsub("^that needs CAP_SYS_PTRACE, since (.*): .*$", "%1")
  end
  return (why(access.refusal(70))), (why(access.lacks(70)))
end

local user, tracer = status "1000\t1000\t1000", status("1000\t1000\t1000", "0000000000080000")

describe("the reason why the memory of a process cannot be read", function()
  it("is Yama's rule", function()
    for scope = 1, 2 do
      local rule = "kernel.yama.ptrace_scope is " .. scope
      assert.same({ rule, rule }, { reasons(user, user, scope) })
    end
    assert.equal("kernel.yama.ptrace_scope is 3, which permits nobody to read another process", (reasons(tracer, user, 3)))
    local other = "a security module, or a seccomp filter, refuses it despite CAP_SYS_PTRACE"
    assert.same({ other }, { reasons(tracer, user, 2) })
  end)

  it("is not Yama's rule if that permits it", function()
    for _, scope in ipairs { false, 0 } do
      assert.same({ "a security module refuses it without that" }, { reasons(user, user, scope) })
    end
    reasons(user, user, 1)
    assert.is_nil(access.lacks(71)) -- a child
    reasons(user, user, 2)
    assert.is_string(access.lacks(71))
  end)

  it("is an id of the process, or a capability that this program lacks", function()
    local id = "it has the uid 0, and this program 1000"
    assert.same({ id, id }, { reasons(user, status "1000\t0\t0") })
    assert.same({ id, id }, { reasons(user, status "1000\t1000\t0") })
    local capability = "it has capabilities that this program lacks"
    assert.same({ capability, capability }, { reasons(user, status("1000\t1000\t1000", "0000000000000020"), 1) })
  end)
end)
