-- The part of a sampler's result that is new since an earlier one of the same sampler, whose stacks have the same numbers, and
-- whose sums were not larger.
local pairs_of = require "perf.base.pairs"

local SUMS = { "total", "unsampled", "unsampled_count", "lost", "samples", "beyond", "duration_ns" }

local function less(values, before)
  local rest = {}
  for i, v in ipairs(values) do rest[i] = v - (before[i] or 0) end
  return rest
end

local function less_by_name(values, before)
  local rest = {}
  for name, v in pairs_of(values or {}) do
    local n = v - (before and before[name] or 0)
    if n ~= 0 then rest[name] = n end
  end
  return rest
end

-- @tab found a result
-- @tab[opt] before an earlier one
-- @return the difference, a new table; found itself if there is none before
return function(found, before)
  if not before then return found end
  local r = {}
  for name, v in pairs_of(found) do r[name] = v end
  for _, name in ipairs(SUMS) do r[name] = found[name] and found[name] - before[name] end
  r.weight, r.count = less(found.weight, before.weight), less(found.count, before.count)
  local failures = less_by_name(found.failures, before.failures)
  r.failures = next(failures) and failures or nil
  for _, part in ipairs { "accounting", "blocks" } do
    if found[part] then
      r[part] = {}
      for name, v in pairs_of(found[part]) do r[part][name] = v - before[part][name] end
    end
  end
  if found.moments then r.moments = found.moments:sub(#before.moments + 1) end
  return r
end
