-- perf.counts.read through LuaJIT's FFI.
local argument = require "perf.base.argument"
local core = require "perf.core"
local counts = require "perf.counts"
local ffi = require "perf.base.compiled".ffi
local pairs_of = require "perf.base.pairs"

local M = {}

-- A number, if it has all the digits, or else the 64-bit cdata.
local exact = 2 ^ 53
local function number(v)
  local n = tonumber(v)
  return n < exact and n or v
end
M.number = number

local pointers = core.pointers()
local begin = ffi.cast("int (*)(void *, void *)", pointers.pf_meter_begin)
local begin_memory = ffi.cast("void (*)(void *, void *)", pointers.pf_meter_begin_memory)
local finish = ffi.cast("int (*)(void *, void *)", pointers.pf_meter_end)
local snap = ffi.cast("int (*)(void *, void *)", pointers.pf_meter_snap)
local token = ffi.cast("uint32_t (*)(void)", pointers.pf_thread_token)
local add = ffi.cast("int (*)(const void *, void *, const void *, int)", pointers.pf_counts_add)

local class = counts.define(function(c, i) return number(c._v[i]) end, function(c) return c._layout end,
  function(c) return tonumber(c._reset_ns) end)
class.__name = "perf.Counts"

-- A type for each number of words: allocations of a fixed size are compiled, and removed if the result is not kept.
local types = {}
local function type_of(words)
  local halves = ffi.abi "le" and "_low, _high" or "_high, _low"
  local ct = ffi.typeof("struct { uint32_t _layout, _n; uint64_t _reset_ns; union { uint64_t _v[" .. words .. "]; "
    .. "struct { uint32_t " .. halves .. "; }; }; }")
  ct = ffi.metatype(ct, class)
  types[words] = ct
  return ct
end
function counts.is_packed(v)
  if type(v) ~= "cdata" then return false end
  for _, ct in pairs_of(types) do
    if ffi.istype(ct, v) then return true end
  end
  return false
end

local EBADF, ESRCH, ECHILD = -9, -3, -10
local function failed(r, meter)
  if r == ECHILD then argument.raise_in_method(nil, core.inherited "Group", 1) end
  if r == EBADF and getmetatable(meter) == core.Group then argument.raise_in_method(nil, core.closed_group, 1) end
  if r == EBADF then argument.raise(core.closed_list, 0) end
  argument.raise(select(2, core.read_failed(r)), 0)
end

-- begin and finish return 0, an error code, or the information that the measurement needs more: see enum pf_meter_needs in
-- csrc/core/counts/meter.h.
local function begun(r, meter, c)
  if r < 0 then failed(r, meter) end
  core.begun(meter, c)
  begin_memory(meter, c)
end
local function unguard(r, meter, c)
  if r < 0 then failed(r, meter) end
  core.unguard(c)
end

function M.begin(meter, layout, words)
  local c = (types[words] or type_of(words))()
  c._layout = layout -- not by an initializer: initializers of structs that hold arrays are not compiled
  local r = begin(meter, c)
  if r ~= 0 then begun(r, meter, c) end
  return c
end

function M.try(meter, layout, words, fn)
  if type(fn) ~= "function" then return nil end
  local c = (types[words] or type_of(words))()
  c._layout = layout
  local r = begin(meter, c)
  if r == 0 then return c end
  if r ~= ESRCH then
    begun(r, meter, c)
    return c
  end
end

function M.finish(meter, c, ...)
  local r = finish(meter, c)
  if r ~= 0 then unguard(r, meter, c) end
  return c, ...
end

function M.snap(meter, layout, words)
  local c = (types[words] or type_of(words))()
  c._layout = layout
  local r = snap(meter, c)
  if r == 0 then return c end
  if r == EBADF or r == ECHILD then failed(r, meter) end
  return core.read_failed(r)
end

function M.thread_token() return token() end

function M.start(meter, layout, words)
  local c = (types[words] or type_of(words))()
  c._layout = layout
  local r = begin(meter, c)
  if r == 0 then return c end
  if r < 0 then return core.read_failed(r) end
  begun(r, meter, c)
  return c
end

function M.stop(meter, c)
  local r = finish(meter, c)
  if r < 0 then return core.read_failed(r) end
  if r > 0 then unguard(r, meter, c) end
  return true
end

-- By its halves: the interpreter would allocate an object for a number of 64 bits, which a measurement of memory would count.
function M.wall(c) return c._low + c._high * 2 ^ 32 end

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
