-- Event's ring, on software events that this process causes in exact numbers.
local as_nobody = require "spec.support.nobody"
local core = require "perf.core"
local kit = require "testkit"
local perf = require "perf"
local rings = require "spec.support.rings"
local util = require "spec.support.util"

local faults, touch, count, raises = rings.faults, rings.touch, rings.count, rings.raises
local PAGE = core.page_size()

describe("an Event's ring", function()
  setup(function() rings.compiler(false) end)
  teardown(function() rings.compiler(true) end)
  after_each(rings.close_all)

  describe("is mapped", function()
    it("with any power of two as the number of pages", function()
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

    it("with 128 pages by default", function()
      local ev = faults(nil, false)
      assert.equal(128, select(2, ev:map()))
    end)

    it("only once", function()
      local ev = faults()
      raises("mapped already", function() ev:map() end)
    end)

    it("only with known options", function()
      local ev = faults(nil, false)
      raises("unknown option 'size'", function() ev:map { size = 1 } end)
      raises("table of options expected", function() ev:map(8) end)
      for _, bad in ipairs { 0, 3, 1.5, -1, "x", 2 ^ 40 } do
        raises("option 'pages'", function() ev:map { pages = bad } end)
        raises("option 'aux_pages'", function() ev:map { aux_pages = bad } end)
      end
      raises("write_backward", function() ev:map { overwrite = true } end)
    end)

    it("with fewer pages if the user may not lock more memory, and says so", function()
      local ev = faults(nil, false)
      perf.release() -- no idle list is left that could be closed
      core.fault("mmap", "EPERM")
      local same, pages, message = ev:map { pages = 8 }
      core.fault()
      assert.equal(ev, same)
      assert.equal(4, pages)
      assert.is_truthy(message:find("4 pages instead of 8", 1, true))
      touch(ev, 8)
      assert.same({ sample = 8 }, count(ev))
    end)

    it("with fewer pages, for an ordinary user without any allowance left", function()
      requires { perf_open = "user", root = true, cmd = "flock" }
      local text = as_nobody.alone(2, function()
        kit.rlimit("memlock", 0, 0)
        local ev = assert(perf.open({ event = "page-faults:u", sample_period = 1 }))
        local same, pages, message = ev:map { pages = 2048 }
        if same ~= ev then error(pages, 0) end
        if pages >= 2048 or not message then error("mapped " .. pages, 0) end
        -- The next ring gets what the first one left, if anything.
        local second = assert(perf.open({ event = "page-faults:u", sample_period = 1 }))
        local ok, m, code = second:map { pages = 2048 }
        if not ok and code ~= "EPERM" then error(m, 0) end
        return ok and "some" or m
      end)
      assert.is_truthy(text == "some" or text:find("perf_event_mlock_kb", 1, true), text)
    end)

    it("not at all if the machine refuses, and leaves nothing", function()
      for _, code in ipairs { "ENOMEM", "EINVAL", "EAGAIN" } do
        local ev = faults(nil, false)
        core.fault("mmap", code)
        local ok, message, got = ev:map { pages = 8 }
        core.fault()
        assert.is_nil(ok)
        assert.equal(code, got)
        assert.is_truthy(message:find("ring of 8 pages: mmap: ", 1, true))
        assert(ev:map { pages = 8 })
      end
    end)

    it("with an aux area only if the event has one", function()
      local ev = faults(nil, false)
      local ok, _, code = ev:map { pages = 8, aux_pages = 8 }
      assert.is_nil(ok)
      assert.equal("EOPNOTSUPP", code)
      assert.same({}, kit.rings())
      assert(ev:map { pages = 8 })
      raises("without aux_pages", function() ev:read_aux(0, 1) end)
    end)

    it("before it is read: without a ring these calls raise an error", function()
      local ev = faults(nil, false)
      for _, name in ipairs { "read_record", "read_raw", "records", "poll", "has_record", "drain", "read_aux" } do
        raises("call map() first", function() ev[name](ev) end)
      end
      ev:close()
      raises("Event is closed", function() ev:read_record() end)
      raises("Event is closed", function() ev:map() end)
    end)

    it("and is unmapped by close, also a second one, and by the collector", function()
      local ev = faults()
      assert.equal(1, #kit.rings())
      ev:close()
      ev:close()
      assert.equal(0, #kit.rings())
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

    it("in the order in which pages were touched", function()
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

    it("with records that nearly fill it", function()
      local ev = faults({ sample_type = { "addr", "stack_user" }, sample_stack_user = 2048 }, { pages = 1 })
      for _ = 1, 100 do
        touch(ev, 1)
        local rec = assert(ev:read_record())
        assert.is_true(#rec.user_stack <= 2048)
        assert.equal(8 + 8 + 8 + 2048 + 8, rec.size)
        assert.is_false(ev:has_record())
      end
    end)

    it("into the same Record each time", function()
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
      -- A Record without room for the next one is left unchanged.
      local big = faults { sample_type = { "addr", "stack_user" }, sample_stack_user = 512 }
      touch(big, 1)
      local other = assert(big:read_record(0, first))
      assert.not_equal(first, other)
      assert.equal(512, #other.user_stack + 0 * first.addr)
      raises("Record expected", function() ev:read_record(0, {}) end)
    end)

    it("as the bytes of one record or of all", function()
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

    it("with a timeout, in seconds", function()
      local ev = faults()
      for _, bad in ipairs { -1, 0 / 0, "x", {} } do
        assert.has_error(function() ev:read_record(bad) end)
        assert.has_error(function() ev:poll(bad) end)
        assert.has_error(function() ev:records { timeout = bad } end)
      end
      raises("unknown option 'time'", function() ev:records { time = 1 } end)
      raises("table of options expected", function() ev:records(1) end)
      assert.equal("ETIMEDOUT", select(3, ev:read_record(0.01)))
      assert.equal("ETIMEDOUT", select(3, ev:poll(0.01)))
      assert.same({}, count(ev, { timeout = 0.01 }))
      touch(ev, 1)
      assert.is_true(ev:poll())
      assert.is_true(ev:poll(1e300))
      assert.same({ sample = 1 }, count(ev, { timeout = 0 }))
    end)

    it("while another process writes, until that ends", function()
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

    it("with errors returned if its system calls fail", function()
      local ev = faults()
      core.fault("poll", "ENOMEM")
      local rec, message, code = ev:read_record(0)
      core.fault()
      assert.is_nil(rec)
      assert.equal("ENOMEM", code)
      assert.is_truthy(message:find "poll")
      -- A signal during the wait is not a failure.
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

  describe("when memory runs out", function()
    it("leaves nothing open, and keeps the record that was being read", function()
      requires { perf_open = "user", nostress = true }
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

    it("returns the same record at the next call", function()
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
    it("belongs to the parent alone", function()
      local ev = faults()
      touch(ev, 5)
      local text = util.in_child(function()
        local ok, err = pcall(ev.read_record, ev)
        if ok or not err:find("Event belongs to the parent process", 1, true) then error(err, 0) end
        ok, err = pcall(core.wait, { ev }, 0)
        if ok or not err:find("Event belongs to the parent process", 1, true) then error(err, 0) end
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
  after_each(rings.close_all)

  it("waits for any of several descriptors", function()
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

  it("ends when every watched process has ended", function()
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
