-- The story: at kernel.perf_event_paranoid 2 an ordinary user's perf.measure(fn) counted only user space, 2,049 of 4,098 faults,
-- and labelled them "page-faults" without a note. A tracepoint with :u, which is in the kernel, showed 0. cpu-clock:u and
-- cpu-clock:k each showed the whole time, since the kernel's clocks run whatever is excluded. Twice: the kernel and the labels
-- are the same.
local kit = require "testkit"
local perf = require "perf"
local as_nobody = require "spec.support.nobody"
local util = require "spec.support.util"

local ONLY = "user space only: kernel.perf_event_paranoid is 2; run: sysctl kernel.perf_event_paranoid=1"

-- A list of events, limited to those that exist here.
local function told(c, ...)
  local lines = {}
  for _, label in ipairs { ... } do
    for _, e in ipairs(c) do
      local value = e.value ~= nil and "value" or "nil"
      if e.label == label then lines[#lines + 1] = ("%s %s: %s"):format(label, value, e.why or "") end
    end
  end
  return table.concat(lines, "\n")
end

local IN_KERNEL = "happen in the kernel (exclude_kernel, :u, leaves that out); " .. ONLY
local WANTED = ("page-faults:u value: %s\ncontext-switches:u nil: context switches %s\ntask-clock value: "):format(ONLY,
  IN_KERNEL)

describe("counts of user space alone", function()
  before_each(function() requires { root = true, perf_open = "user", nostress = true, cmd = "flock" } end)

  it("say so in perf.measure's default list, and in the results computed from it", function()
    assert.equal(WANTED .. "\nsame", as_nobody(2, function()
      local c = perf.measure(kit.touch_pages, 64)
      local text = told(c, "page-faults:u", "context-switches:u", "task-clock")
      local shown = tostring(c):find("page-faults:u: " .. ONLY, 1, true) and tostring(c[2]):find("%d+ %(user space only")
      local found = c["page-faults"] == c["page-faults:u"] and c["page-faults"] >= 64 and c:json():find(ONLY, 1, true)
      return text .. (shown and found and "\nsame" or tostring(c))
    end))
  end)

  it("say so in a profiler's list", function()
    assert.equal(WANTED, as_nobody(2, function()
      local p = assert(perf.software_profiler())
      return told(p:measure(kit.touch_pages, 64), "page-faults:u", "context-switches:u", "task-clock")
    end))
  end)

  it("say so in perf.bench and perf.compare", function()
    local text = as_nobody(2, function()
      local opts = { repeats = 1, min_time = 0, warmup = 0 }
      return tostring(perf.bench(function() end, opts))
        .. tostring(perf.compare({ a = function() end, b = function() end }, opts))
    end)
    local _, times = text:gsub("page%-faults:u: " .. ONLY, "")
    assert.equal(2, times, text)
  end)

  it("say so in spans", function()
    assert.equal("page-faults:u alone", as_nobody(2, function()
      local found
      local tracer = perf.tracer { exporter = function(spans) found = spans[1] end, delay = 0 }
      local span = tracer:start "a"
      kit.touch_pages(64)
      span:finish()
      tracer:close()
      local alone = found.counts["page-faults"] == nil and found.counts["context-switches:u"] == nil
      return found.counts["page-faults:u"] >= 64 and alone and "page-faults:u alone" or "something else"
    end))
  end)

  it("say so in luaperf stat, for any events", function()
    util.with_directory(function(dir)
      util.execute("chmod 777 " .. dir)
      for i, events in ipairs { "page-faults,context-switches,task-clock", "" } do
        local file = ("%s/%d.json"):format(dir, i)
        as_nobody(2, function()
          local words = { [0] = "luaperf", "stat", "-o", file, "--", "true" }
          if events ~= "" then
            table.insert(words, 2, events)
            table.insert(words, 2, "-e")
          end
          assert(require "perf.command".main(words) == 0)
        end)
        local c = assert(require "perf.base.json".decode(util.read_file(file)))
        assert.equal(WANTED, told(c.events, "page-faults:u", "context-switches:u", "task-clock"))
      end
    end)
  end)

  it("mark recordings by a clock, which have no samples of the kernel", function()
    util.with_directory(function(dir)
      util.execute("chmod 777 " .. dir)
      local path = dir .. "/perf.data"
      as_nobody(2, function() assert(perf.record({ "true" }, { events = "cpu-clock", output = path })) end)
      local file = assert(perf.data.open(path))
      assert.same({ "cpu-clock:u", true }, { file.attrs[1].label, file.attrs[1].exclude_kernel })
      file:close()
    end)
  end)

  it("have no such note if nothing was left out", function()
    assert.equal("page-faults value: ", told(perf.measure(kit.touch_pages, 64), "page-faults"))
    assert.equal("page-faults:u value: ", as_nobody(2, function()
      return told(perf.measure("page-faults:u", kit.touch_pages, 64), "page-faults:u")
    end))
  end)
end)

describe("an event that counts nothing with :u", function()
  before_each(function() requires { perf_open = "user" } end)

  it("has a reason instead of a 0", function()
    requires { tracepoint = "sched:sched_switch" }
    assert.equal("sched:sched_switch:u nil: this tracepoint is in the kernel (exclude_kernel, :u, leaves that out)",
      told(perf.measure("sched:sched_switch:u", kit.sleeps, 3), "sched:sched_switch:u"))
  end)

  it("is not a tracepoint of a system call", function()
    requires { tracepoint = "syscalls:sys_enter_getppid" }
    assert.equal(7, perf.measure("syscalls:sys_enter_getppid:u", kit.syscalls, 7)[1].value)
  end)
end)

describe("the kernel's clocks", function()
  before_each(function() requires { perf_open = "user" } end)

  it("have a note that they ignore :u and :k", function()
    local whole = " value: the kernel's clocks ignore :u and :k: this is the whole time"
    local c = perf.measure("cpu-clock:u,task-clock:k,task-clock", kit.spin, 1e6)
    assert.equal("cpu-clock:u" .. whole .. "\ntask-clock:k" .. whole .. "\ntask-clock value: ",
      told(c, "cpu-clock:u", "task-clock:k", "task-clock"))
    local g = assert(perf.group { "cpu-clock:u" })
    assert.equal("cpu-clock:u" .. whole, told(g:measure(kit.spin, 1e6), "cpu-clock:u"))
    g:close()
    local ev = assert(perf.open "cpu-clock:u")
    ev:enable()
    assert.matches("this is the whole time", tostring(ev:read()))
    ev:close()
  end)
end)
