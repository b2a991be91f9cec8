local kit = require "testkit"
local tracefs = require "perf.kernel.tracefs"
local trees = require "spec.support.trees"

describe("tracefs", function()
  local root
  setup(function() root = trees.tracefs() end)
  teardown(function() trees.remove(root) end)

  it("returns ids", function()
    local fs = tracefs.new{root}
    assert.equal(316, fs:id("sched", "sched_switch"))
    assert.equal(9, fs:id("irq-x", "odd.name"))
    assert.equal(316, fs:id("sched", "sched_switch"))
  end)

  it("searches the roots in order", function()
    assert.equal(317, tracefs.new{root .. "/nowhere", root}:id("sched", "sched_wakeup"))
    assert.equal(root, tracefs.new{root .. "/nowhere", root}:root())
  end)

  it("distinguishes an unknown tracepoint from an unreadable tracefs", function()
    local id, message, code, unknown = tracefs.new{root}:id("sched", "nosuch")
    assert.is_nil(id)
    assert.equal(("no tracepoint 'sched:nosuch' in %s/events"):format(root), message)
    assert.equal("ENOENT", code)
    assert.is_true(unknown)
    id, message, code, unknown = tracefs.new{root .. "/nowhere"}:id("sched", "sched_switch")
    assert.is_nil(id)
    assert.equal(("sched:sched_switch: no tracepoints can be looked up (%s/nowhere/events: No such file or directory): "
      .. "tracefs is not mounted; as root: mount -t tracefs tracefs /sys/kernel/tracing"):format(root), message)
    assert.equal("ENOENT", code)
    assert.is_nil(unknown)
    assert.is_nil((tracefs.new{root}:id("sched", "noid")))
  end)

  it("never leaves its directory", function()
    local fs = tracefs.new{root .. "/events/sched"}
    for _, name in ipairs{"..", ".", "", "../sched", "a/b", "x\0"} do
      assert.is_nil((fs:id(name, "sched_switch")), name)
      assert.is_nil((tracefs.new{root}:id("sched", name)), name)
    end
    assert.is_nil((tracefs.new{root .. "/events"}:id("..", "sched/sched_switch")))
  end)

  it("lists from the directories if there is no list", function()
    assert.same({"irq-x:odd.name", "raw_syscalls:sys_enter", "sched:sched_switch", "sched:sched_wakeup",
      "syscalls:sys_enter_read"}, tracefs.new{root}:names())
  end)

  it("lists from available_events if it exists", function()
    local other = trees.make{["events/header_page"] = "", available_events = "sched:b\nsched:a\nirq:c"}
    assert.same({"irq:c", "sched:a", "sched:b"}, tracefs.new{other}:names())
    trees.remove(other)
  end)

  it("lists nothing if tracefs is not mounted", function()
    local names, message, code = tracefs.new{root .. "/nowhere"}:names()
    assert.is_nil(names)
    assert.matches("tracefs is not mounted", message, 1, true)
    assert.equal("ENOENT", code)
  end)

  it("reports that it may not be read", function()
    requires { root = true }
    local closed = trees.make{["events/sched/sched_switch/id"] = "1"}
    os.execute("chmod 700 '" .. closed .. "'")
    local status, text = kit.fork(function()
      kit.drop()
      local id, message, code = tracefs.new{closed}:id("sched", "sched_switch")
      return tostring(id) .. " " .. tostring(code) .. " " .. tostring(message)
    end)
    trees.remove(closed)
    assert.equal(0, status)
    assert.matches("^nil EACCES sched:sched_switch: no tracepoints can be looked up %(.*Permission denied%): run as root", text)
  end)
end)
