-- perf.record: commands and processes recorded into perf.data files that both this module and perf read. Twice: the recorder
-- and the files are C, the same for each interpreter.
local as_nobody = require "spec.support.nobody"
local core = require "perf.core"
local perf = require "perf"
local util = require "spec.support.util"

local function recorded(what, opts, fn)
  util.with_tmpname(function(path)
    opts.output = path
    local result = assert(perf.record(what, opts))
    local file = assert(perf.data.open(path))
    local records = {}
    for rec in file:records() do records[#records + 1] = rec end
    local ok, err = pcall(fn, result, records, file)
    assert.is_nil(file:error())
    file:close()
    if not ok then error(err, 0) end
  end)
end

local function count(records, type, field, value)
  local n = 0
  for _, rec in ipairs(records) do
    if rec.type == type and (not field or rec[field] == value) then n = n + 1 end
  end
  return n
end

-- A program in this interpreter that faults n fresh pages between two words that mark the place.
local function toucher(n)
  return {util.lua(), "-e", ("require 'testkit'.touch_pages(%d) os.exit(3)"):format(n)}
end

describe("perf.record of a command", function()
  before_each(function() requires{perf_open = true} end)

  it("has every page fault of the command, its exit status, and its mappings", function()
    local counts = {}
    for i, n in ipairs{0, 640} do
      recorded(toucher(n), {events = "page-faults:u", period = 1}, function(result, records, file)
        assert.equal(3, result.status)
        assert.equal(0, result.lost)
        assert.equal(result.samples, count(records, "sample"))
        counts[i] = result.samples
        local comms = {}
        for _, rec in ipairs(records) do
          if rec.type == "comm" and rec.exec then comms[#comms + 1] = rec.comm end
        end
        assert.equal(1, #comms)
        assert.is_true(count(records, "mmap2", "executable", true) >= 3)
        assert.equal(1, count(records, "exit"))
        assert.equal("page-faults:u", file.attrs[1].name)
        assert.equal(#util.online_cpus(), #file.attrs[1].ids)
        assert.equal("finished_round", records[#records].type)
      end)
    end
    -- The interpreter's own faults vary by a few with its addresses.
    assert.near(640, counts[2] - counts[1], 64)
  end)

  it("begins with its first instruction and follows its children", function()
    requires{tracepoint = "sched:sched_process_exec", root = true}
    recorded("/bin/true; /bin/true; exec /bin/true", {events = "sched:sched_process_exec"}, function(result, records, file)
      -- The shell's own exec, and three of /bin/true.
      assert.equal(4, result.samples)
      assert.equal(0, result.status)
      assert.equal(2, count(records, "fork"))
      assert.equal(3, count(records, "exit"))
      assert.equal("sched:sched_process_exec", file.attrs[1].name)
      assert.matches("^\23\8\68tracing0.6%z", file.features.tracing_data)
      local names = 0
      for _, rec in ipairs(records) do
        names = names + (rec.type == "sample" and rec.raw:find("/bin/true", 1, true) and 1 or 0)
      end
      assert.equal(3, names)
    end)
  end)

  it("does not follow children with inherit = false", function()
    requires{tracepoint = "sched:sched_process_exec", root = true}
    recorded("/bin/true; /bin/true; exec /bin/true", {events = "sched:sched_process_exec", inherit = false}, function(result)
      assert.equal(2, result.samples)
    end)
  end)

  it("tells samples of several events apart, each at its own period", function()
    local function each(name) return {event = name, sample_period = 1} end
    local faults = {each "page-faults:u", each "minor-faults:u", each "major-faults:u", "cpu-clock:u"}
    recorded(toucher(640), {events = faults, freq = 997}, function(_, records, file)
      assert.equal(4 + 1, #file.attrs) -- and the records about processes and maps
      local seen = {}
      for _, event in ipairs(file.attrs) do seen[event.name] = 0 end
      for _, rec in ipairs(records) do
        if rec.type == "sample" then seen[rec.event] = seen[rec.event] + 1 end
      end
      assert.is_true(seen["page-faults:u"] >= 640)
      assert.equal(seen["page-faults:u"], seen["minor-faults:u"] + seen["major-faults:u"])
    end)
  end)

  it("gives the same samples as perf script", function()
    requires{cmd = "perf"}
    recorded(toucher(64), {events = "page-faults", period = 1, call_graph = true}, function(result, records)
      local script = util.shell(("perf script -F comm,pid,tid,cpu,time,period,event,ip,sym --ns -G -i '%s' 2>/dev/null")
        :format(result.path))
      local lines, sorted = {}, {}
      for line in script:gmatch("[^\n]+") do lines[#lines + 1] = line end
      for _, rec in ipairs(records) do
        if rec.type == "sample" then sorted[#sorted + 1] = rec end
      end
      table.sort(sorted, function(a, b) return core.earlier(a, b) end)
      assert.equal(#sorted, #lines)
      for i, rec in ipairs(sorted) do
        local pid, tid, cpu, sec, nsec, period, event, ip =
          lines[i]:match("(%d+)/(%d+) +%[(%d+)%] +(%d+)%.(%d+): +(%d+) +(%S+): +(%x+)")
        assert.same({rec.pid, rec.tid, rec.cpu, rec.time % 1e9, rec.period, "page-faults", perf.hex(rec.ip)},
          {tonumber(pid), tonumber(tid), tonumber(cpu), tonumber(nsec), tonumber(period), event, "0x" .. ip}, sec)
        assert.is_true(#rec.callchain > 0)
      end
    end)
  end)

  it("writes a file that perf report and perf buildid-list read", function()
    requires{cmd = "perf"}
    local work = {util.lua(), "-e", "while os.clock() < 0.3 do for i = 1, 1000 do tostring(i) end end"}
    recorded(work, {events = "cpu-clock:u", freq = 199},
      function(result, records, file)
        assert.equal(result.samples, count(records, "sample"))
        local report, status = util.shell(("perf report --stdio -s comm -i '%s' 2>/dev/null"):format(result.path))
        assert.equal(0, status)
        assert.matches("Samples: " .. result.samples, report)
        local name = util.lua():match("[^/]+$"):sub(1, 15)
        assert.truthy(report:find("100.00%  " .. name, 1, true), report)
        local ids = util.shell(("perf buildid-list -i '%s'"):format(result.path))
        for _, b in ipairs(file.features.build_id) do
          assert.truthy(ids:find(b.build_id, 1, true) or b.filename:find "^%[", b.filename)
        end
      end)
  end)

  it("records registers and stacks with call_graph = \"dwarf\"", function()
    recorded(toucher(10), {events = "page-faults:u", period = 1, call_graph = "dwarf"}, function(result, records)
      assert.is_true(result.samples > 0)
      for _, rec in ipairs(records) do
        if rec.type == "sample" and rec.user_regs and rec.user_regs.abi then
          assert.is_true(#rec.user_stack > 0 and #rec.user_stack <= 8192)
          return
        end
      end
      error("no sample has registers")
    end)
  end)

  it("returns the signal that ended the command", function()
    recorded("kill -9 $$", {events = "page-faults:u"}, function(result)
      assert.same({137, 9}, {result.status, result.signal})
    end)
  end)

  it("ends at a timeout", function()
    recorded({"sleep", "60"}, {events = "page-faults:u", timeout = 0.2}, function(result)
      assert.is_true(result.timed_out)
      assert.same({143, 15}, {result.status, result.signal})
    end)
  end)

  it("leaves no file, no child and nothing open if the command cannot be run", function()
    util.with_tmpname(function(path)
      os.remove(path)
      assert.same({nil, "/no/such/program: exec: No such file or directory", "ENOENT"},
        {perf.record({"/no/such/program"}, {output = path, events = "page-faults:u"})})
      assert.is_nil(io.open(path))
      assert.equal("EACCES", (select(3, perf.record({"/etc/passwd"}, {output = path, events = "page-faults:u"}))))
    end)
  end)

  it("leaves an existing recording unchanged if the command cannot be run", function()
    util.with_directory(function(dir)
      local path = dir .. "/perf.data"
      util.write_file(path, "an older one")
      for program, code in pairs{["/no/such/program"] = "ENOENT", ["/etc/passwd"] = "EACCES"} do
        assert.equal(code, (select(3, perf.record({program}, {output = path, events = "page-faults:u"}))))
        assert.equal("an older one", util.read_file(path))
      end
      assert.equal("perf.data\n", (util.shell("ls -A " .. dir)))
      assert(perf.record({"true"}, {output = path, events = "page-faults:u"}))
      assert.matches("^PERFILE2", util.read_file(path))
      assert.equal("perf.data\n-rw-------", (util.shell("cd " .. dir .. "; ls -A; ls -l perf.data | cut -c 1-10 | tr -d '\n'")))
    end)
  end)

  it("reports a file that cannot be written", function()
    requires{file = "/dev/full"}
    assert.same({nil, "/dev/full: write: No space left on device", "ENOSPC"},
      {perf.record({"true"}, {output = "/dev/full", events = "page-faults:u"})})
    assert.equal("ENOENT", (select(3, perf.record({"true"}, {output = "/no/such/dir/x", events = "page-faults:u"}))))
  end)

  it("reports a refusal of the system", function()
    util.with_tmpname(function(path)
      -- The first recording of a process also opens events to find out what the kernel has, and one of these would be refused.
      assert(perf.record({"true"}, {output = path, events = "page-faults:u"}))
      for call, code in pairs{fork = "EAGAIN", pipe = "EMFILE", perf_event_open = "EMFILE", mmap = "ENOMEM"} do
        core.fault(call, code, 0)
        local ok, msg, got = perf.record({"true"}, {output = path, events = "page-faults:u"})
        core.fault()
        assert.is_nil(ok)
        assert.equal(code, got, msg)
      end
    end)
  end)
end)

describe("perf.record of a process", function()
  before_each(function() requires{perf_open = true, cmd = "sh"} end)

  local function with_process(script, fn)
    local pipe = assert(io.popen("sh -c 'echo $$; exec >/dev/null; " .. script .. "' &")) -- it writes a word when it runs
    local pid = tonumber(pipe:read("*l"))
    local ok, err = pcall(fn, pid)
    os.execute("kill " .. pid .. " 2>/dev/null")
    pipe:close()
    if not ok then error(err, 0) end
  end

  it("records the mappings that exist already", function()
    with_process("while :; do :; done", function(pid)
      recorded(pid, {events = "cpu-clock:u", freq = 997, timeout = 0.3}, function(result, records)
        assert.is_true(result.timed_out)
        assert.is_nil(result.status)
        assert.equal(result.samples, count(records, "sample", "pid", pid))
        assert.equal(1, count(records, "comm", "comm", "sh"))
        local maps = {}
        for _, rec in ipairs(records) do
          if rec.type == "mmap2" and rec.pid == pid then maps[#maps + 1] = rec end
        end
        for _, rec in ipairs(records) do
          if rec.type == "sample" then
            local inside = false
            for _, map in ipairs(maps) do inside = inside or rec.ip >= map.addr and rec.ip < map.addr + map.len end
            assert.is_true(inside)
          end
        end
      end)
    end)
  end)

  it("ends when the process ends", function()
    util.with_tmpname(function(gate)
      os.remove(gate)
      local watch = core.watch
      finally(function() core.watch = watch end)
      core.watch = function(...) -- the recording calls this when all is open: now the process may end
        util.write_file(gate, "")
        return watch(...)
      end
      with_process(("while ! [ -e %s ]; do sleep 0.01; done; exit"):format(gate), function(pid)
        recorded(pid, {events = "page-faults:u", period = 1}, function(result, records)
          assert.is_nil(result.timed_out)
          assert.equal(1, count(records, "exit", "pid", pid))
        end)
      end)
    end)
  end)

  it("returns ESRCH if the process does not exist", function()
    local ok, msg, code = perf.record(4194304 + 1, {events = "page-faults:u"})
    assert.is_nil(ok)
    assert.equal("ESRCH", code)
    assert.matches("process 4194305", msg)
  end)
end)

describe("a signal", function()
  before_each(function() requires{perf_open = true, cmd = {"sh", "sleep"}} end)

  it("ends the recording but not the caller, and the file is complete", function()
    for _, signal in ipairs{"INT", "TERM"} do
      util.with_tmpname(function(path)
        -- The command sends the signal: it begins after the recording.
        local output = util.shell(([[%s -e '
          local r = assert(require "perf".record({"sh", "-c", "kill -%s $PPID; exec sleep 60"},
            {events = "page-faults:u", period = 1, output = "%s"}))
          print(r.interrupted, r.status, r.samples > 0)'; echo $?]]):format(util.lua(), signal, path))
        assert.equal((signal == "INT" and 2 or 15) .. "\t143\ttrue\n0\n", output)
        local file = assert(perf.data.open(path))
        assert.is_false(file.header.unfinished)
        file:close()
      end)
    end
  end)

  -- The story: a signal that came after the command's end, or in a recording that failed, was not reported, and had no effect.
  it("that comes after the command's end is reported too, and has its effect if the recording fails", function()
    util.with_tmpname(function(path)
      local output = util.shell(([[%s -e '
        io.stdout:setvbuf "no"
        local r = assert(require "perf".record({"sh", "-c", "kill -TERM $PPID"}, {events = "page-faults:u", output = "%s"}))
        print(r.interrupted)
        local core = require "perf.core"
        assert(core.catch_interrupts())
        os.execute "kill -TERM $PPID"
        core.release_interrupts(true)
        print "not reached"'; echo $?]]):format(util.lua(), path))
      assert.equal("15\n143\n", output:gsub("Terminated\n", ""))
    end)
  end)

  it("is caught for one recording at a time", function()
    assert(core.catch_interrupts())
    local ok, msg, code = perf.record({"true"}, {events = "page-faults:u", output = "/dev/null"})
    core.release_interrupts()
    assert.is_nil(ok)
    assert.equal("EBUSY", code)
    assert.matches("another recording", msg)
  end)
end)

describe("perf.record", function()
  it("leaves a device in place if the command does not exist", function()
    requires{perf_open = true}
    util.with_tmpname(function(path)
      os.remove(path)
      requires{root = true, cmd = "mknod"}
      local _, status = util.shell("mknod " .. path .. " c 1 3")
      assert.equal(0, status)
      local ok, _, code = perf.record({"/no/such/program"}, {events = "page-faults:u", output = path})
      assert.is_nil(ok)
      assert.equal("ENOENT", code)
      assert.equal(0, select(2, util.shell("test -c " .. path)))
    end)
  end)

  it("checks its arguments", function()
    local function refused(text, ...)
      local args = {...}
      assert.error_matches(function() perf.record(args[1], args[2]) end, text)
    end
    refused("command or process id expected, got nil")
    refused("command or process id expected, got number", 1.5)
    refused("command or process id expected, got number", -2)
    refused("an empty command", {})
    refused("a command is an array of words; options are in the last argument", {pid = 1})
    refused("argument 2: string expected", {"a", 5})
    refused("table of options expected, got string", {"true"}, "x")
    refused("unknown option 'outptu'", {"true"}, {outptu = "x"})
    refused("option 'freq': number expected, got string", {"true"}, {freq = "x"})
    refused("option 'freq': positive integer expected", {"true"}, {freq = 0.5})
    refused("options 'freq' and 'period' exclude each other", {"true"}, {freq = 1, period = 1})
    refused("option 'call_graph'", {"true"}, {call_graph = "lbr"})
    refused("option 'timeout': number above 0 expected", {"true"}, {timeout = 0})
    refused("no%-such%-event", {"true"}, {events = "no-such-event"})
    refused("none given", {"true"}, {events = {}})
  end)

  it("records the events that an ordinary user may use", function()
    requires{perf_open = "user", root = true, cmd = {"true", "flock"}}
    local text = as_nobody(2, function()
      local r = assert(perf.record({"true"}, {output = "/dev/null"}))
      return tostring(r.status)
    end)
    assert.equal("0", text)
  end)
end)
