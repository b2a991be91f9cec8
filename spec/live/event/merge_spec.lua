-- One reader for the rings of several live events.
local kit = require "testkit"
local merge = require "perf.event.merge"
local perf = require "perf"

describe("a reader of several events", function()
  local opened = {}
  local function open(name, opts, more)
    local attr = { event = name, sample_period = 1, sample_type = { "time", "tid" }, sample_id_all = true }
    for k, v in pairs(more or {}) do attr[k] = v end
    local ev = assert(perf.open(attr, opts))
    opened[#opened + 1] = ev
    assert(ev:map { pages = 64 })
    return ev
  end
  after_each(function()
    for i = #opened, 1, -1 do
      opened[i]:close()
      opened[i] = nil
    end
  end)

  it("gives this thread's records in the order in which they happened", function()
    requires { perf_open = true }
    local faults, switches = open "page-faults:u", open "context-switches"
    faults:enable()
    switches:enable()
    for _ = 1, 20 do
      kit.touch_pages(10)
      local before = switches:read().value
      repeat kit.sleeps(1) until switches:read().value > before -- a sleep that is over before it begins causes no switch
    end
    faults:disable()
    switches:disable()
    local wanted = faults:read().value + switches:read().value
    local n, last, runs, event = 0, 0, 0, nil
    for rec in merge.reader({ faults, switches }):records() do
      n = n + 1
      assert.is_true(rec.time >= last)
      last = rec.time
      if rec.event ~= event then runs = runs + 1 end
      event = rec.event
    end
    assert.equal(wanted, n)
    assert.is_true(runs >= 40) -- the two alternate; not all of one and then all of the other
  end)

  it("returns the records of several processes until all have ended", function()
    requires { perf_open = "user" }
    local children, events = {}, {}
    for i = 1, 3 do
      children[i] = assert(kit.start(function()
        for _ = 1, 20 do
          kit.touch_pages(5)
          kit.sleeps(1)
        end
      end))
      events[i] = open("page-faults:u", { pid = children[i]:pid() })
      events[i]:enable()
    end
    local reader = merge.reader(events)
    for _, child in ipairs(children) do child:go() end
    local n, last, own = 0, 0, {}
    for rec in reader:records { timeout = 30 } do
      n = n + 1
      assert.is_true(rec.time >= last)
      last = rec.time
      own[rec.pid] = (own[rec.pid] or 0) + 1
    end
    assert.equal("EPIPE", select(3, reader:read_record(30)))
    local all = 0
    for i, child in ipairs(children) do
      all = all + events[i]:read().value
      assert.is_true(own[child:pid()] >= 100)
      child:wait()
    end
    assert.equal(all, n)
  end)

  it("waits no longer than its timeout", function()
    requires { perf_open = "user" }
    local reader = merge.reader { open "page-faults:u", open "dummy" }
    assert.equal("ETIMEDOUT", select(3, reader:read_record()))
    assert.equal("ETIMEDOUT", select(3, reader:read_record(0.01)))
    assert.equal("ETIMEDOUT", select(3, reader:poll(0.01)))
    assert.is_false(reader:has_record())
  end)
end)
