-- Names and bytes from untrusted sources: no name leaves its directory, no zero byte cuts a path short, no link is followed to a
-- file, no number in a record is trusted. See doc/security.md.
-- Long: make test runs this file on LuaJIT and Lua 5.4, make test-long on the other interpreters.
local core = require "perf.core"
local kit = require "testkit"
local perf = require "perf"
local util = require "spec.support.util"

local function raises(text, fn, ...)
  local ok, err = pcall(fn, ...)
  assert.is_false(ok, text)
  assert.matches(text, tostring(err), 1, true)
end

-- Bytes of every kind, the same each time.
local odd = { "..", "../x", "x/..", "/etc/passwd", "a\0b", "\n", "%s%n", ("x"):rep(70000), "\255\254", "", " ", "~",
  "$(id)", "`id`", "-rf" }

local function refused(fn, ...)
  local ok, value, message, code = pcall(fn, ...)
  if not ok then
    assert.is_string(value)
    return
  end
  assert.is_nil(value)
  assert.is_string(message)
  assert.matches("^E%u+$", code)
end

describe("names that become paths", function()
  it("of PMUs cannot leave their directory", function()
    raises("cannot be a PMU's name", perf.pmu_type, "../devices/software")
    raises("cannot be a PMU's name", perf.pmu_type, "software/../software")
    raises("cannot be a PMU's name", perf.pmu_type, "/etc")
    raises("'..' cannot be a PMU's name", perf.open, "../software/config=1/")
    raises("unknown term '..'", perf.open, "software/../type/")
    for _, name in ipairs(odd) do refused(perf.pmu_type, name) end
  end)

  it("of tracepoints cannot leave their directory", function()
    raises("cannot be a tracepoint's group", perf.tracepoint_id, "../events/sched", "sched_switch")
    raises("cannot be a tracepoint's name", perf.tracepoint_id, "sched", "../sched/sched_switch")
    raises("cannot be a tracepoint's name", perf.tracepoint_id, "sched", ".")
    for _, name in ipairs(odd) do
      refused(perf.tracepoint_id, name, "sched_switch")
      refused(perf.tracepoint_id, "sched", name)
      refused(perf.open, name .. ":sched_switch")
    end
  end)

  it("of cgroups stay below the mount", function()
    for _, name in ipairs { "..", "../../../etc", "a/../..", "a/.." } do
      raises("a path without '..' expected", perf.open, "page-faults", { cpu = 0, cgroup = name })
    end
    raises("zero bytes", perf.open, "page-faults", { cpu = 0, cgroup = "a\0b" })
    local ev, _, code = perf.open("page-faults", { cpu = 0, cgroup = "a..b" })
    assert.is_nil(ev)
    assert.equal("ENOENT", code)
  end)

  it("of files are not cut short by a zero byte", function()
    raises("zero bytes", perf.data.open, "/etc/passwd\0x")
    raises("zero bytes", perf.data.create, "/tmp/x\0y", { events = "dummy", build_ids = false })
    raises("zero bytes", core.listdir, "/\0x")
    raises("zero bytes", core.opendir, "/\0x")
    raises("zero bytes", perf.record, { "/bin/\0true" }, { output = "/tmp/x" })
    raises("not a name", perf.uprobe, { path = "/bin/sh\0x", offset = 1 })
    raises("not a name", perf.kprobe, { func = "x\0y" })
  end)
end)

describe("odd bytes", function()
  it("in event names are an error that is text", function()
    for _, name in ipairs(odd) do
      local ok, err = pcall(perf.attr, name)
      if not ok then assert.is_string(err) end
    end
  end)

  it("in a uprobe's path or a kprobe's function are refused by the kernel", function()
    requires { root = true }
    for _, name in ipairs { "\n", "%s%n", "\255\254", ("/x"):rep(5000), ("x"):rep(70000), "a b;c", "../../bin" } do
      for kind, fields in pairs { uprobe = { path = name, offset = 1 }, kprobe = { func = name } } do
        local ok, attr, message, code = pcall(perf[kind], fields)
        if ok and attr then
          local ev
          ev, message, code = perf.open(attr)
          assert.is_nil(ev, name:sub(1, 20))
        end
        if ok then
          assert.is_string(message)
          assert.is_string(code)
        end
      end
    end
  end)

  it("in a filter are refused by the kernel", function()
    requires { tracepoint = "sched:sched_switch", root = true, perf_open = true }
    local ev = assert(perf.open "sched:sched_switch")
    for _, text in ipairs { "\255\254 == 1", ("("):rep(10000), "", ("x"):rep(1e6), "prev_pid == %n", "nosuch == 1" } do
      local ok, message, code = ev:set_filter(text)
      assert.is_nil(ok)
      assert.is_string(message)
      assert.matches("^E%u+$", code)
    end
    raises("zero byte", ev.set_filter, ev, "a\0b")
    ev:close()
  end)
end)

