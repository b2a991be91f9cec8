-- Sorts in slices, between which the caller does other work.
local unpack = table.unpack or unpack

local RUN = 64 -- values that are sorted in one piece

-- A list's values from index `first` to `last`, sorted as by table.sort, which cannot pause.
-- @param before function(a, b)
-- @param[opt] pause called now and then; without it the list itself is sorted
local function sorted(list, before, pause, first, last)
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
  local a, b = sorted(list, before, pause, first, middle), sorted(list, before, pause, middle + 1, last)
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

return sorted
