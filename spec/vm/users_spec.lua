-- Ordinary users in emulated machines, at Debian's own kernel.perf_event_paranoid of 3 and at the kernel's 2.
local kit = require "testkit"
local perf = require "perf"
local util = require "spec.support.util"

for _, name in ipairs { "names", "event.refusal", "event.refusal.permission", "event.refusal.unavailable",
  "event.refusal.invalid", "measure", "measure.open_list", "doctor", "doctor.features" } do
  require("perf." .. name)
end

local sysctl = "/proc/sys/kernel/perf_event_paranoid"

-- fn's first result, as user nobody at a level. The machine is ours: no other process minds the level.
local function as_nobody(level, fn, ...)
  local before = util.read_file(sysctl)
  util.write_file(sysctl, level .. "\n")
  local ok, result = pcall(util.in_child, function(...)
    assert(kit.drop())
    return fn(...)
  end, ...)
  util.write_file(sysctl, before)
  if not ok then error(result, 0) end
  return result
end

local function try(event)
  local ev, message, code = perf.open(event)
  if ev then ev:close() end
  return ev and "opened" or code .. " " .. message
end

local function source()
  local c = perf.measure(kit.touch_pages, 64)
  return ("%s %s %s"):format(c.source, tostring(c["page-faults"]), c.cycles and "cycles" or "none")
end

describe("an ordinary user of an emulated machine", function()
  before_each(function() requires { vm = (os.getenv("PERF_VM") or "any"):match "^%w+", root = true } end)

  describe("at Debian's paranoid 3", function()
    it("opens nothing, and gets the reason", function()
      for _, event in ipairs { "page-faults:u", "cycles:u", "task-clock" } do
        local said = as_nobody(3, try, event)
        assert.matches("^EACCES ", said)
        assert.matches("perf_event_paranoid is 3", said, 1, true)
        assert.matches("perf_event_paranoid=2", said, 1, true)
      end
    end)

    it("measures by the kernel's accounting", function()
      assert.matches("^rusage %d+ none$", as_nobody(3, source))
    end)

    it("gets the same answer from the doctor", function()
      local said = as_nobody(3, function()
        for _, row in ipairs(perf.doctor()) do
          if row.check == "perf_event_paranoid" then return tostring(row.ok) end
        end
      end)
      assert.equal("false", said)
    end)
  end)

  describe("at the kernel's 2", function()
    it("opens events of user space alone", function()
      assert.equal("opened", as_nobody(2, try, "page-faults:u"))
      assert.equal("opened", as_nobody(2, try, "task-clock"))
      local said = as_nobody(2, try, "page-faults")
      assert.matches("^EACCES ", said)
      assert.matches("page-faults:u", said, 1, true)
    end)

    it("measures page faults exactly, with the same code as root", function()
      local said = as_nobody(2, source)
      assert.matches("^%a+ %d+ %a+$", said)
      assert.is_falsy(said:find "^rusage")
    end)

    it("is refused a set of all CPUs", function()
      local said = as_nobody(2, function()
        local s, message, code = perf.set("task-clock", { cpus = "online" })
        if s then s:close() end
        return s and "opened" or code .. " " .. message
      end)
      assert.matches("^EACCES .*task%-clock", said)
      assert.matches("paranoid", said)
    end)

    it("is refused tracepoints", function()
      local said = as_nobody(2, try, "raw_syscalls:sys_enter")
      assert.matches("^E%u+ ", said)
    end)
  end)

  it("at 2 counts cycles of user space where there is a PMU", function()
    requires { pmu = true, vm = "arm64" }
    assert.equal("opened", as_nobody(2, try, "cycles:u"))
    assert.matches("^EACCES cycles: .*cycles:u", as_nobody(2, try, "cycles"))
    local said = as_nobody(2, function()
      local c = perf.measure("cycles:u", kit.spin, 2e6)
      return tostring(c.cycles > 1e5)
    end)
    assert.equal("true", said)
    assert.matches("^hardware %d+ cycles$", as_nobody(2, source))
  end)

  it("at 1 counts the kernel's cycles too", function()
    requires { pmu = true, vm = "arm64" }
    assert.equal("opened", as_nobody(1, try, "cycles"))
    assert.equal("opened", as_nobody(1, try, "cycles:k"))
  end)
end)
