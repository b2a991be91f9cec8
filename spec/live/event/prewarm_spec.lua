-- One event of each kind stays open. The specs use separate processes: this one keeps none, so that its descriptors can be
-- counted.
local kit = require "testkit"
local util = require "spec.support.util"

-- The output of a program that keeps events.
local function program(text)
  local output
  util.with_tmpname(function(path)
    util.write_file(path, text)
    output = util.shell("env -u PERF_KEEP " .. util.lua() .. " " .. path)
  end)
  return output
end

local head = [[
local kit, perf = require "testkit", require "perf"
local function descriptors()
  local n = 0
  for _ in pairs(kit.fds()) do n = n + 1 end
  return n
end
local before = descriptors()
local function more() return descriptors() - before end
]]

describe("perf.keep", function()
  it("keeps one event of each kind for which the kernel patches its code, and releases them", function()
    requires { perf_open = true }
    assert.equal("0 2 1 1 2 2 0 2\n", program(head .. [[
      local seen = {}
      local function see() seen[#seen + 1] = more() end
      perf.open("task-clock"):close() see()
      local ev = perf.open "page-faults" see()
      ev:close() see()
      perf.open("page-faults:u"):close() see()
      perf.open("context-switches"):close() see()
      for _ = 1, 10 do perf.open("page-faults"):close() end see()
      perf.release() see()
      perf.measure("page-faults", function() end) see()
      print(table.concat(seen, " "))]]))
  end)

  it("keeps tracepoints, but those of system calls only on request", function()
    requires { perf_open = "user", tracefs = true }
    assert.equal("1 1 2 2 0\n", program(head .. [[
      local seen = {}
      local function see() seen[#seen + 1] = more() end
      assert(perf.open "sched:sched_process_exec"):close() see()
      assert(perf.open "syscalls:sys_enter_getppid"):close() see()
      assert(perf.keep "syscalls:sys_enter_getppid") see()
      assert(perf.keep "syscalls:sys_enter_getppid") see()
      perf.release() see()
      print(table.concat(seen, " "))]]))
  end)

  it("does not change counts", function()
    requires { perf_open = true }
    assert.equal("64 64 0\n", program(head .. [[
      perf.open("page-faults"):close()
      kit.touch_pages(8)
      local ev = perf.open "page-faults:u"
      kit.settle() -- the module's own pages were loaded after testkit's
      ev:enable()
      kit.touch_pages(64)
      ev:disable()
      local child = kit.fork(function()
        local mine = perf.open "page-faults:u"
        kit.settle()
        mine:enable()
        kit.touch_pages(64)
        mine:disable()
        assert(mine:read().value == 64)
      end)
      print(ev:read().value, 64, child)]]):gsub("\t", " "))
  end)

  it("keeps nothing with PERF_KEEP=0, and gives the reason why an event cannot be kept", function()
    requires { perf_open = true }
    local perf = require "perf"
    local before = kit.fds()
    perf.open("page-faults"):close()
    assert.same(before, kit.fds())
    assert.has_error(function() perf.keep "page-fault" end)
    local ok, _, code = perf.keep { type = 0xfff0, config = 1 }
    assert.same({ nil, "ENOENT" }, { ok, code })
  end)
end)
