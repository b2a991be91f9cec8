-- The parts of tracing, each separately: samplers, the queue, JSON text, ids, the clock.
local clock = require "perf.base.clock"
local ids = require "perf.trace.ids"
local queue = require "perf.exporter.queue"
local sampler = require "perf.trace.sampler"

describe("perf.trace.sampler", function()
  it("chooses a share of the traces by their ids, in the same way in every process", function()
    local s, n = sampler.ratio(0.25), 0
    for _ = 1, 4000 do
      local id = ids.trace()
      if s(nil, id) then n = n + 1 end
      assert.equal(s(nil, id), s(nil, ("f"):rep(16) .. id:sub(17)))
      if s(nil, id) then assert.is_true(sampler.ratio(0.5)(nil, id)) end -- a larger share has all of a smaller one
    end
    assert.is_true(n > 800 and n < 1200, n)
    assert.is_true(s(nil, ("0"):rep(32)))
    assert.is_true(s(nil, ("0"):rep(16) .. "3fffffffffffffff"))
    assert.is_false(s(nil, ("0"):rep(16) .. "4000000000000000"))
    assert.is_true(sampler.ratio(1)(nil, ("f"):rep(32)))
    assert.is_false(sampler.ratio(0)(nil, ("0"):rep(32)))
  end)

  it("follows the parent if its name says so", function()
    local s = sampler.of("parentbased_traceidratio", "0")
    assert.is_true(s({ sampled = true }, ids.trace()))
    assert.is_false(s({ sampled = false }, ids.trace()))
    assert.is_false(s({}, ids.trace()))
    assert.is_false(s(nil, ids.trace()))
    assert.is_true(sampler.of "always_on"({ sampled = false }, ids.trace()))
    assert.is_false(sampler.of "always_off"({ sampled = true }, ids.trace()))
    assert.is_false(sampler.of "parentbased_always_off"(nil, ids.trace()))
    assert.is_nil(sampler.of "parentbased_always_on")
    assert.is_nil(sampler.of(nil))
    assert.is_true(sampler.of(0)({ sampled = true }, ids.trace()))
  end)

  it("refuses an invalid sampler and gives the reason", function()
    assert.same({ false, "a share of traces is 0 to 1, not 2" }, { sampler.of(2) })
    assert.matches("unknown sampler 'sometimes'; there are always_off, ", select(2, sampler.of "sometimes"))
    assert.matches("0 to 1, not 'x'", select(2, sampler.of("traceidratio", "x")))
  end)
end)

describe("perf.exporter.queue", function()
  it("keeps the order, and refuses items when it is full", function()
    local q, into = queue.new(3), {}
    for round = 0, 4 do
      for i = 1, 3 do assert.equal(i, q:push(round * 10 + i)) end
      assert.is_false(q:push "more")
      assert.equal(round * 10 + 1, q:peek())
      assert.equal(2, q:take(2, into))
      assert.same({ round * 10 + 1, round * 10 + 2 }, { into[1], into[2] })
      assert.equal(2, q:push "x")
      assert.equal(2, q:take(5, into))
      assert.same({ round * 10 + 3, "x" }, { into[1], into[2] })
      assert.is_nil(q:peek())
    end
    q:push(1)
    assert.equal(1, q:clear())
    assert.equal(0, q:length())
  end)
end)

describe("perf.trace.ids", function()
  it("are hexadecimal digits, and differ", function()
    local seen = {}
    for _ = 1, 1000 do
      local trace, root = ids.trace()
      local span = ids.span()
      assert.matches("^[0-9a-f]+$", trace .. root .. span)
      assert.equal(32, #trace)
      assert.equal(16, #root)
      assert.equal(16, #span)
      assert.is_nil(seen[trace] or seen[root] or seen[span])
      seen[trace], seen[root], seen[span] = true, true, true
    end
  end)
end)

describe("perf.base.clock", function()
  it("gives the time of day as text, microseconds and a number", function()
    local first = os.time()
    local anchor, at = clock.anchor(), clock.now()
    local last = os.time()
    local digits = clock.text(anchor, at)
    assert.matches("^%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d$", digits)
    local seconds = tonumber(digits:sub(1, 10))
    assert.is_true(seconds >= first - 1 and seconds <= last + 1, digits)
    assert.equal(digits:sub(1, 16), clock.micros_text(anchor, at))
    assert.equal(at, (clock.from_ns(anchor, clock.ns(anchor, at))))
    assert.is_true(clock.now() >= at)
  end)

  it("carries nanoseconds over the end of a second", function()
    for ns = 0, 2e9, 333333333 do
      local a, b = clock.text(0, ns), clock.text(0, ns + 1e9)
      assert.equal(a:sub(11), b:sub(11))
      assert.equal(tonumber(a:sub(1, 10)) + 1, tonumber(b:sub(1, 10)))
    end
  end)
end)
