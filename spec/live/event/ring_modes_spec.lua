-- A ring's functions besides reading: waking its reader, losing, pausing, overwriting, taking another event's records. The
-- specs use software events, which this process causes in exact numbers.
local core = require "perf.core"
local kit = require "testkit"
local opening = require "perf.event.opening"
local perf = require "perf"
local rings = require "spec.support.rings"

local open, faults, touch, count, raises = rings.open, rings.faults, rings.touch, rings.count, rings.raises
local PAGE = core.page_size()

-- Simulates a kernel that does not count the losses of an event.
local function as_older(f, ...)
  local counts_lost = opening.counts_lost
  opening.counts_lost = function() return false end
  local ev = f(...)
  opening.counts_lost = counts_lost
  return ev
end

describe("an Event's ring", function()
  setup(function() rings.compiler(false) end)
  teardown(function() rings.compiler(true) end)
  after_each(rings.close_all)

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

  describe("counts the records that do not fit", function()
    it("by lost records, and by the kernel's own count", function()
      local ev = faults({ sample_type = { "addr" }, read_format = { "lost", "id" } }, { pages = 1 })
      touch(ev, 1000)
      -- A full ring holds one record less than fits, or it would look like an empty one.
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

    it("from lost records alone if the kernel has no count, and says so", function()
      local ev = as_older(faults, { read_format = {} }, { pages = 1 })
      touch(ev, 1000)
      assert.equal(0, (ev:lost()))
      assert.equal(255, count(ev).sample)
      touch(ev, 1)
      assert.same({ lost = 1, sample = 1 }, count(ev))
      local n, detail = ev:lost()
      assert.equal(745, n)
      assert.is_nil(detail.kernel)
      assert.is_true(detail.at_least)
    end)

    -- Records of other types may be in the ring too: only samples are counted.
    local function samples(raw)
      local n, at = 0, 1
      while at < #raw do
        local kind, _, _, _, _, _, low, high = raw:byte(at, at + 7)
        if kind == 9 then n = n + 1 end
        at = at + low + 256 * high
      end
      return n
    end

    it("and every fault is read or lost", function()
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

    it("and each of 200,000 system calls is read or lost", function()
      requires { tracepoint = "syscalls:sys_enter_getppid", nostress = true }
      local ev = open({ event = "syscalls:sys_enter_getppid", sample_period = 1, sample_type = { "time" },
        read_format = { "lost" } },
        nil, { pages = 8 })
      local got, produced = 0, 0
      ev:enable()
      while produced < 200000 do
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

    it("for each event of a group by itself", function()
      requires { perf_open = "user" }
      local g = assert(perf.group({ { event = "page-faults:u", sample_period = 1, sample_type = { "addr" } }, "dummy" }))
      rings.keep(g)
      assert(g[1]:map { pages = 1 })
      g:enable()
      kit.touch_pages(300)
      g:disable()
      assert.equal(0, (g[2]:lost()))
    end)
  end)

  describe("is paused", function()
    it("and then loses new records", function()
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

    it("only if it is mapped", function()
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

    it("keeps the latest records, and gives them first", function()
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

    it("gives the records since the previous snapshot", function()
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

    it("works with records whose size does not divide that of the ring", function()
      local ev = faults({ write_backward = true, sample_type = { "addr", "time" } }, { pages = 2 })
      for _, n in ipairs { 1, 7, 341, 342, 5000, 2, 1000 } do
        touch(ev, n)
        assert.same({ sample = math.min(n, math.floor(2 * PAGE / 24)) }, count(ev))
      end
    end)

    it("pauses only for a snapshot", function()
      local ev = backward()
      touch(ev, 10)
      assert(ev:read_record())
      touch(ev, 10)
      assert.equal(0, (ev:lost()))
      -- The rest of the first snapshot, then a second one.
      assert.same({ sample = 9 + 10 }, count(ev))
    end)

    it("does not end a pause of the caller", function()
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

    it("returns the error if it cannot be paused, and loses nothing", function()
      local ev = backward()
      touch(ev, 10)
      core.fault("ioctl", "ENOMEM")
      local rec, _, code = ev:read_record()
      core.fault()
      assert.is_nil(rec)
      assert.equal("ENOMEM", code)
      assert.same({ sample = 10 }, count(ev))
    end)

    it("is refused with overwrite = false and with an aux area", function()
      local ev = faults({ write_backward = true }, false)
      raises("write_backward", function() ev:map { overwrite = false } end)
      raises("not with overwrite", function() ev:map { aux_pages = 1 } end)
      assert(ev:map { pages = 1 })
    end)
  end)

  describe("receives another event's records", function()
    local ids = { "identifier", "addr", "tid" }

    it("and finds the event of each record, although layouts differ", function()
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

    it("without sample_id_all if all records are samples", function()
      local target = faults { sample_type = ids }
      local source = open({ event = "minor-faults:u", sample_period = 1, sample_type = ids }, nil, false)
      assert.is_true(source:set_output(target))
      touch(source, 10)
      for rec in target:records() do assert.equal("minor-faults:u", rec.event) end
    end)

    it("but not if their records could not be distinguished", function()
      local target = faults()
      local source = open({ event = "minor-faults:u", sample_period = 1, sample_type = { "addr", "time" } }, nil, false)
      raises("identifier", function() source:set_output(target) end)
      local plain = faults({ sample_type = ids, sample_id_all = true })
      raises("identifier", function() source:set_output(plain) end)
    end)

    it("until the redirection ends", function()
      local target = faults { sample_type = ids }
      local source = open({ event = "minor-faults:u", sample_period = 1, sample_type = ids }, nil, false)
      for _ = 1, 3 do
        assert.is_true(source:set_output(target))
        touch(source, 4)
        assert.is_true(source:set_output(nil))
        touch(source, 4)
      end
      assert.same({ sample = 12 }, count(target))
    end)

    it("only if it is mapped and the other event's is not", function()
      local target, source = faults(nil, false), faults(nil, false)
      raises("call map() first", function() source:set_output(target) end)
      raises("Event expected", function() source:set_output(1) end)
      target:map()
      source:map()
      raises("its own ring", function() source:set_output(target) end)
    end)

    it("only if both count the same thread", function()
      local target = faults { sample_type = ids }
      local child = assert(kit.start(function() end))
      local source = open({ event = "page-faults:u", sample_period = 1, sample_type = ids }, { pid = child:pid() }, false)
      local ok, message, code = source:set_output(target)
      assert.is_nil(ok)
      assert.equal("EINVAL", code)
      assert.is_truthy(message:find "the same thread")
      child:close()
    end)

    it("and lives as long as the events that write into it", function()
      local source = open({ event = "minor-faults:u", sample_period = 1, sample_type = ids }, nil, false)
      do
        local target = assert(perf.open({ event = "page-faults:u", sample_period = 1, sample_type = ids }))
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
end)
