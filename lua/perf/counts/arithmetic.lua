-- Arithmetic of Counts: on raw counts and times, scaled once at the end.
--
-- The value of an event that shared its counter is an estimate: the raw count, scaled by the share of the time in which it was
-- counted. The estimate of a difference is not the difference of the estimates. For example, a first reading of raw 100 in 100 ns
-- out of 1000, and a second one of raw 150 in 200 ns out of 1100, differ by raw 50 in 100 ns out of 100, which is 50; but the
-- estimates are 1000 and 825.
--
-- Results are plain Counts (see perf.counts).
local argument = require "perf.base.argument"

-- On LuaJIT, counts of 2^53 or more are unsigned 64-bit cdata, which cannot be negative, and arithmetic with a cdata truncates
-- numbers. So results are signed, and plain numbers if these are exact.
local has_ffi, ffi = pcall(require, "ffi")
local signed = has_ffi and ffi.typeof "int64_t"

local function is_wide(v) return type(v) == "cdata" end

local function narrow(v)
  local n = tonumber(v)
  return n > -2 ^ 53 and n < 2 ^ 53 and n or v
end

-- @param counts perf.counts, with entry, entries, is, plain, scaled, Metrics and FELL
-- @return the metamethods, merge and metrics, by name
return function(counts)
  local M = {}

  local function check(v, what)
    if counts.is(v) then return counts.entries(v) end
    argument.raise("Counts expected, got " .. type(v), 0, what)
  end

  -- The value that follows from the raw count and the times; nil if it is unknown.
  local function estimate(e)
    local raw, enabled, running = e.raw, e.enabled_ns, e.running_ns
    if not (e.bound or enabled == nil or running == nil or enabled == running) then
      if running == 0 or enabled == 0 or (running > 0) ~= (enabled > 0) then return nil end
      raw = counts.scaled(raw, enabled, running)
    end
    return e.scale and tonumber(raw) * e.scale or raw
  end

  local function new_entry(like)
    return { label = like.label, unit = like.unit, scale = like.scale, bound = like.bound }
  end

  -- A note beside a value (that the kernel was not counted) also applies to results computed from it.
  local function explain(r, a, b)
    local has = r.value ~= nil
    for _, e in ipairs { a, b } do
      if (e.value ~= nil) == has then r.why = r.why or e.why end
    end
    return r
  end

  local function apply(op, x, y)
    if x ~= nil and y ~= nil then return op(x, y) end
  end

  local function fill(r, a, b, op)
    r.raw, r.enabled_ns = apply(op, a.raw, b.raw), apply(op, a.enabled_ns, b.enabled_ns)
    r.running_ns = apply(op, a.running_ns, b.running_ns)
    return r
  end

  -- Pair each entry of a with an entry of b: the one at the same index or, if the order differs, the one with the same label.
  local function pairs_of(a, b, what)
    local list, by_label = {}, {}
    for _, e in ipairs(b) do by_label[e.label] = e end
    for i, e in ipairs(a) do
      local o = b[i] and b[i].label == e.label and b[i] or by_label[e.label]
      if not o or #a ~= #b or o.unit ~= e.unit or o.scale ~= e.scale then
        local labels = { {}, {} }
        for k, entries in ipairs { a, b } do
          for n, entry in ipairs(entries) do labels[k][n] = entry.label end
        end
        argument.raise(("both must count the same events, got '%s' and '%s'"):format(table.concat(labels[1], ","),
          table.concat(labels[2], ",")), 0, what)
      end
      list[i] = o
    end
    return list
  end

  local function plus(x, y)
    if is_wide(x) or is_wide(y) then return narrow(signed(x) + signed(y)) end
    return x + y
  end

  local function minus(x, y)
    if is_wide(x) or is_wide(y) then return narrow(signed(x) - signed(y)) end
    return x - y
  end

  local function times(v, n)
    if not is_wide(v) then return v * n end
    local product = tonumber(v) * n
    return n % 1 == 0 and math.abs(product) < 2 ^ 63 and narrow(signed(v) * n) or product
  end

  local function over(v, n) return (is_wide(v) and tonumber(v) or v) / n end

  -- The event never ran. It is still part of a sum if the other part was counted.
  local function waited(e) return e.raw and e.running_ns == 0 and e.enabled_ns ~= nil and e.enabled_ns ~= 0 end

  local function sum(a, b)
    local r = fill(new_entry(a), a, b, plus)
    if a.value ~= nil and (b.value ~= nil or waited(b)) or b.value ~= nil and waited(a) then
      if r.raw then r.value = estimate(r) else r.value = apply(plus, a.value, b.value) end
    end
    return explain(r, a, b)
  end

  -- The entry of an event that was reset between two readings.
  local function unknown(a, b)
    local r = fill(new_entry(a), a, b, minus)
    r.raw, r.why = nil, a.value == nil and a.why or b.value == nil and b.why or counts.FELL
    return r
  end

  -- The counts between two readings of the same events.
  local function since(a, b)
    local r = fill(new_entry(a), a, b, minus)
    for _, e in ipairs { a, b } do
      if e.value == nil and (e.raw == nil or e.running_ns ~= 0) then return explain(r, e, e) end
    end
    if r.raw ~= 0 and r.enabled_ns ~= nil and (r.enabled_ns == 0 or (r.raw < 0) ~= (r.enabled_ns < 0)) then
      r.raw, r.why = nil, counts.FELL
      return r
    end
    r.note = a.value ~= nil and a.why or nil
    return counts.entry(r, r.raw, r.enabled_ns, r.running_ns)
  end

  local function difference(a, b)
    local r = fill(new_entry(a), a, b, minus)
    if a.value ~= nil and b.value ~= nil then
      if r.raw then r.value = estimate(r) end
      -- No part of one measurement can have such times: these are two measurements, each with its own estimate.
      if r.value == nil then r.value = minus(a.value, b.value) end
    end
    return explain(r, a, b)
  end

  local function combine(a, b, what, op, op_wall)
    local left, right, list = check(a, what), check(b, what), {}
    local others = pairs_of(left, right, what)
    for i, e in ipairs(left) do list[i] = op(e, others[i]) end
    return counts.plain(list, op_wall(a.wall_ns, b.wall_ns), a.source)
  end

  -- Copy c with a function applied to every number.
  local function each(c, what, f)
    local list = {}
    for i, e in ipairs(check(c, what)) do
      local r = new_entry(e)
      r.why, r.enabled_ns, r.running_ns = e.why, e.enabled_ns and f(e.enabled_ns), e.running_ns and f(e.running_ns)
      if e.raw ~= nil then r.raw = f(e.raw) end
      if e.value ~= nil then r.value = f(e.value) end
      list[i] = r
    end
    return counts.plain(list, f(c.wall_ns), c.source)
  end

  local function same(c) return each(c, "+", function(v) return v end) end

  -- The sum of two Counts. 0 adds nothing, so that a sum can begin with it.
  function M.__add(a, b)
    if a == 0 then return same(b) end
    if b == 0 then return same(a) end
    return combine(a, b, "+", sum, plus)
  end

  function M.__unm(c)
    return each(c, "-", function(v) return minus(0, v) end)
  end

  -- The difference. For two readings (Group:read): the counts in between, nil if the events were reset in between. (A reset by
  -- an ioctl of other code on the same descriptor is noticed only if the count is lower afterwards.) For two measurements: how
  -- much more the first counted.
  function M.__sub(a, b)
    if b == 0 then return same(a) end
    if a == 0 then return M.__unm(b) end
    local op = difference
    if counts.is(a) and counts.is(b) and a.cumulative and b.cumulative then op = a.epoch == b.epoch and since or unknown end
    return combine(a, b, "-", op, minus)
  end

  local function number(n, what)
    return argument.check_type(n, "number", 0, what)
  end

  function M.__mul(a, b)
    if type(a) == "number" then a, b = b, a end
    local n = number(b, "*")
    return each(a, "*", function(v) return times(v, n) end)
  end

  function M.__div(a, n)
    number(n, "/")
    return each(a, "/", function(v) return over(v, n) end)
  end

  local function alike(a, b)
    if #a ~= #b then return false end
    for i, e in ipairs(a) do
      local o = b[i]
      if e.label ~= o.label or e.value ~= o.value or e.raw ~= o.raw or e.enabled_ns ~= o.enabled_ns
        or e.running_ns ~= o.running_ns or e.unit ~= o.unit then return false end
    end
    return true
  end

  -- Equal: the same events in the same order, with the same numbers and the same wall time.
  function M.__eq(a, b)
    if not (counts.is(a) and counts.is(b)) then return false end
    return a.wall_ns == b.wall_ns and alike(counts.entries(a), counts.entries(b))
  end

  -- Add up Counts of different events: an entry of only one side is kept as it is.
  function M.merge(a, b)
    local list, by_label = {}, {}
    local left, right = counts.entries(a), counts.entries(b)
    for _, e in ipairs(right) do by_label[e.label] = e end
    for i, e in ipairs(left) do
      list[i] = by_label[e.label] and sum(e, by_label[e.label]) or e
      by_label[e.label] = nil
    end
    for _, e in ipairs(right) do
      if by_label[e.label] == e then list[#list + 1] = e end
    end
    return counts.plain(list, a.wall_ns + b.wall_ns, a.source)
  end

  -- The ratios that the counted events allow: see Counts:metrics in perf.counts.
  function M.metrics(c)
    local list = counts.is(c) and counts.entries(c)
    if not list then argument.raise_in_method("metrics", ("Counts expected, got %s"):format(type(c)), 1) end
    local m, per_second = {}, {}
    local function ratio(a, b) return a and b and b ~= 0 and tonumber(a) / tonumber(b) or nil end
    local clock = c["task-clock"] or c["cpu-clock"]
    local cycles = c["cycles"] or c["cpu-cycles"]
    m.ipc = ratio(c["instructions"], cycles)
    m.branch_miss_rate = ratio(c["branch-misses"], c["branches"] or c["branch-instructions"])
    m.cache_miss_rate = ratio(c["cache-misses"], c["cache-references"])
    m.cpus_utilized = ratio(clock, c.wall_ns)
    m.ghz = ratio(cycles, clock)
    local time = clock and clock ~= 0 and clock or c.wall_ns
    for _, e in ipairs(list) do
      if e.value and e.unit ~= "ns" and time ~= 0 then per_second[e.label] = tonumber(e.value) / tonumber(time) * 1e9 end
    end
    m.per_second = per_second
    return setmetatable(m, counts.Metrics)
  end

  return M
end
