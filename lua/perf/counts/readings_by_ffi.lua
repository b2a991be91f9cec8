-- perf.counts.readings through LuaJIT's FFI.
local argument = require "perf.base.argument"
local core = require "perf.core"
local ffi = require "perf.base.compiled".ffi
local pairs_of = require "perf.base.pairs"
local read = require "perf.counts.read_by_ffi"

local M = {}

local types, type_of, begin, finish, begun, unguard = read.types, read.type_of, read.begin_meter, read.end_meter, read.begun,
  read.unguard

local pointers = core.pointers()
local snap = ffi.cast("int (*)(void *, void *)", pointers.pf_meter_snap)
local add = ffi.cast("int (*)(const void *, void *, const void *, int)", pointers.pf_counts_add)

-- Returns a number if that has all the digits, and else the 64-bit cdata.
local exact = 2 ^ 53
local function number(v)
  local n = tonumber(v)
  return n < exact and n or v
end
M.number = number

function M.word(c, i) return number(c._v[i]) end
function M.layout(c) return c._layout end
function M.reset_ns(c) return tonumber(c._reset_ns) end

local last = ffi.typeof "int" -- the type that is_packed found last

-- There is a type for each number of words. LuaJIT's compiler gives up at the loop if that goes on to a second type, and does not
-- compile the caller. So the type that was found last is tried first.
function M.is_packed(v)
  if type(v) ~= "cdata" then return false end
  if ffi.istype(last, v) then return true end
  for _, ct in pairs_of(types) do
    if ffi.istype(ct, v) then
      last = ct
      return true
    end
  end
  return false
end

local EBADF, ECHILD = -9, -10

-- Raise the error of a measurement that failed.
function M.failed(r, meter)
  if r == ECHILD then argument.raise_in_method(nil, core.inherited "Group", 1) end
  if r == EBADF and getmetatable(meter) == core.Group then argument.raise_in_method(nil, core.closed_group, 1) end
  if r == EBADF then argument.raise(core.closed_list, 0) end
  argument.raise(select(2, core.read_failed(r)), 0)
end

function M.snap(meter, layout, words)
  local c = (types[words] or type_of(words))()
  c._layout = layout
  local r = snap(meter, c)
  if r == 0 then return c end
  if r == EBADF or r == ECHILD then M.failed(r, meter) end
  return core.read_failed(r)
end

-- The wall time; before the end, the time when the reading began. This reads two halves: for a number of 64 bits the interpreter
-- would allocate an object, which a measurement of memory would count.
local function wall(c) return c._low + c._high * 2 ^ 32 end

function M.start(meter, layout, words)
  local c = (types[words] or type_of(words))()
  c._layout = layout
  local r = begin(meter, c)
  if r == 0 then return c, wall(c) end
  if r < 0 then return core.read_failed(r) end
  begun(r, meter, c)
  return c, wall(c)
end

function M.stop(meter, c)
  local r = finish(meter, c)
  if r < 0 then return core.read_failed(r) end
  if r > 0 then unguard(r, meter, c) end
  return wall(c)
end

function M.add(into, from, meter, take)
  if not into then
    local n = from._n
    into = (types[n] or type_of(n))()
    ffi.copy(into, from, 16 + 8 * n)
  elseif add(meter, into, from, take and 1 or 0) ~= 0 then
    argument.raise("Counts of another list", 2)
  end
  return into
end

return M
