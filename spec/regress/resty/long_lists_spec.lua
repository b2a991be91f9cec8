-- The story: a list that was sorted in one piece was copied by unpack, which takes fewer than 8,000 values. perf.wait_profile()
-- raised "too many results to unpack" in a worker with many sites of waits.
it("a list of any length is sorted, with pauses and without", function()
  local sort = require "perf.base.sorted"
  for _, pause in ipairs { false, function() end } do
    local list = {}
    for i = 1, 10000 do list[i] = i * 7919 % 10007 end
    local sorted = sort(list, function(a, b) return a < b end, pause)
    assert.equal(10000, #sorted)
    for i = 2, #sorted do
      if sorted[i - 1] >= sorted[i] then error(("%d comes before %d"):format(sorted[i - 1], sorted[i])) end
    end
  end
end)
