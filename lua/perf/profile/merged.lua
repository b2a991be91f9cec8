-- Samples of a profile that turn out to have the same stack.

-- Adds up those of the same frames and zone, in the first of them.
-- @tab list as Profile:samples() gives
-- @return an array of those that are left, and where the others went: into[sample]
return function(list)
  local numbers, n, by_key, out, into = {}, 0, {}, {}, {}
  for _, sample in ipairs(list) do
    local key = { sample.zone or "" }
    for i, frame in ipairs(sample.stack) do
      if not numbers[frame] then
        n = n + 1
        numbers[frame] = n
      end
      key[i + 1] = numbers[frame]
    end
    key = table.concat(key, ",")
    local same = by_key[key]
    if same then
      into[sample] = same
      same.weight, same.count = same.weight + sample.weight, same.count + sample.count
    else
      by_key[key], out[#out + 1] = sample, sample
    end
  end
  return out, into
end
