--- What spans and their events are described by: strings, numbers, booleans, 64-bit cdata and arrays of these, by name. What is
-- none of them is found out where the program says it: an exporter that came upon it would lose the batch.
-- @module perf.trace.attributes
local blame = require "perf.names.blame"
local every = require "perf.every"

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

local function check_scalar(key, v, arg)
  if not is_scalar(v) then refuse(key, v, arg) end
  return v
end

--- The value of an attribute, of an array a copy.
-- @string key its name
-- @param v
-- @int arg which argument of the public function it came in
function M.value(key, v, arg)
  if type(v) ~= "table" then return check_scalar(key, v, arg) end
  if v[1] == nil and next(v) ~= nil then refuse(key, v, arg) end -- names, no positions
  local copy = {}
  for i, item in ipairs(v) do copy[i] = check_scalar(key, item, arg) end
  return copy
end

--- A copy of a table of attributes.
-- @return copy, how many
function M.copy(t, arg)
  local copy, n = {}, 0
  for key, v in every(t) do
    if type(key) ~= "string" then blame.raise(("attribute names are strings, not %s"):format(type(key)), arg) end
    copy[key] = M.value(key, v, arg)
    n = n + 1
  end
  return copy, n
end

return M
