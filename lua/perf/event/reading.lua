-- Reads one Event before and after a measured function, and for Event:read, in the quickest way that the interpreter has.
--
-- begin(ev) returns the start, up to three values, or nil if it cannot be measured in this way;
-- finish(result) makes the function that takes the start and calls result(ev, value, enabled, running, id, ...) with the
-- difference. value is nil if a pinned event has no counter; enabled is "ECHILD" in the child of a fork that happened meanwhile.
-- take(ev) returns value, enabled, running, id as read for the program. Through the C API it also returns ev:info() if the entry
-- has only these numbers and the info's label and unit. It returns nil alone if only ev:scan() can read the event; else nil,
-- message, code if it fails.
local argument = require "perf.base.argument"
local core = require "perf.core"
local late = require "perf.base.late"
local ffi = require "perf.base.compiled".ffi

local M = {}

local function by_c_api()
  local since = core.Event.__index.since
  M.begin, M.take = core.Event.__index.begin, core.Event.__index.take
  function M.finish(result)
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

local function by_ffi()
  local number = late "perf.counts.readings".number
  local pointers = core.pointers()
  local begin = ffi.cast("int (*)(void *, void *)", pointers.pf_counter_begin)
  local finish = ffi.cast("int (*)(void *, void *)", pointers.pf_counter_end)
  local take = ffi.cast("int (*)(void *, void *)", pointers.pf_counter_take)
  local words, class = ffi.typeof "struct { uint64_t v[5]; }", core.Event
  local ENODATA, EBADF, ECHILD, ENOTSUP = -61, -9, -10, -95

  function M.begin(ev)
    if getmetatable(ev) ~= class then return nil end
    local start = words()
    if begin(ev, start) == 0 then return start end
  end

  function M.take(ev)
    if getmetatable(ev) ~= class then return nil end
    local got = words()
    local r = take(ev, got)
    if r ~= 0 then
      if r == EBADF or r == ECHILD or r == ENOTSUP or r == ENODATA then return nil end
      return core.refused("read", -r)
    end
    local v = got.v
    return number(v[0]), number(v[1]), number(v[2]), number(v[3])
  end

  function M.finish(result)
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

if ffi then by_ffi() else by_c_api() end

return M
