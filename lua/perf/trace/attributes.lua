--- Attributes of spans, events and links: strings, numbers, booleans, 64-bit cdata and arrays of these, by name. A value of
-- another type is refused where the program sets it, since an exporter could only drop the span. The limits of OpenTelemetry's
-- specification hold for the copies that are made here: how many attributes there are, and how long a string is, in characters.
-- @module perf.trace.attributes
local blame = require "perf.names.blame"
local every = require "perf.every"
local text = require "perf.trace.text"

local M = {}

local plain = { string = true, number = true, boolean = true }
local has_ffi, ffi = pcall(require, "ffi")

local function is_scalar(v)
  local kind = type(v)
  return plain[kind] or kind == "cdata" and has_ffi and (ffi.istype("int64_t", v) or ffi.istype("uint64_t", v))
end

local function refuse(key, v, arg)
  local what = type(v) == "cdata" and tostring(ffi.typeof(v)) or type(v)
  blame.raise(("attribute '%s': string, number, boolean or an array of them expected, got %s"):format(key, what), arg)
end

local function scalar(key, v, arg, length)
  if type(v) == "string" then return #v > length and text.cut(v, length) or v end
  if not is_scalar(v) then refuse(key, v, arg) end
  return v
end

--- The value of an attribute, of an array a copy.
-- @string key its name
-- @param v
-- @int arg which argument of the public function it came in
-- @number length characters that a string may have, in an array too
function M.value(key, v, arg, length)
  if type(v) ~= "table" then return scalar(key, v, arg, length) end
  if v[1] == nil and next(v) ~= nil then refuse(key, v, arg) end -- names, no positions
  local copy = {}
  for i, item in ipairs(v) do copy[i] = scalar(key, item, arg, length) end
  return copy
end

--- A copy of a table of attributes, within the limits. All of them are checked, also those that the copy has no room for.
-- @tab t
-- @int arg which argument of the public function it came in
-- @int most how many the copy may have
-- @number length characters that a string may have
-- @return copy; how many it has; how many were dropped, nil for none
function M.copy(t, arg, most, length)
  local copy, n, dropped = {}, 0, nil
  for key, v in every(t) do
    if type(key) ~= "string" then blame.raise(("attribute names are strings, not %s"):format(type(key)), arg) end
    v = M.value(key, v, arg, length)
    if n < most then
      copy[key], n = v, n + 1
    else
      dropped = (dropped or 0) + 1
    end
  end
  return copy, n, dropped
end

return M
