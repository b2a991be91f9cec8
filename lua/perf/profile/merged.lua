-- Merges samples of a profile that have the same stack. Two states of Lua may have loaded the same file, so that each of its
-- functions is there twice.

local SUMS = { "weight", "count", "allocated", "allocated_count" }

-- Add up samples of the same frames and zone in the first of them.
-- @tab list the result of Profile:samples()
-- @func[opt] pause called now and then
-- @return an array of the remaining samples; and into[sample]: the sample that each was added to
return function(list, pause)
  local numbers, n, by_key, out, into = {}, 0, {}, {}, {}
  for _, sample in ipairs(list) do
    local key = { sample.zone or "" }
    for i, frame in ipairs(sample.stack) do
      if not numbers[frame] then
        local text = ("%s\0%s\0%s"):format(frame.kind, frame.module or "", frame.name)
        if not numbers[text] then
          n = n + 1
          numbers[text] = n
        end
        numbers[frame] = numbers[text]
      end
      key[i + 1] = numbers[frame]
    end
    key = table.concat(key, ",")
    local same = by_key[key]
    if same then
      into[sample] = same
      for _, sum in ipairs(SUMS) do same[sum] = same[sum] and same[sum] + sample[sum] end
    else
      by_key[key], out[#out + 1] = sample, sample
    end
    if pause then pause() end
  end
  return out, into
end
