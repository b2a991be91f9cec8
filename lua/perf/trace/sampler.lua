-- Samplers decide which spans are recorded. A sampler is a function(parent, trace_id, name, kind, attributes) that returns a
-- boolean; nil stands for "parentbased_always_on", which the tracer does itself.
--
-- The names are those of OTEL_TRACES_SAMPLER. A ratio uses the trace's id, so every service that samples at a ratio chooses the
-- same traces (or, at a higher one, these and more).
local keys_of = require "perf.base.keys"

local M = {}

local function on() return true end
local function off() return false end

-- A sampler of a share of the traces.
-- @param ratio 0 to 1
function M.ratio(ratio)
  if ratio >= 1 then return on end
  if ratio <= 0 then return off end
  -- The last 8 bytes of the id as a fraction of 2^64, of which 52 bits are used, so that it is exact. (On some machines tonumber
  -- with a base is limited to the 32 bits of a long.)
  local bound = ratio * 2 ^ 52
  return function(_, trace_id) return tonumber("0x" .. trace_id:sub(17, 29)) < bound end
end

local function by_parent(root)
  return function(parent, ...)
    if parent and parent.sampled ~= nil then return parent.sampled end
    return root(parent, ...)
  end
end

local makers = {
  always_on = function() return on end,
  always_off = function() return off end,
  traceidratio = M.ratio,
  parentbased_always_on = function() return nil end,
  parentbased_always_off = function() return by_parent(off) end,
  parentbased_traceidratio = function(ratio) return by_parent(M.ratio(ratio)) end,
}

-- The sampler of an option.
-- @param which nil, a function, a number (the share of new traces; others follow their parent), or a name
-- @param argument the value of OTEL_TRACES_SAMPLER_ARG, a number or text
-- @return sampler or nil; or false, message if there is no such sampler. It never raises.
function M.of(which, argument)
  if which == nil then return nil end
  if type(which) == "function" then return which end
  if type(which) == "number" then
    if not (which >= 0 and which <= 1) then return false, ("a share of traces is 0 to 1, not %s"):format(which) end
    return by_parent(M.ratio(which))
  end
  local make = makers[which]
  if not make then
    return false, ("unknown sampler '%s'; there are %s"):format(tostring(which), table.concat(keys_of(makers), ", "))
  end
  local ratio = 1
  if argument ~= nil and which:find "ratio" then ratio = tonumber(argument) end
  if not ratio or not (ratio >= 0 and ratio <= 1) then
    return false, ("a sampler's argument is 0 to 1, not '%s'"):format(tostring(argument))
  end
  return make(ratio)
end

return M
