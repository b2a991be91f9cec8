-- perf.counts.read through LuaJIT's FFI.
local class = require "perf.counts.class"
local core = require "perf.core"
local ffi = require "perf.base.compiled".ffi
local late = require "perf.base.late"
local layouts = require "perf.counts.layouts"

local M = {}

local pointers = core.pointers()
local begin = ffi.cast("int (*)(void *, void *)", pointers.pf_meter_begin)
local begin_memory = ffi.cast("void (*)(void *, void *)", pointers.pf_meter_begin_memory)
local finish = ffi.cast("int (*)(void *, void *)", pointers.pf_meter_end)
local token = ffi.cast("uint32_t (*)(void)", pointers.pf_thread_token)
M.begin_meter, M.end_meter = begin, finish

-- A type for each number of words: allocations of a fixed size are compiled, and removed if the result is not kept.
local types = layouts.types
M.types = types
local function type_of(words)
  local halves = ffi.abi "le" and "_low, _high" or "_high, _low"
  local ct = ffi.typeof("struct { uint32_t _layout, _n; uint64_t _reset_ns; union { uint64_t _v[" .. words .. "]; "
    .. "struct { uint32_t " .. halves .. "; }; }; }")
  ct = ffi.metatype(ct, class)
  types[words] = ct
  return ct
end
M.type_of = type_of

local ESRCH = -3

local function failed(r, meter) late "perf.counts.readings".failed(r, meter) end

-- begin and finish return 0, an error code, or the information that the measurement needs more: see enum pf_meter_needs in
-- csrc/core/counts/meter.h.
local function begun(r, meter, c)
  if r < 0 then failed(r, meter) end
  core.begun(meter, c)
  begin_memory(meter, c)
end
M.begun = begun

local function unguard(r, meter, c)
  if r < 0 then failed(r, meter) end
  core.unguard(c)
end
M.unguard = unguard

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

function M.thread_token() return token() end
function M.token_with(object) return type(object) == "table" and token() or nil end

return M
