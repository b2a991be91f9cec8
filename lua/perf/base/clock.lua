-- The times of spans. Within a tree of spans, times are those of CLOCK_MONOTONIC, in nanoseconds as plain numbers. A root's
-- anchor has the time of day at its start, so that spans of one tree keep their order when the clock is set, and later trees
-- follow the new time.
--
-- A time of day in nanoseconds exceeds 2^53, so it is computed in two parts and written as text, in this file only. A time that a
-- program gives may have any date, so both parts of it are kept: the moment, {seconds, nanoseconds}.
local compiled = require "perf.base.compiled"
local core = require "perf.core"

local M = {}

local base_s, base_ns = core.clock_parts(core.clock_base())
local floor, format = math.floor, string.format

-- Now, in nanoseconds by the monotonic clock.
M.now = core.clock_wall

-- The anchor of a tree that begins now, a number.
M.anchor = core.clock_skew

if compiled.ffi then
  local pointers = core.pointers()
  local wall = compiled.ffi.cast("double (*)(void)", pointers.pf_clock_wall)
  local skew = compiled.ffi.cast("double (*)(void)", pointers.pf_clock_skew)
  -- LuaJIT compiles no trace that begins at a function with a tail call of a C function, nor one that later calls such one.
  function M.now()
    local ns = wall()
    return ns
  end
  function M.anchor()
    local ns = skew()
    return ns
  end
end

-- Seconds and nanoseconds since 1970.
local function split(anchor, at)
  local ns = base_ns + anchor + at
  local s = floor(ns / 1e9)
  return base_s + s, ns - s * 1e9
end

-- The time of day in seconds, as a number that is right to a microsecond.
function M.seconds()
  local s, ns = split(M.anchor(), M.now())
  return s + ns / 1e9
end

-- The two parts of a moment, or of a time of the monotonic clock.
local function parts(anchor, at, moment)
  if moment then return moment[1], moment[2] end
  return split(anchor, at)
end

-- A time of day in nanoseconds, as decimal text.
-- @param at a time of the monotonic clock
-- @param[opt] moment the same time in the program's form, which is exact: see `from_ns`
function M.text(anchor, at, moment)
  if not moment then return format("%d%09d", split(anchor, at)) end
  return moment[1] > 0 and format("%.0f%09.0f", moment[1], moment[2]) or format("%.0f", moment[2])
end

-- The same in microseconds.
function M.micros_text(anchor, at, moment)
  local s, ns = parts(anchor, at, moment)
  return s > 0 and format("%.0f%06.0f", s, floor(ns / 1e3)) or format("%.0f", floor(ns / 1e3))
end

-- A time of day in nanoseconds, by the rule for 64-bit values.
function M.ns(anchor, at, moment)
  return core.clock_ns(parts(anchor, at, moment))
end

-- Convert a time of day that a program gives. On the monotonic clock it is a number, which is exact only within 104 days of now;
-- the moment is always exact.
-- @param ns a number, an integer, a 64-bit cdata or a "0x" string
-- @return that time by the monotonic clock; the moment {seconds, nanoseconds}
function M.from_ns(anchor, ns)
  local s, rest = core.clock_parts(ns)
  return (s - base_s) * 1e9 + (rest - base_ns) - anchor, { s, rest }
end

-- The moment of a time of the monotonic clock.
function M.moment(anchor, at) return { split(anchor, at) } end

-- Seconds and units from one moment to another; both 0 if the second is not later.
local function difference(from, to, unit)
  local s, rest = to[1] - from[1], floor(to[2] / unit) - floor(from[2] / unit)
  if rest < 0 then s, rest = s - 1, rest + 1e9 / unit end
  if s < 0 then return 0, 0 end
  return s, rest
end

-- Nanoseconds from one moment to another, by the rule for 64-bit values.
function M.between(from, to) return core.clock_ns(difference(from, to, 1)) end

-- The difference of two times in microseconds, as their texts show it; a number.
function M.micros_between(from, to)
  local s, micros = difference(from, to, 1e3)
  return s * 1e6 + micros
end

-- Nanoseconds from one moment to another, as precise as a number can be.
function M.nearly_between(from, to)
  local s, ns = difference(from, to, 1)
  return s * 1e9 + ns
end

return M
