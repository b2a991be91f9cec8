-- The story: times given by a program were kept as a number of nanoseconds from now, so those further away than 2^53 of them, 104
-- days, were rounded; and a span that was to begin in the future kept all later ones in the queue until then.
local perf = require "perf"
local posted = require "spec.support.posted"

-- Decimal digits as hexadecimal ones.
local function hex(text)
  local digits, out = {}, ""
  for d in text:gmatch "%d" do digits[#digits + 1] = tonumber(d) end
  while #digits > 0 do
    local rest, quotient = 0, {}
    for _, d in ipairs(digits) do
      rest = rest * 10 + d
      local q = math.floor(rest / 16)
      rest = rest % 16
      if #quotient > 0 or q > 0 then quotient[#quotient + 1] = q end
    end
    out, digits = ("%x"):format(rest) .. out, quotient
  end
  return "0x" .. out
end

-- Nanoseconds since 1970 in decimal and, for programs, in hexadecimal digits; microseconds.
local times = {}
for _, ns in ipairs { "1", "999999999", "123456789012345678" --[[ 1973 ]], "946684799999999999" --[[ the end of 1999 ]],
  "1700000000123456789", "4102444800000000001" --[[ 2100 ]], "9007199254740993001" --[[ 2^53 + 1 microseconds ]],
  "18446744073709551615" } do
  times[#times + 1] = { ns, hex(ns), #ns > 3 and ns:sub(1, -4) or "0" }
end

-- The request in which an exporter posts one span.
local function sent(kind, fill)
  local exporter, bodies = posted(kind)
  local t = assert(perf.tracer { events = false, exporter = exporter })
  local span = fill(t)
  assert.is_true(t:flush())
  t:close()
  return bodies[1], span
end

local function hex_of(v) return (perf.hex(v):gsub("^0x0*(%x)", "0x%1")) end

describe("a time that was measured elsewhere", function()
  it("is exact at any date, in OTLP and in plain tables", function()
    for i, from in ipairs(times) do
      local till = times[i + 1] or from
      local body, span = sent("otlp", function(t)
        local span = t:start("x", { start_ns = from[2] })
        span:add_event("e", nil, till[2]):finish(till[2])
        return span
      end)
      assert.equal(from[1], body:match '"startTimeUnixNano":"(%d+)"')
      assert.equal(till[1], body:match '"endTimeUnixNano":"(%d+)"')
      assert.equal(till[1], body:match '"timeUnixNano":"(%d+)"')
      local plain = span:totable()
      assert.same({ from[2], till[2] }, { hex_of(plain.start_ns), hex_of(plain.events[1].time_ns) })
    end
  end)

  it("is exact in Zipkin's microseconds", function()
    for i, from in ipairs(times) do
      local till = times[i + 1] or from
      local body = sent("zipkin", function(t)
        local span = t:start("x", { start_ns = from[2] })
        span:add_event("e", nil, till[2]):finish(till[2])
      end)
      assert.equal(from[3], body:match '"timestamp":(%d+),"duration"')
      assert.equal(till[3], body:match '"timestamp":(%d+),"value"')
    end
    local function duration(from, till)
      return sent("zipkin", function(t) t:start("x", { start_ns = from }):finish(till) end):match '"duration":(%d+)'
    end
    assert.equal("123456788012346", duration(times[2][2], times[3][2]))
    assert.equal("1", duration(times[5][2], times[3][2])) -- it ended before it began
  end)

  it("is exact alone: a beginning without an end, and an end without a beginning", function()
    local old, new = times[3], times[6]
    local before = os.time()
    local body, span = sent("otlp", function(t)
      local span = t:start("x", { start_ns = old[2] })
      span:finish()
      return span
    end)
    assert.equal(old[1], body:match '"startTimeUnixNano":"(%d+)"')
    local ended = tonumber(body:match '"endTimeUnixNano":"(%d+)%d%d%d%d%d%d%d%d%d"')
    assert.is_true(ended >= before - 2 and ended <= os.time() + 2, ended)
    assert.is_true(span.duration > 1e18)
    body = sent("otlp", function(t) t:start "x":finish(new[2]) end)
    assert.equal(new[1], body:match '"endTimeUnixNano":"(%d+)"')
    body = sent("otlp", function(t) t:start "x":finish(old[2]) end)
    assert.equal(body:match '"startTimeUnixNano":"(%d+)"', body:match '"endTimeUnixNano":"(%d+)"')
  end)

  it("that is in the future delays nothing", function()
    local exporter, bodies = posted "otlp"
    local t = assert(perf.tracer { events = false, exporter = exporter, delay = 0 })
    local span = t:start("x", { start_ns = times[6][2] })
    span:finish(times[7][2])
    local till = os.time() + 20
    while #bodies == 0 and os.time() < till do t:poll() end
    assert.equal(1, #bodies)
    t:close()
  end)
end)
