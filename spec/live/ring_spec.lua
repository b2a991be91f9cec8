-- Event's ring, on software events that this process makes in exact numbers.
local core = require "perf.core"
local kit = require "testkit"
local perf = require "perf"
local util = require "spec.support.util"

local PAGE = core.page_size()
local open_events = {}

-- What the compiler allocates while an event is on would be counted too.
local jit = rawget(_G, "jit")
jit = jit and jit.status() and jit
local function compiler(on)
  if jit then jit[on and "on" or "off"]() end
end

local function open(attr, opts, map)
  local ev = assert(perf.open(attr, opts))
  open_events[#open_events + 1] = ev
  if map ~= false then assert(ev:map(map)) end
  return ev
end

-- An event that writes one record for each page fault of this thread in user space: 16 bytes with the address.
local function faults(more, map, opts)
  local attr = { event = "page-faults:u", sample_period = 1, sample_type = { "addr" } }
  for k, v in pairs(more or {}) do attr[k] = v end
  return open(attr, opts, map)
end

local function touch(ev, n)
  assert(ev:enable())
  kit.touch_pages(n)
  assert(ev:disable())
end

local function count(ev, opts)
  local n = {}
  for rec in ev:records(opts) do n[rec.type] = (n[rec.type] or 0) + 1 end
  return n
end

-- A map spec: what this machine does not allow ...
local function refused(fn, pattern)
  local ok, err = pcall(fn)
  assert.is_false(ok)
  assert.is_truthy(tostring(err):find(pattern, 1, true), tostring(err))
end

describe("an Event's ring", function()
  setup(function() compiler(false) end)
  teardown(function() compiler(true) end)
  after_each(function()
    for i = #open_events, 1, -1 do
      open_events[i]:close()
      open_events[i] = nil
    end
  end)

  describe("is mapped", function()
    it("with any power of two pages", function()
      for shift = 0, 7 do
        local ev = faults(nil, false)
        local same, pages, message = ev:map { pages = 2 ^ shift }
        assert.equal(ev, same)
        assert.equal(2 ^ shift, pages)
        assert.is_nil(message)
        assert.equal((2 ^ shift + 1) * PAGE, kit.rings()[1].size)
        touch(ev, 64)
        assert.same({ sample = 64 }, count(ev))
        ev:close()
        assert.same({}, kit.rings())
      end
    end)

    it("with 128 pages when nothing is said", function()
      local ev = faults(nil, false)
      assert.equal(128, select(2, ev:map()))
    end)

    it("once", function()
      local ev = faults()
      refused(function() ev:map() end, "mapped already")
    end)

    it("only with options that it knows", function()
      local ev = faults(nil, false)
      refused(function() ev:map { size = 1 } end, "unknown option 'size'")
      refused(function() ev:map(8) end, "table expected")
      for _, bad in ipairs { 0, 3, 1.5, -1, "x", 2 ^ 40 } do
        refused(function() ev:map { pages = bad } end, "option 'pages'")
        refused(function() ev:map { aux_pages = bad } end, "option 'aux_pages'")
      end
      refused(function() ev:map { overwrite = true } end, "write_backward")
    end)

    it("with fewer pages when the allowance is too small, and says so", function()
      local ev = faults(nil, false)
      core.fault("mmap", "EPERM")
      local same, pages, message = ev:map { pages = 8 }
      core.fault()
      assert.equal(ev, same)
      assert.equal(4, pages)
      assert.is_truthy(message:find("4 pages instead of 8", 1, true))
      touch(ev, 8)
      assert.same({ sample = 8 }, count(ev))
    end)

    it("with fewer pages by an ordinary user whose allowance really is used up", function()
      requires { root = true, paranoid = 2 }
      local text = util.in_child(function()
        -- A user of this spec's own: the allowance is the user's.
        kit.drop(40000 + kit.getpid() % 20000)
        kit.rlimit("memlock", 0, 0)
        local ev = assert(perf.open({ event = "page-faults:u", sample_period = 1 }))
        local same, pages, message = ev:map { pages = 2048 }
        if same ~= ev then error(pages, 0) end
        if pages >= 2048 or not message then error("mapped " .. pages, 0) end
        -- The next one has what the first left, if anything.
        local second = assert(perf.open({ event = "page-faults:u", sample_period = 1 }))
        local ok, m, code = second:map { pages = 2048 }
        if not ok and code ~= "EPERM" then error(m, 0) end
        return ok and "some" or m
      end)
      assert.is_truthy(text == "some" or text:find("perf_event_mlock_kb", 1, true), text)
    end)

    it("not at all when the machine refuses, and then nothing stays", function()
      for _, code in ipairs { "ENOMEM", "EINVAL", "EAGAIN" } do
        local ev = faults(nil, false)
        core.fault("mmap", code)
        local ok, message, got = ev:map { pages = 8 }
        core.fault()
        assert.is_nil(ok)
        assert.equal(code, got)
        assert.is_truthy(message:find("mmap of 8 pages", 1, true))
        assert(ev:map { pages = 8 })
      end
    end)

    it("with an aux area only where the event has one", function()
      local ev = faults(nil, false)
      local ok, _, code = ev:map { pages = 8, aux_pages = 8 }
      assert.is_nil(ok)
      assert.equal("EOPNOTSUPP", code)
      assert.same({}, kit.rings())
      assert(ev:map { pages = 8 })
      refused(function() ev:read_aux(0, 1) end, "without aux_pages")
    end)

    it("for every call that reads", function()
      local ev = faults(nil, false)
      for _, name in ipairs { "read_record", "read_raw", "records", "poll", "has_record", "drain", "read_aux" } do
        refused(function() ev[name](ev) end, "call map() first")
      end
      ev:close()
      refused(function() ev:read_record() end, "Event is closed")
      refused(function() ev:map() end, "Event is closed")
    end)

    it("and unmapped by close, twice, and by the collector", function()
      local ev = faults()
      assert.equal(1, #kit.rings())
      ev:close()
      ev:close()
      assert.equal(0, #kit.rings())
      open_events[#open_events] = nil
      do
        local lost = assert(perf.open({ event = "page-faults:u", sample_period = 1 }))
        lost:map()
        assert.equal(1, #kit.rings())
      end
      collectgarbage()
      collectgarbage()
      assert.equal(0, #kit.rings())
    end)
  end)

  describe("is read", function()
    it("record by record, exactly as many as were written", function()
      local ev = faults { sample_type = { "addr", "tid", "ip", "time", "cpu", "period" } }
      touch(ev, 64)
      assert.is_true(ev:has_record())
      local last = 0
      for i = 1, 64 do
        local rec = assert(ev:read_record())
        assert.equal("sample", rec.type)
        assert.equal(kit.gettid(), rec.tid)
        assert.equal(kit.getpid(), rec.pid)
        assert.equal("user", rec.cpu_mode)
        assert.equal(1, rec.period)
        assert.equal("page-faults:u", rec.event)
        assert.is_true(rec.time > last)
        if i > 1 then assert.equal(last, rec.time - (rec.time - last)) end
        last = rec.time
      end
      assert.is_false(ev:has_record())
      local rec, message, code = ev:read_record()
      assert.is_nil(rec)
      assert.is_string(message)
      assert.equal("ETIMEDOUT", code)
    end)

    it("as one page after the other was touched", function()
      local ev = faults()
      touch(ev, 100)
      local previous
      for rec in ev:records() do
        if previous then assert.equal(previous + PAGE, rec.addr) end
        previous = rec.addr
      end
    end)

    it("around its end, again and again", function()
      requires { nostress = true }
      -- 24 bytes do not divide a page, so records of every phase wrap around.
      for _, pages in ipairs { 1, 2, 8 } do
        local ev = faults({ sample_type = { "addr", "time" } }, { pages = pages })
        local got, time = 0, 0
        for _ = 1, 200 do
          touch(ev, 100)
          for rec in ev:records() do
            got = got + 1
            if rec.time <= time then error "out of order" end
            time = rec.time
          end
        end
        assert.equal(20000, got)
        assert.equal(0, (ev:lost()))
        ev:close()
      end
    end)

    it("with records so large that one nearly fills it", function()
      local ev = faults({ sample_type = { "addr", "stack_user" }, sample_stack_user = 2048 }, { pages = 1 })
      for _ = 1, 100 do
        touch(ev, 1)
        local rec = assert(ev:read_record())
        assert.is_true(#rec.user_stack <= 2048)
        assert.equal(8 + 8 + 8 + 2048 + 8, rec.size)
        assert.is_false(ev:has_record())
      end
    end)

    it("into a Record that is used again", function()
      local ev = faults { sample_type = { "addr", "time" } }
      touch(ev, 3)
      local first = assert(ev:read_record())
      local addr = first.addr
      local again = assert(ev:read_record(0, first))
      assert.equal(first, again)
      assert.equal(addr + PAGE, first.addr)
      local fresh = assert(ev:read_record(0))
      assert.not_equal(first, fresh)
      assert.equal(addr + PAGE, first.addr)
      -- One without room for the next is left alone.
      local big = faults { sample_type = { "addr", "stack_user" }, sample_stack_user = 512 }
      touch(big, 1)
      local other = assert(big:read_record(0, first))
      assert.not_equal(first, other)
      assert.equal(512, #other.user_stack + 0 * first.addr)
      refused(function() ev:read_record(0, {}) end, "Record expected")
    end)

    it("as bytes, one record's or all", function()
      local ev = faults()
      touch(ev, 10)
      local raw = ev:read_raw()
      assert.equal(16, #raw)
      local ls = core.layouts()
      ls:add(ev:attr())
      local addr = ls:record(raw).addr
      assert.equal(addr + PAGE, ev:read_record().addr)
      local rest = ev:drain()
      assert.equal(8 * 16, #rest)
      for i = 1, 8 do assert.equal(addr + (i + 1) * PAGE, ls:record(rest:sub(16 * i - 15, 16 * i)).addr) end
      assert.equal("", ev:drain())
      local none, _, code = ev:read_raw(0)
      assert.is_nil(none)
      assert.equal("ETIMEDOUT", code)
    end)

    it("with a limit of time, in seconds", function()
      local ev = faults()
      for _, bad in ipairs { -1, 0 / 0, "x", {} } do
        assert.has_error(function() ev:read_record(bad) end)
        assert.has_error(function() ev:poll(bad) end)
        assert.has_error(function() ev:records { timeout = bad } end)
      end
      refused(function() ev:records { time = 1 } end, "unknown option 'time'")
      refused(function() ev:records(1) end, "table expected")
      assert.equal("ETIMEDOUT", select(3, ev:read_record(0.01)))
      assert.equal("ETIMEDOUT", select(3, ev:poll(0.01)))
      assert.same({}, count(ev, { timeout = 0.01 }))
      touch(ev, 1)
      assert.is_true(ev:poll())
      assert.is_true(ev:poll(1e300))
      assert.same({ sample = 1 }, count(ev, { timeout = 0 }))
    end)

    it("while another process writes, to its end", function()
      local child = assert(kit.start(function()
        for _ = 1, 10 do kit.touch_pages(100) end
      end))
      local ev = faults({ sample_type = { "addr", "tid" } }, { pages = 64 }, { pid = child:pid() })
      ev:enable() -- now that it has a ring
      child:go()
      local own = 0
      for rec in ev:records { timeout = 30 } do
        assert.equal(child:pid(), rec.pid)
        own = own + 1
      end
      assert.equal(ev:read().value, own)
      assert.is_true(own >= 1000)
      local rec, message, code = ev:read_record(30)
      assert.is_nil(rec)
      assert.equal("EPIPE", code)
      assert.is_truthy(message:find "ended")
      assert.equal("EPIPE", select(3, ev:poll(30)))
      assert.equal("EPIPE", select(3, ev:read_raw(30)))
      child:wait()
    end)

    it("through the failure of its system calls", function()
      local ev = faults()
      core.fault("poll", "ENOMEM")
      local rec, message, code = ev:read_record(0)
      core.fault()
      assert.is_nil(rec)
      assert.equal("ENOMEM", code)
      assert.is_truthy(message:find "poll")
      -- A signal in the middle is no failure.
      core.fault("poll", "EINTR")
      rec, message, code = ev:read_record(0.01)
      core.fault()
      assert.is_nil(rec)
      assert.is_string(message)
      assert.equal("ETIMEDOUT", code)
      touch(ev, 1)
      assert.is_truthy(ev:read_record(0))
    end)
  end)

  describe("wakes its reader", function()
    it("after wakeup_events records", function()
      local ev = faults { wakeup_events = 8 }
      assert.is_true(ev:fd() > 2)
      touch(ev, 64)
      assert.is_true(ev:poll(0))
      assert.same({ sample = 64 }, count(ev))
    end)

    it("at a watermark, in bytes", function()
      local ev = faults { wakeup_watermark = 160 }
      touch(ev, 64)
      assert.is_true(ev:poll(0))
      assert.same({ sample = 64 }, count(ev))
    end)

    it("after refresh(n) overflows, and then stops", function()
      local ev = faults()
      assert(ev:refresh(5))
      kit.touch_pages(64)
      assert.same({ sample = 5 }, count(ev))
      assert(ev:refresh(3))
      kit.touch_pages(64)
      assert.same({ sample = 3 }, count(ev))
    end)
  end)

  describe("counts what it had no room for", function()
    it("in lost records, and by the kernel's own count", function()
      local ev = faults({ sample_type = { "addr" }, read_format = { "lost", "id" } }, { pages = 1 })
      touch(ev, 1000)
      -- A full ring has room for one record less, or it could not be told from an empty one.
      assert.same({ sample = 255 }, count(ev))
      assert.equal(1000 - 255, (ev:lost()))
      -- The lost record comes when there is room again.
      touch(ev, 1)
      local lost = assert(ev:read_record())
      assert.equal("lost", lost.type)
      assert.equal(1000 - 255, lost.lost)
      assert.equal(ev:id(), lost.id)
      assert.equal("sample", ev:read_record().type)
      local n, detail = ev:lost()
      assert.equal(1000 - 255, n)
      assert.same({ records = 745, samples = 0, damaged = 0, kernel = 745 }, detail)
    end)

    it("without the kernel's count, from the records", function()
      local ev = faults({ read_format = {} }, { pages = 1 })
      touch(ev, 1000)
      assert.equal(0, (ev:lost()))
      assert.equal(255, count(ev).sample)
      touch(ev, 1)
      assert.same({ lost = 1, sample = 1 }, count(ev))
      local n, detail = ev:lost()
      assert.equal(745, n)
      assert.is_nil(detail.kernel)
    end)

    -- Records of other types may be there too: the samples are counted.
    local function samples(raw)
      local n, at = 0, 1
      while at < #raw do
        local kind, _, _, _, _, _, low, high = raw:byte(at, at + 7)
        if kind == 9 then n = n + 1 end
        at = at + low + 256 * high
      end
      return n
    end

    it("so that every fault is accounted for", function()
      local ev = faults({ read_format = { "lost" } }, { pages = 2 })
      local got = 0
      for step = 1, 20 do
        -- Sometimes less than the ring holds, sometimes more.
        touch(ev, step % 7 * 150)
        got = got + samples(ev:drain())
      end
      local produced = ev:read().value
      assert.equal(produced, got + (ev:lost()))
      assert.is_true(got < produced)
      touch(ev, 1)
      ev:drain()
      local n, detail = ev:lost()
      assert.equal(n, detail.records)
    end)

    it("so that a million system calls are all accounted for", function()
      requires { tracepoint = "syscalls:sys_enter_getppid", nostress = true }
      local ev = open({ event = "syscalls:sys_enter_getppid", sample_period = 1, sample_type = { "time" },
        read_format = { "lost" } },
        nil, { pages = 8 })
      local got, produced = 0, 0
      ev:enable()
      while produced < 1000000 do
        for calls = 500, 3500, 500 do
          kit.syscalls(calls)
          produced = produced + calls
          got = got + samples(ev:drain())
        end
      end
      ev:disable()
      assert.equal(produced, ev:read().value)
      assert.equal(produced, got + (ev:lost()))
      assert.is_true(got < produced)
    end)

    it("in a group of several, each for itself", function()
      local g = assert(perf.group({ { event = "page-faults:u", sample_period = 1, sample_type = { "addr" } }, "dummy" }))
      open_events[1] = g
      assert(g[1]:map { pages = 1 })
      g:enable()
      kit.touch_pages(300)
      g:disable()
      assert.equal(0, (g[2]:lost()))
      g:close()
      open_events[1] = nil
    end)
  end)

  describe("is paused", function()
    it("and then loses what is written", function()
      local ev = faults { read_format = { "lost" } }
      touch(ev, 10)
      assert.is_true(ev:pause_output())
      touch(ev, 20)
      assert.is_true(ev:resume_output())
      touch(ev, 30)
      local got = count(ev)
      assert.equal(40, got.sample)
      assert.equal(20, (ev:lost()))
    end)

    it("only where there is one", function()
      local ev = faults(nil, false)
      local ok, message, code = ev:pause_output()
      assert.is_nil(ok)
      assert.equal("EINVAL", code)
      assert.is_truthy(message:find "no ring")
    end)
  end)

  describe("in overwrite mode", function()
    local function backward(pages)
      return faults({ write_backward = true, sample_type = { "addr" }, read_format = { "lost" } },
        { pages = pages or 1, overwrite = true })
    end

    it("keeps the latest, which are read first", function()
      local ev = backward()
      touch(ev, 1000)
      assert.is_true(ev:has_record())
      local n, previous = 0, nil
      for rec in ev:records() do
        assert.equal("sample", rec.type)
        if previous then assert.equal(previous - PAGE, rec.addr) end
        previous = rec.addr
        n = n + 1
      end
      assert.equal(PAGE / 16, n)
      assert.is_false(ev:has_record())
      assert.equal("ETIMEDOUT", select(3, ev:read_record()))
    end)

    it("gives what came since the snapshot before", function()
      local ev = backward()
      touch(ev, 10)
      assert.same({ sample = 10 }, count(ev))
      touch(ev, 5)
      assert.same({ sample = 5 }, count(ev))
      assert.same({}, count(ev))
      touch(ev, 1000)
      assert.same({ sample = PAGE / 16 }, count(ev))
      touch(ev, 3)
      assert.same({ sample = 3 }, count(ev))
    end)

    it("with records of a size that does not divide it", function()
      local ev = faults({ write_backward = true, sample_type = { "addr", "time" } }, { pages = 2 })
      for _, n in ipairs { 1, 7, 341, 342, 5000, 2, 1000 } do
        touch(ev, n)
        assert.same({ sample = math.min(n, math.floor(2 * PAGE / 24)) }, count(ev))
      end
    end)

    it("pauses no longer than a snapshot takes", function()
      local ev = backward()
      touch(ev, 10)
      assert(ev:read_record())
      touch(ev, 10)
      assert.equal(0, (ev:lost()))
      -- The rest of the first snapshot, then a second one.
      assert.same({ sample = 9 + 10 }, count(ev))
    end)

    it("leaves a pause of the caller's own", function()
      local ev = backward()
      touch(ev, 10)
      ev:pause_output()
      assert.same({ sample = 10 }, count(ev))
      touch(ev, 7)
      assert.same({}, count(ev))
      assert.equal(7, (ev:lost()))
      ev:resume_output()
      touch(ev, 2)
      assert.same({ lost = 1, sample = 2 }, count(ev))
    end)

    it("says when it cannot be paused", function()
      local ev = backward()
      touch(ev, 10)
      core.fault("ioctl", "ENOMEM")
      local rec, _, code = ev:read_record()
      core.fault()
      assert.is_nil(rec)
      assert.equal("ENOMEM", code)
      assert.same({ sample = 10 }, count(ev))
    end)

    it("is the mode of such an event, and of no other", function()
      local ev = faults({ write_backward = true }, false)
      refused(function() ev:map { overwrite = false } end, "write_backward")
      refused(function() ev:map { aux_pages = 1 } end, "not with overwrite")
      assert(ev:map { pages = 1 })
    end)
  end)

  describe("takes another event's records", function()
    local ids = { "identifier", "addr", "tid" }

    it("and tells whose each is, though they differ", function()
      local target = faults { sample_type = ids, sample_id_all = true }
      local source = open({ event = "minor-faults:u", sample_period = 2, sample_type = { "identifier", "time", "addr" },
        sample_id_all = true }, nil, false)
      assert.is_true(source:set_output(target))
      target:enable()
      touch(source, 10)
      target:disable()
      local n = {}
      for rec in target:records() do
        n[rec.event] = (n[rec.event] or 0) + 1
        if rec.event == "page-faults:u" then
          assert.equal(target:id(), rec.id)
          assert.equal(kit.gettid(), rec.tid)
          assert.is_nil(rec.time)
        else
          assert.equal(source:id(), rec.id)
          assert.is_nil(rec.tid)
          assert.is_number(rec.time)
        end
      end
      assert.same({ ["page-faults:u"] = 10, ["minor-faults:u"] = 5 }, n)
    end)

    it("without ids where all records are alike", function()
      local target = faults()
      local source = open({ event = "minor-faults:u", sample_period = 1, sample_type = { "addr" } }, nil, false)
      assert.is_true(source:set_output(target))
      touch(source, 10)
      assert.same({ sample = 10 }, count(target))
    end)

    it("not where nobody could tell them apart", function()
      local target = faults()
      local source = open({ event = "minor-faults:u", sample_period = 1, sample_type = { "addr", "time" } }, nil, false)
      refused(function() source:set_output(target) end, "identifier")
      local plain = faults({ sample_type = ids, sample_id_all = true })
      refused(function() source:set_output(plain) end, "identifier")
    end)

    it("until it is told otherwise", function()
      local target = faults()
      local source = open({ event = "minor-faults:u", sample_period = 1, sample_type = { "addr" } }, nil, false)
      for _ = 1, 3 do
        assert.is_true(source:set_output(target))
        touch(source, 4)
        assert.is_true(source:set_output(nil))
        touch(source, 4)
      end
      assert.same({ sample = 12 }, count(target))
    end)

    it("only when it has a ring, and the other has none", function()
      local target, source = faults(nil, false), faults(nil, false)
      refused(function() source:set_output(target) end, "call map() first")
      refused(function() source:set_output(1) end, "Event expected")
      target:map()
      source:map()
      refused(function() source:set_output(target) end, "ring of its own")
    end)

    it("only of the same thread", function()
      local target = faults()
      local child = assert(kit.start(function() end))
      local source = open({ event = "page-faults:u", sample_period = 1, sample_type = { "addr" } }, { pid = child:pid() }, false)
      local ok, message, code = source:set_output(target)
      assert.is_nil(ok)
      assert.equal("EINVAL", code)
      assert.is_truthy(message:find "one thread")
      child:close()
    end)

    it("and lives as long as those that write into it", function()
      local source = open({ event = "minor-faults:u", sample_period = 1, sample_type = { "addr" } }, nil, false)
      do
        local target = assert(perf.open({ event = "page-faults:u", sample_period = 1, sample_type = { "addr" } }))
        target:map()
        source:set_output(target)
      end
      collectgarbage()
      collectgarbage()
      assert.equal(1, #kit.rings())
      source:set_output(nil)
      collectgarbage()
      collectgarbage()
      assert.equal(0, #kit.rings())
    end)
  end)

  describe("when memory runs out", function()
    it("leaves nothing open, and keeps the record that was being read", function()
      requires { nostress = true }
      local failed = 0
      local function use()
        local ev = core.open({ type = "software", config = 2, sample_period = 1, sample_type = { "addr", "callchain", "read" },
          exclude_kernel = true }, 0, -1, nil, 0, { label = "x" })
        ev:map { pages = 1 }
        ev:enable()
        kit.touch_pages(3)
        ev:disable()
        local rec = ev:read_record()
        local parts = { rec.addr, rec.callchain, rec.counts, rec:bytes() }
        if #parts ~= 4 then error "parts" end
        for _ in ev:records() do rec = ev:read_raw() end
        ev:drain()
        return rec
      end
      local total = kit.fail_alloc(0, use)
      for n = 1, total do
        local _, ok = kit.fail_alloc(n, use)
        if not ok then failed = failed + 1 end
      end
      collectgarbage()
      collectgarbage()
      assert.is_true(failed > 10)
      assert.same({}, kit.rings())
    end)

    it("gives the same record at the next try", function()
      local ev = faults()
      touch(ev, 3)
      local first = kit.fail_alloc(0, ev.read_record, ev)
      assert.is_true(first > 0)
      local seen = {}
      for n = 1, 10 do
        local _, ok, rec = kit.fail_alloc(n, ev.read_record, ev)
        if ok and rec then seen[#seen + 1] = rec.addr end
      end
      for rec in ev:records() do seen[#seen + 1] = rec.addr end
      assert.equal(2, #seen)
      assert.equal(PAGE, seen[2] - seen[1])
    end)
  end)

  describe("across a fork", function()
    it("is the parent's alone", function()
      local ev = faults()
      touch(ev, 5)
      local text = util.in_child(function()
        local ok, err = pcall(ev.read_record, ev)
        if ok or not err:find("before the fork", 1, true) then error(err, 0) end
        ok, err = pcall(core.wait, { ev }, 0)
        if ok or not err:find("before the fork", 1, true) then error(err, 0) end
        ev:close()
        kit.settle()
        local own = assert(perf.open({ event = "page-faults:u", sample_period = 1, sample_type = { "addr" } }))
        assert(own:map { pages = 1 })
        own:enable()
        kit.touch_pages(7)
        own:disable()
        local n = 0
        for _ in own:records() do n = n + 1 end
        return n
      end)
      assert.equal("7", text)
      assert.same({ sample = 5 }, count(ev))
    end)
  end)
end)

describe("core.wait", function()
  local function three()
    return faults(), faults(), faults()
  end
  after_each(function()
    for i = #open_events, 1, -1 do
      open_events[i]:close()
      open_events[i] = nil
    end
  end)

  it("waits for any of several", function()
    local a, b, c = three()
    assert.equal("ETIMEDOUT", select(3, core.wait({ a, b, c })))
    assert.equal("ETIMEDOUT", select(3, core.wait({ a, b, c }, 0.01)))
    touch(c, 1)
    assert.is_true(core.wait({ a, b, c }))
    assert.equal("ETIMEDOUT", select(3, core.wait({ a, b }, 0)))
    assert.has_error(function() core.wait({}) end)
    assert.has_error(function() core.wait({ 1 }) end)
    assert.has_error(function() core.wait(a) end)
  end)

  it("ends when every watched process has", function()
    local first, second = assert(kit.start(function() end)), assert(kit.start(function() end))
    local a = faults({}, { pages = 64 }, { pid = first:pid() })
    local b = faults({}, { pages = 64 }, { pid = second:pid() })
    first:go()
    first:wait()
    assert.equal("ETIMEDOUT", select(3, core.wait({ a, b }, 0.01)))
    second:go()
    second:wait()
    assert.equal("EPIPE", select(3, core.wait({ a, b }, 30)))
  end)
end)
