--- The times of spans. Within a tree of spans time is CLOCK_MONOTONIC's, a plain number of nanoseconds; a root's anchor says what
-- the time of day then was, so that spans of one tree keep their order when somebody sets the clock, and later trees follow it.
--
-- A time of day in nanoseconds is beyond 2^53, so it is made in two parts and as text: where they meet is here alone.
-- @module perf.trace.clock
local core = require "perf.core"
local fast = require "perf.fast"

local M = {}

local base_s, base_ns = core.clock_base()
local floor, format = math.floor, string.format

--- Now, in nanoseconds by the monotonic clock.
M.now = fast.clock_wall

--- The anchor of a tree that begins now, a number.
M.anchor = fast.clock_skew

-- Seconds and nanoseconds since 1970.
local function split(anchor, at)
  local ns = base_ns + anchor + at
  local s = floor(ns / 1e9)
  return base_s + s, ns - s * 1e9
end

--- A time of day in nanoseconds, as decimal text.
function M.text(anchor, at)
  return format("%d%09d", split(anchor, at))
end

--- A time of day in microseconds: a number, exact.
function M.micros(anchor, at)
  local s, ns = split(anchor, at)
  return s * 1e6 + floor(ns / 1e3)
end

--- A time of day in nanoseconds, by the rule for 64-bit values.
function M.ns(anchor, at)
  return core.clock_ns(split(anchor, at))
end

--- The other way: what the monotonic clock showed at a time of day.
-- @param ns a number, an integer, a 64-bit cdata or a "0x" string
function M.from_ns(anchor, ns)
  local s, rest = core.clock_parts(ns)
  return (s - base_s) * 1e9 + (rest - base_ns) - anchor
end

return M
