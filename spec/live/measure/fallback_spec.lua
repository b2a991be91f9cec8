-- The fallbacks of perf.measure without a list: user space only if the kernel may not be counted, the kernel's accounting if
-- perf_event_open is refused.
local as_nobody = require "spec.support.nobody"
local kit = require "testkit"
local perf = require "perf"
local util = require "spec.support.util"

describe("perf.measure without a list", function()
  it("counts user space alone if no more is allowed", function()
    requires { perf_open = "user", root = true, cmd = "flock" }
    local text = as_nobody(2, function()
      local c
      util.exactly(64, function()
        c = perf.measure(kit.touch_pages, 64)
        return c["page-faults"]
      end)
      local entries = {}
      for _, e in ipairs(c) do entries[e.label:match "^[%a-]+"] = e end
      assert(c.source == (entries.cycles and "hardware" or "software"), c.source)
      assert(c["task-clock"] > 0)
      for _, name in ipairs { "context-switches", "cpu-migrations" } do
        assert(c[name] == nil and entries[name].why:find("happen in the kernel", 1, true))
      end
      return tostring(c)
    end)
    assert.matches("64%s+page%-faults:u", text)
    assert.matches("[\n ]page%-faults:u: user space only: kernel.perf_event_paranoid is 2; run: sysctl [%w_.]+=1\n", text)
    assert.matches("<not counted>%s+context%-switches:u%s+# context switches happen in the kernel", text)
  end)

  it("counts by clocks for every user, and names the events that may not be counted", function()
    requires { perf_open = "user", root = true, cmd = "flock" }
    local text = as_nobody(2, function()
      assert(perf.measure("task-clock", kit.spin, 1e6)["task-clock"] > 0)
      local ok, err = pcall(perf.measure, "page-faults", print)
      assert(not ok)
      return err
    end)
    assert.matches("^page%-faults: perf_event_open: Permission denied", text)
    assert.matches("kernel.perf_event_paranoid is 2", text, 1, true)
    assert.matches("page-faults:u", text, 1, true)
    assert.matches("[EACCES]", text, 1, true)
  end)

  for _, code in ipairs { "EPERM", "ENOSYS", "EACCES" } do
    it("asks the kernel's accounting under a filter that gives " .. code, function()
      requires { seccomp = true }
      local errnos = { EPERM = 1, ENOSYS = 38, EACCES = 13 }
      local text = util.in_child(function()
        kit.refuse("perf_event_open", errnos[code])
        local before = kit.fds()
        local c
        util.exactly(64, function()
          local inner
          c = perf.measure(function()
            kit.touch_pages(10)
            inner = perf.measure(kit.touch_pages, 64)
            kit.spin(5e6)
            kit.sleeps(3)
            return "x"
          end)
          return inner["page-faults"]
        end)
        assert(c.source == "rusage", c.source)
        assert(#c == 4)
        assert(c["page-faults"] >= 74)
        assert(c["context-switches"] >= 3)
        assert(c["task-clock"] >= 5e6 and c.wall_ns >= c["task-clock"])
        assert(c[2].raw == c[2].value and c[2].id == nil)
        assert(c["cpu-migrations"] == nil and c[4].why and c[4].raw == nil)
        assert(select(2, perf.measure(function() return "x" end)) == "x")
        for fd in pairs(kit.fds()) do assert(before[fd], "left open: " .. fd) end
        local ok, err = pcall(perf.measure, "page-faults", print)
        assert(not ok and err:find(code, 1, true), err)
        return tostring(c)
      end)
      assert.matches("from the kernel's accounting", text, 1, true)
    end)
  end

  it("does not mistake a full table of descriptors for a refusal", function()
    requires { perf_open = "user" }
    require "perf.names" -- a module that is loaded on first use needs a descriptor for its file
    local text = util.in_child(function()
      local before = kit.fds()
      local limit = 0
      while before[limit] do limit = limit + 1 end
      assert(kit.rlimit("nofile", limit))
      local ok, err = pcall(perf.measure, print)
      assert(not ok)
      return err
    end)
    assert.matches("[EMFILE]", text, 1, true)
  end)
end)
