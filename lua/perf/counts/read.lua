-- The two reads around a measured function, in the quickest way of this interpreter.
--
--   LuaJIT         the core's functions through FFI, which the compiler can put into a trace; Counts is a cdata
--   Lua 5.2-5.4    the C API; Counts is a userdata
--   Lua 5.1        the same, then a table of entries, since its ipairs accepts nothing else
--
-- begin(meter, layout, words) reads the start into new Counts; finish(meter, counts, ...) turns them into the difference and
-- returns them before the rest of its arguments, so that a measurement is `return finish(meter, begin(meter, layout, words),
-- fn(...))`: without a table of results, with every nil kept, errors raised unchanged, and a function that may yield. Nothing has
-- to be undone if it does not return.
--
-- try(meter, layout, words, fn) is begin with the checks that must come before it, where they cost least: it returns nil, and
-- does nothing, if the meter belongs to another thread or fn is not a function. Callers find out the reason on their slow path.
--
-- Spans begin and end separately, and must not make a program fail, so they have functions that use packed Counts on every
-- interpreter: start(meter, layout, words), which is begin, or nil, message, code; stop(meter, counts), which is finish and
-- returns true, or the same; wall(counts), its wall time, or before stop the time when it began, in nanoseconds by the monotonic
-- clock; add(into or nil, from, meter, take), which adds (into = nil makes a copy) or with take subtracts.
local compiled = require "perf.base.compiled"
local core = require "perf.core"
local counts = require "perf.counts"
local pairs_of = require "perf.base.pairs"
local argument = require "perf.base.argument"

local M = {}

-- One event: event_begin(ev) returns the start, up to three values, or nil if it cannot be measured in this way;
-- event_finish(result) makes the function that takes the start and calls result(ev, value, enabled, running, id, ...) with the
-- difference. value is nil if a pinned event has no counter; enabled is "ECHILD" in the child of a fork that happened meanwhile.
local function event_by_c_api()
  local since = core.Event.__index.since
  M.event_begin = core.Event.__index.begin
  function M.event_finish(result)
    return function(ev, value, enabled, running, ...)
      local id
      value, enabled, running, id = since(ev, value, enabled, running)
      if value == nil and enabled ~= "ENODATA" and enabled ~= "ECHILD" then
        argument.raise(enabled == "EBADF" and "Event is closed" or "read: " .. enabled, 0)
      end
      return result(ev, value, enabled, running, id, ...)
    end
  end
end

local function event_by_ffi(ffi, number)
  local pointers = core.pointers()
  local begin = ffi.cast("int (*)(void *, void *)", pointers.pf_counter_begin)
  local finish = ffi.cast("int (*)(void *, void *)", pointers.pf_counter_end)
  local words, class = ffi.typeof "struct { uint64_t v[5]; }", core.Event
  local ENODATA, EBADF, ECHILD = -61, -9, -10

  function M.event_begin(ev)
    if getmetatable(ev) ~= class then return nil end
    local start = words()
    if begin(ev, start) == 0 then return start end
  end

  function M.event_finish(result)
    return function(ev, start, _, _, ...)
      local r = finish(ev, start)
      if r == 0 then
        local v = start.v
        return result(ev, number(v[0]), number(v[1]), number(v[2]), number(v[3]), ...)
      end
      if r == ECHILD then return result(ev, nil, "ECHILD", nil, nil, ...) end
      if r ~= ENODATA then argument.raise(r == EBADF and "Event is closed" or select(2, core.refused("read", -r)), 0) end
      return result(ev, nil, nil, nil, nil, ...)
    end
  end
end

local function by_c_api()
  local class = counts.define(core.word, core.layout, core.reset_ns)
  for name, f in pairs_of(class) do core.Counts[name] = f end
  core.Counts.__name = "perf.Counts"
  function counts.is_packed(v)
    return type(v) == "userdata" and getmetatable(v) == core.Counts
  end
  M.begin, M.try, M.finish, M.snap = core.begin, core.begin, core.finish, core.snap
  M.measurer = core.measurer
  M.thread_token = core.thread_token
  event_by_c_api()
  local finish = core.finish
  M.start, M.stop = core.start, core.stop
  M.wall, M.add = core.wall, core.add

  if _VERSION == "Lua 5.1" then
    local unpack_counts, snap = counts.unpack, core.snap
    local function wrap(c, ...) return unpack_counts(c), ... end
    function M.finish(...) return wrap(finish(...)) end
    function M.snap(...)
      local c, message, code = snap(...)
      if not c then return nil, message, code end
      return unpack_counts(c)
    end
  end
end

local function by_ffi(ffi)
  local pointers = core.pointers()
  local begin = ffi.cast("int (*)(void *, void *)", pointers.pf_meter_begin)
  local finish = ffi.cast("int (*)(void *, void *)", pointers.pf_meter_end)
  local snap = ffi.cast("int (*)(void *, void *)", pointers.pf_meter_snap)
  local token = ffi.cast("uint32_t (*)(void)", pointers.pf_thread_token)
  local add = ffi.cast("int (*)(const void *, void *, const void *, int)", pointers.pf_counts_add)

  local exact = 2 ^ 53
  local function number(v)
    local n = tonumber(v)
    return n < exact and n or v
  end
  local class = counts.define(function(c, i) return number(c._v[i]) end, function(c) return c._layout end,
    function(c) return tonumber(c._reset_ns) end)
  event_by_ffi(ffi, number)
  class.__name = "perf.Counts"

  -- A type for each number of words: allocations of a fixed size are compiled, and removed if the result is not kept.
  local types = {}
  local function type_of(words)
    local ct = ffi.typeof("struct { uint32_t _layout, _n; uint64_t _reset_ns, _v[" .. words .. "]; }")
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

  -- begin and finish return 0, an error code, or the information that the measurement needs a guard
  -- (csrc/binding/counts/guard.c).
  local function guard(r, meter, c)
    if r < 0 then failed(r, meter) end
    core.guard(meter, c)
  end
  local function unguard(r, meter, c)
    if r < 0 then failed(r, meter) end
    core.unguard(c)
  end

  function M.begin(meter, layout, words)
    local c = (types[words] or type_of(words))()
    c._layout = layout -- not by an initializer: initializers of structs that hold arrays are not compiled
    local r = begin(meter, c)
    if r ~= 0 then guard(r, meter, c) end
    return c
  end

  function M.try(meter, layout, words, fn)
    if type(fn) ~= "function" then return nil end
    local c = (types[words] or type_of(words))()
    c._layout = layout
    local r = begin(meter, c)
    if r == 0 then return c end
    if r ~= ESRCH then
      guard(r, meter, c)
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
    guard(r, meter, c)
    return c
  end

  function M.stop(meter, c)
    local r = finish(meter, c)
    if r < 0 then return core.read_failed(r) end
    if r > 0 then unguard(r, meter, c) end
    return true
  end

  function M.wall(c) return tonumber(c._v[0]) end

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
end

if compiled.ffi then by_ffi(compiled.ffi) else by_c_api() end

return M
