-- The story: tracer:flush() within a span added the cost of sending to the span. The cost of a span's finish was excluded, but
-- only from its parents that counted at that time, and only from the tracer's list: not from other spans, from a span's own
-- events, or from spans above a paused parent.
-- Long: make test runs this file on LuaJIT and Lua 5.4, make test-long on the other interpreters.
local core = require "perf.core"
local kit = require "testkit"
local perf = require "perf"

local PAGES = 10000 -- sending touches so many; spans touch a few hundred at most, 1,500 with a sanitizer

-- A tracer whose exporter has that cost.
local function tracer(options)
  options = options or {}
  local t
  function options.exporter()
    kit.touch_pages(PAGES)
    if options.again then t:flush() end
  end
  options.events = options.events or "page-faults"
  local again = options.again
  options.again = nil
  t = assert(perf.tracer(options))
  options.again = again
  return t
end

local function faults(span) return span:totable().counts["page-faults"] end

local function cheap(...)
  for i, span in ipairs { ... } do
    if not span.duration then span:finish() end
    local n = faults(span)
    assert.is_true(n >= 0 and n < PAGES / 2, ("span %d: %s faults"):format(i, tostring(n)))
  end
end

describe("the cost of sending", function()
  before_each(function() requires { perf_open = true } end)

  it("is not in the counts of a span that flushes, polls or closes", function()
    for _, way in ipairs { "flush", "poll", "close" } do
      local t = tracer { delay = way == "poll" and 0.2 or 1000 }
      t:start "before":finish()
      local span = t:start "span"
      local waits = t:stats().sent == 0 -- a slow machine may have sent it at the finish
      local c = perf.measure("page-faults", function()
        if way == "poll" then core.watch({}, 0.25) end -- a loop of polls would make garbage, which faults in pages
        repeat t[way](t) until t:stats().sent == 1
      end)
      if waits then assert.is_true(c["page-faults"] >= PAGES) end
      cheap(span)
    end
  end)

  it("is not in the counts of a span that is open when a tracer is collected", function()
    local t = assert(perf.tracer { events = "page-faults", exporter = false })
    local old = tracer { delay = 1000 }
    old:start "left":finish()
    local span = t:start "span"
    local c = perf.measure("page-faults", function()
      old = nil -- luacheck: ignore
      collectgarbage()
      collectgarbage()
    end)
    assert.is_true(c["page-faults"] >= PAGES)
    cheap(span)
  end)

  it("is not left out twice where an exporter flushes", function()
    local t = tracer { again = true }
    t:start "before":finish()
    local span = t:start "span"
    t:flush()
    kit.touch_pages(300)
    span:finish()
    local n = faults(span)
    assert.is_true(n >= 300 and n < PAGES / 2, n)
  end)

  it("is in the counts of no open span", function()
    local t = tracer { batch = 1, delay = 1000 }
    local other = tracer()
    local alone, foreign = t:start("alone", { parent = false }), other:start "foreign"
    local grand = t:start "grand"
    local paused = t:start("paused", { parent = grand })
    paused:pause()
    local own = t:start("own", { parent = false, attributes = { perfevents = "minor-faults" } })
    local late = t:start("late", { parent = false }):pause():resume()
    local before = t:stats().sent
    t:start("ends", { parent = paused }):finish()
    t:flush()
    assert.is_true(t:stats().sent > before)
    own:finish()
    local n = own:totable().counts["minor-faults"]
    assert.is_true(n < PAGES / 2, n)
    cheap(late, own, paused, grand, alone, foreign)
  end)

  it("is left out of each span once, and the spans' own work is counted", function()
    local t = tracer { batch = 1, delay = 1000 }
    t:span("warm", kit.touch_pages, 300)
    local outer = t:start "outer"
    for _ = 1, 3 do
      local inner = t:start("inner", { parent = outer })
      kit.touch_pages(300)
      t:flush()
      inner:finish()
      local n = faults(inner)
      assert.is_true(n >= 300 and n < 300 + PAGES / 2, n)
    end
    outer:finish()
    local plain = outer:totable()
    local n, own = plain.counts["page-faults"], plain.self_counts["page-faults"]
    assert.is_true(n >= 900 and n < 900 + PAGES / 2, n)
    assert.is_true(own >= 0 and own < PAGES / 2, own)
  end)

  -- The story: while an exporter function waited (it yielded), the work of all other coroutines was taken for the cost of
  -- sending.
  it("does not include what other coroutines do while the exporter waits", function()
    requires { yields_in_pcall = true }
    local t = assert(perf.tracer { events = "page-faults", delay = 1000, exporter = function()
      for _ = 1, 2 do
        kit.touch_pages(PAGES)
        coroutine.yield()
      end
    end })
    t:start "before":finish()
    local span = t:start "span"
    local flush = coroutine.wrap(function() return t:flush() end)
    for _ = 1, 2 do
      flush()
      kit.touch_pages(300)
    end
    assert.is_true(flush())
    span:finish()
    local n = faults(span)
    assert.is_true(n >= 600 and n < PAGES / 2, n)
  end)
end)
