-- The story: two events with the same layout and no id in their records wrote into one ring, and every record was attributed to
-- the target: every `write` was a `getpid`. set_output compared only the layouts, and so accepted such events, and those that
-- sample only `stream_id`. It refused events whose layouts differed only in the read_format, even if no record has a reading.
local kit = require "testkit"
local rings = require "spec.support.rings"

local function event(name, more)
  local attr = { event = name, sample_period = 1 }
  for k, v in pairs(more) do attr[k] = v end
  return attr
end

describe("set_output", function()
  setup(function() rings.compiler(false) end)
  teardown(function() rings.compiler(true) end)
  before_each(function() requires { perf_open = "user", nosan = true } end)
  after_each(rings.close_all)

  -- Two events of this thread; the second is to write into the first one's ring.
  local function pair(a, b)
    return rings.open(event("page-faults:u", a)), rings.open(event("minor-faults:u", b or a), nil, false)
  end

  it("refuses events whose records could not be distinguished", function()
    local all = { mmap = true, sample_id_all = true }
    for _, more in ipairs { { sample_type = { "addr" } }, { sample_type = { "ip", "tid", "time" } },
      { sample_type = { "stream_id" } },
      { sample_type = { "identifier" }, mmap = true }, { sample_type = {}, mmap = true, sample_id_all = true },
      { sample_type = { "addr", "tid" }, sample_id_all = true } } do
      local target, source = pair(more)
      rings.raises('"identifier"', function() source:set_output(target) end)
    end
    -- An id at another position is useless.
    local target, source = pair({ sample_type = { "id", "ip" } }, { sample_type = { "id" } })
    rings.raises('"identifier"', function() source:set_output(target) end)
    target, source = pair({ sample_type = { "identifier" } }, { sample_type = { "identifier" }, mmap = all.mmap })
    rings.raises('"identifier"', function() source:set_output(target) end)
  end)

  it("accepts events with distinguishable records, and names the right event in each record", function()
    for _, more in ipairs { { sample_type = { "identifier" } }, { sample_type = { "id", "addr" } },
      { sample_type = { "identifier", "tid" }, mmap = true, comm = true, sample_id_all = true } } do
      local target, source = pair(more)
      assert.is_true(source:set_output(target))
      rings.touch(target, 5)
      rings.touch(source, 7)
      local n = { ["page-faults:u"] = 0, ["minor-faults:u"] = 0 }
      for rec in target:records() do
        if rec.type == "sample" then
          n[rec.event] = n[rec.event] + 1
          assert.equal(rec.event == "page-faults:u" and target:id() or source:id(), rec.event_id)
        end
      end
      assert.same({ target:read().value, source:read().value }, { n["page-faults:u"], n["minor-faults:u"] })
    end
  end)

  it("names the event of a lost record, by the id in it", function()
    local target = rings.open(event("page-faults:u", { sample_type = { "identifier" } }), nil, { pages = 1 })
    local source = rings.open(event("minor-faults:u", { sample_type = { "identifier" } }), nil, false)
    assert(source:set_output(target))
    rings.touch(target, 1000)
    rings.count(target)
    rings.touch(source, 1)
    local rec = assert(target:read_record())
    assert.equal("lost", rec.type)
    assert.equal("minor-faults:u", rec.event)
    assert.equal(source:id(), rec.id)
  end)

  it("ignores the read_format if no record contains a reading", function()
    local target, source = pair({ sample_type = { "identifier" }, read_format = {} },
      { sample_type = { "identifier" }, read_format = { "id", "total_time_enabled" } })
    assert.is_true(source:set_output(target))
    rings.touch(source, 3)
    assert.equal(source:read().value, rings.count(target).sample)
    -- If one has a read_format, it is used to read its records.
    target, source = pair({ sample_type = { "identifier" } }, { sample_type = { "identifier", "read" },
      read_format = { "id" }, sample_id_all = true })
    rings.raises("sample_id_all", function() source:set_output(target) end)
    target, source = pair({ sample_type = { "identifier", "read" }, read_format = {}, sample_id_all = true },
      { sample_type = { "identifier", "read" }, read_format = { "id" }, sample_id_all = true })
    assert.is_true(source:set_output(target))
    rings.touch(target, 2)
    rings.touch(source, 2)
    for rec in target:records() do
      assert.equal(rec.event == "minor-faults:u" and source:id() or nil, rec.counts[1].id)
    end
  end)

  it("names the right event in the records of system calls", function()
    requires { tracepoint = "syscalls:sys_enter_getppid", root = true }
    local more = { sample_type = { "identifier", "time" } }
    local target = rings.open(event("syscalls:sys_enter_getppid", more))
    local source = rings.open(event("page-faults:u", more), nil, false)
    assert(source:set_output(target))
    target:enable()
    source:enable()
    kit.syscalls(20)
    target:disable()
    source:disable()
    local n = 0
    for rec in target:records() do n = n + (rec.event == "syscalls:sys_enter_getppid" and 1 or 0) end
    assert.equal(20, n)
  end)
end)
