-- Attributes of spans, events and links: strings, numbers, booleans, 64-bit cdata and arrays of these, by name. A value of
-- another type raises where the program sets it, since an exporter could only drop the span later. The limits of OpenTelemetry's
-- specification apply to the copies made here: the number of attributes, and the length of strings in characters.
local argument = require "perf.base.argument"
local pairs_of = require "perf.base.pairs"
local utf8 = require "perf.base.utf8"

local M = {}

local _, ffi = pcall(require, "ffi")

local function refuse(key, v, arg)
  local what = type(v) == "cdata" and tostring(ffi.typeof(v)) or type(v)
  argument.raise(("attribute '%s': string, number, boolean or an array of them expected, got %s"):format(key, what), arg)
end

local function scalar(key, v, arg, length)
  local kind = type(v)
  if kind == "string" then return #v > length and utf8.cut(v, length) or v end
  if kind == "number" or kind == "boolean" then return v end
  if kind ~= "cdata" or not (ffi.istype("int64_t", v) or ffi.istype("uint64_t", v)) then refuse(key, v, arg) end
  return v
end

-- Check the value of an attribute; an array is copied.
-- @string key its name
-- @int arg the number of the argument of the public function
-- @number length the largest number of characters of a string, also in an array
function M.value(key, v, arg, length)
  if type(v) ~= "table" then return scalar(key, v, arg, length) end
  if v[1] == nil and next(v) ~= nil then refuse(key, v, arg) end -- names, no positions
  local copy = {}
  for i, item in ipairs(v) do copy[i] = scalar(key, item, arg, length) end
  return copy
end

-- Copy a table of attributes within the limits. All attributes are checked, including those that are dropped.
-- @int arg the number of the argument of the public function
-- @int most the largest number of attributes of the copy
-- @number length the largest number of characters of a string
-- @return copy; its number of attributes; the number of dropped ones, nil for none
function M.copy(t, arg, most, length)
  local copy, n, dropped = {}, 0, nil
  for key, v in pairs_of(t) do
    if type(key) ~= "string" then argument.raise(("attribute names are strings, not %s"):format(type(key)), arg) end
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