describe("a file that is written", function()
  it("is not written through a link in its place", function()
    util.with_tmpname(function(victim)
      util.write_file(victim, "precious")
      util.with_tmpname(function(path)
        os.remove(path)
        assert.equal(0, select(2, util.shell(("ln -s %s %s"):format(victim, path))))
        local w = assert(perf.data.create(path, { events = "dummy", build_ids = false }))
        assert(w:close())
        assert.equal("precious", util.read_file(victim))
        assert(perf.data.open(path)):close()
      end)
    end)
  end)

  it("does not replace an existing file if that is excluded", function()
    util.with_tmpname(function(path)
      local w, _, code = perf.data.create(path, { events = "dummy", build_ids = false, mode = "exclusive" })
      assert.is_nil(w)
      assert.equal("EEXIST", code)
    end)
  end)
end)

describe("a map of a JIT's code in /tmp", function()
  local ext
  before_each(function()
    requires { ext = "symbols", root = true }
    ext = require "perf.ext.symbols"
  end)

  it("is not read through a link, if others may write to it, or if it is not a regular file", function()
    util.with_tmpname(function(path)
      util.write_file(path, "1000 10 name\n")
      assert.equal("1000 10 name\n", (ext.read_owned(path, 0)))
      os.execute("chmod 666 " .. path)
      assert.is_nil((ext.read_owned(path, 0)))
      os.execute("chmod 600 " .. path)
      assert.equal(0, select(2, util.shell(("ln -s %s %s.link"):format(path, path))))
      local text = ext.read_owned(path .. ".link", 0)
      os.remove(path .. ".link")
      assert.is_nil(text)
      assert.is_nil((ext.read_owned("/tmp", 0)))
      assert.is_nil((ext.read_owned("/dev/null", 0)))
    end)
  end)

  it("is not read if it belongs to another user", function()
    util.with_tmpname(function(path)
      util.write_file(path, "1000 10 name\n")
      os.execute("chown 12345 " .. path)
      assert.is_nil((ext.read_owned(path, 0)))
      assert.equal("1000 10 name\n", (ext.read_owned(path, 12345)))
    end)
  end)
end)

describe("numbers in a record", function()
  -- A record of CPUs as a mask with an impossible word width would take hours.
  it("with an impossible word size are damaged", function()
    local perfdata = require "spec.support.perfdata"
    local m = perfdata.maker(core.bytes("2", 1):byte(1) == 1 and "<" or ">")
    local ls = core.layouts()
    ls:add { type = 1, config = 0, sample_type = { "ip" } }
    for _, width in ipairs { 0, 1, 3, 5, 16, 65535 } do
      local body = m.u16(1) .. m.u16(65535) .. m.u16(width) .. ("\255"):rep(2)
      local bytes = m.record(74, 0, body .. ("\255"):rep(4096))
      util.in_child(function() -- which is killed after a minute
        local ok, rec = pcall(ls.record, ls, bytes)
        if ok and rec then pcall(rec.totable, rec) end
      end)
    end
  end)

  it("never lead beyond its bytes", function()
    local ls = core.layouts()
    ls:add { type = 1, config = 0, sample_type = { "ip", "callchain", "raw", "stack_user", "branch_stack" } }
    -- A sample whose inner counts are as large as possible, cut at each length.
    local bytes = ("\255"):rep(512)
    for size = 8, 512, 8 do
      local head = "\9\0\0\0\2\0" .. string.char(size % 256, math.floor(size / 256))
      local ok, rec, _, code = pcall(ls.record, ls, head .. bytes:sub(1, size - 8))
      assert.is_true(ok)
      if rec then pcall(rec.totable, rec) else assert.equal("EBADMSG", code) end
    end
  end)
end)

describe("an ordinary user", function()
  it("gets no more by this module than by the system call", function()
    requires { perf_open = "user", root = true, paranoid = 2 }
    local said = util.in_child(function()
      assert(kit.drop())
      local ev, _, code = perf.open("page-faults", { pid = 1 })
      if ev then return "opened another's process" end
      return code
    end)
    assert.is_truthy(said == "EACCES" or said == "EPERM", said)
  end)
end)
