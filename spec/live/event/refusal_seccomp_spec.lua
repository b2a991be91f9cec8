-- A seccomp filter that refuses perf_event_open, as in containers: distinguished from the level, whatever errno it uses.
local kit = require "testkit"
local perf = require "perf"
local util = require "spec.support.util"

for _, name in ipairs { "names", "event.refusal", "event.refusal.permission" } do require("perf." .. name) end

local EPERM, EACCES, ENOSYS = 1, 13, 38

-- Runs fn in a child with a filter, as root or as an ordinary user.
local function filtered(errno, user, fn)
  return util.in_child(function()
    if user then assert(kit.drop()) end
    assert(kit.refuse("perf_event_open", errno))
    return fn()
  end)
end

local function refusal(event)
  return function()
    local _, message, code = perf.open(event)
    return code .. " " .. message
  end
end

local said = "^%s page%%-faults:u: perf_event_open: [%%a ]+ %%(a seccomp filter denies perf_event_open to this process; "

describe("a seccomp filter", function()
  before_each(function() requires { seccomp = true, perf_open = "user" } end)

  it("is named as the reason for EPERM and ENOSYS, to root", function()
    requires { root = true }
    for name, errno in pairs { EPERM = EPERM, ENOSYS = ENOSYS, EACCES = EACCES } do
      assert.matches(said:format(name), filtered(errno, false, refusal "page-faults:u"))
    end
  end)

  it("is named to an ordinary user, although the level would refuse the event too", function()
    requires { root = true }
    for name, errno in pairs { EPERM = EPERM, ENOSYS = ENOSYS } do
      assert.matches(said:format(name), filtered(errno, true, refusal "page-faults:u"))
      assert.matches("a seccomp filter", filtered(errno, true, refusal "page-faults"))
    end
  end)

  it("makes supported() false, with the reason", function()
    local text = filtered(EPERM, false, function()
      local ok, reason = perf.supported()
      return tostring(ok) .. " " .. reason
    end)
    assert.matches("^false dummy:u: perf_event_open: Operation not permitted %(a seccomp filter", text)
  end)

  it("leaves the features unknown that only an event can show", function()
    assert.equal("false nil nil nil true", filtered(EPERM, false, function()
      local f = perf.features { refresh = true }
      return ("%s %s %s %s %s"):format(tostring(f.supported), tostring(f.attr.build_id), tostring(f.breakpoints),
        tostring(f.pmu.present), tostring(next(f.sample_type) == nil))
    end))
  end)

  it("is found by the doctor", function()
    local text = filtered(EPERM, false, function()
      for _, row in ipairs(perf.doctor()) do
        if row.check == "seccomp" then return ("%s|%s|%s"):format(tostring(row.ok), row.detail, row.fix) end
      end
    end)
    assert.matches("^false|a filter denies perf_event_open to this process %(EPERM%)|docker run %-%-cap%-add PERFMON", text)
  end)

  it("that allows perf_event_open changes nothing", function()
    assert.equal("true true a filter, which allows perf_event_open", util.in_child(function()
      assert(kit.refuse("getrusage", EPERM))
      for _, row in ipairs(perf.doctor()) do
        if row.check == "seccomp" then return ("%s %s %s"):format(tostring(perf.supported()), tostring(row.ok), row.detail) end
      end
    end))
  end)

  it("makes perf.measure use the kernel's accounting", function()
    assert.equal("rusage 64", filtered(ENOSYS, false, function()
      kit.settle()
      local counts = perf.measure(kit.touch_pages, 64)
      return ("%s %d"):format(counts.source, counts["page-faults"])
    end))
  end)
end)
