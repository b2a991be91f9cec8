-- perf.tracefields on records of this kernel: raw samples of tracepoints whose values are known. Twice: formats are parsed in
-- C, and 5.4 has integers.
local kit = require "testkit"
local util = require "spec.support.util"
local core = require "perf.core"

local tf, perf

local function need(tracepoint)
  requires{ext = "tracefields", root = true, tracepoint = tracepoint, perf_open = tracepoint and true}
  tf = require "perf.record.tracefields"
  perf = require "perf"
end

-- The raw bytes of each hit of a tracepoint in this thread while fn runs.
local function raw_of(name, fn, pages)
  local ev = assert(perf.open({event = name, sample_period = 1, sample_type = {"tid", "time", "raw"}}))
  assert(ev:map{pages = pages or 64})
  fn() -- the work of the first call only
  assert(ev:enable())
  fn()
  assert(ev:disable())
  local list = {}
  while ev:has_record() do
    local rec = assert(ev:read_record(0))
    assert.equal("sample", rec.type)
    list[#list + 1] = rec.raw
  end
  ev:close()
  return list
end

describe("perf.tracefields", function()
  it("has every system call with its number and arguments", function()
    need("raw_syscalls:sys_enter")
    local number = ({x86_64 = 110, aarch64 = 173})[select(2, core.uname())]
    if not number then return pending("needs: a machine whose getppid is known by number") end
    local n = 0
    for _, raw in ipairs(raw_of("raw_syscalls:sys_enter", function() kit.syscalls(100) end)) do
      local t = assert(tf.decode("raw_syscalls:sys_enter", raw))
      assert.equal(6, #t.args)
      assert.equal(select(2, core.pid()), t.common_pid)
      if t.id == number then n = n + 1 end
    end
    assert.equal(100, n)
  end)

  it("has the arguments that were given", function()
    need("syscalls:sys_enter_openat")
    -- fopen for reading: openat(AT_FDCWD, path, O_RDONLY)
    local path = "/no/such/directory/" .. kit.getpid()
    local found
    for _, raw in ipairs(raw_of("syscalls:sys_enter_openat", function() io.open(path, "r") end)) do
      local t = assert(tf.decode("syscalls:sys_enter_openat", raw))
      local low = core.halves(t.dfd)
      if low == 4294967196 then found = t end -- -100
    end
    assert.equal(0, (core.band(found.flags, 3)))
    assert.equal(0, found.mode)
    local low, high = core.halves(found.filename)
    assert.is_true(low + high > 0)
    if type(found.filename) ~= "number" then error("an address of user space is exact") end
  end)

  it("has the tasks of a switch", function()
    need("sched:sched_switch")
    local before = util.read_file("/proc/thread-self/comm"):gsub("\n", "")
    kit.set_comm("luaperf-switch")
    local list = raw_of("sched:sched_switch", function() kit.sleeps(20) end)
    kit.set_comm(before)
    local n = 0
    for _, raw in ipairs(list) do
      local t = assert(tf.decode("sched:sched_switch", raw))
      assert.equal("luaperf-switch", t.prev_comm)
      assert.equal(select(2, core.pid()), t.prev_pid)
      assert.is_true(t.prev_prio == 120 or t.prev_prio < 140)
      assert.is_string(t.next_comm)
      if t.prev_state == 1 then n = n + 1 end -- asleep, not preempted
    end
    assert.equal(20, n)
    -- The same as the kernel's text, and by the record.
    local text = assert(tf.text("sched:sched_switch", list[1]))
    assert.matches("^prev_comm=luaperf%-switch prev_pid=%d+ prev_prio=%d+ prev_state=%u.* ==> next_comm=", text)
  end)

  it("has strings that lie at the record's end", function()
    need("sched:sched_process_exec")
    local ev = assert(perf.open({event = "sched:sched_process_exec", sample_period = 1, inherit = true,
      sample_type = {"tid", "time", "raw"}}, {pid = 0, cpu = kit.cpus()[1]}))
    assert(ev:map{pages = 8})
    kit.pin(kit.cpus()[1])
    assert(ev:enable())
    local child = kit.start(function() kit.exec("/bin/true") end)
    child:go()
    child:wait()
    assert(ev:disable())
    kit.unpin()
    local found
    while ev:has_record() do
      local rec = assert(ev:read_record(0))
      local t = rec.type == "sample" and assert(tf.decode("sched:sched_process_exec", rec.raw))
      if t and t.filename == "/bin/true" then found = t end
    end
    ev:close()
    assert.equal(found.pid, found.common_pid)
  end)

  it("gives the same as rec.raw_fields", function()
    need("raw_syscalls:sys_enter")
    local ev = assert(perf.open({event = "raw_syscalls:sys_enter", sample_period = 1, sample_type = {"raw"}}))
    assert(ev:map{pages = 8})
    assert(ev:enable())
    kit.syscalls(3)
    assert(ev:disable())
    local rec = assert(ev:read_record(0))
    assert.same(tf.decode("raw_syscalls:sys_enter", rec.raw), rec.raw_fields)
    ev:close()
  end)

  it("finds a tracepoint by its id and by its name", function()
    need("sched:sched_switch")
    requires{nostress = true} -- thousands of files
    local id = tonumber(util.read_file(util.tracefs_dir() .. "/events/sched/sched_switch/id"))
    tf.forget()
    local by_id = assert(tf.format(id))
    assert.same({"sched_switch", "sched", id}, {by_id.name, by_id.system, by_id.id})
    assert.same(by_id, tf.format("sched:sched_switch"))
    assert.equal("ENOENT", select(3, tf.format(4294967295)))
    assert.equal("ENOENT", select(3, tf.decode("sched:no_such_thing", "")))
  end)

  it("understands every format of this kernel", function()
    need("sched:sched_switch")
    requires{nostress = true} -- thousands of files
    local root = util.tracefs_dir() .. "/events"
    local n, zeros = 0, ("\0"):rep(4096)
    for _, group in ipairs(assert(core.listdir(root))) do
      for _, name in ipairs(core.listdir(root .. "/" .. group) or {}) do
        local f = io.open(("%s/%s/%s/format"):format(root, group, name))
        local text = f and f:read("*a")
        if f then f:close() end
        if text then
          local format = assert(tf.parse(text, {system = group}))
          local fields = format:fields()
          local _, declared = text:gsub("\tfield:", "")
          assert.equal(declared, #fields)
          local t = assert(format:decode(zeros))
          for _, field in ipairs(fields) do assert.is_truthy(t[field.name]) end
          format:close()
          n = n + 1
        end
      end
    end
    assert.is_true(n > 100)
  end)

  it("says which users may read the formats", function()
    need("sched:sched_switch")
    requires{hidden_tracefs = true}
    assert.equal("EACCES", util.in_child(function()
      tf.forget()
      assert(kit.drop())
      local t, message, code = tf.decode("sched:sched_switch", "")
      assert(not t and message:find("remount", 1, true), message)
      return code
    end))
  end)
end)
