-- Long work in slices, between which the worker serves other requests.
local clock = require "perf.base.clock"

local M = {}

local SLICE, RUN = 0.3e6, 64 -- nanoseconds; values that are sorted in one piece

-- A function that lets the worker serve other requests, if this one has run for SLICE.
function M.pausing()
  local since = clock.now()
  return function()
    if clock.now() - since < SLICE then return end
    ngx.sleep(0.001) -- the wrapped one, which ends the turn; nginx logs a warning for each 0
    since = clock.now()
  end
end

-- A list's values from index `first` to `last`, sorted as by table.sort, which cannot pause.
-- @param[opt] pause called now and then; without it the list itself is sorted
function M.sorted(list, before, pause, first, last)
  if not pause then
    table.sort(list, before)
    return list
  end
  first, last = first or 1, last or #list
  if last - first < RUN then
    local all = { unpack(list, first, last) }
    table.sort(all, before)
    return all
  end
  local middle = math.floor((first + last) / 2)
  local a, b = M.sorted(list, before, pause, first, middle), M.sorted(list, before, pause, middle + 1, last)
  local all, i, j = {}, 1, 1
  for k = 1, last - first + 1 do
    if i > #a or j <= #b and before(b[j], a[i]) then
      all[k], j = b[j], j + 1
    else
      all[k], i = a[i], i + 1
    end
    if k % RUN == 0 then pause() end
  end
  return all
end

return M
