-- The tree of samples in the order of their times.
local time_order = require "perf.profile.report.time_order"

-- The tree of moments {weight, zone or false, outermost frame, ...}, whose frames are numbers.
local function tree(moments)
  local at = 0
  local prof = { timeline = function()
    return function()
      at = at + 1
      local m = moments[at]
      if not m then return nil end
      local stack = {}
      for i = #m, 3, -1 do stack[#stack + 1] = m[i] end
      return { weight = m[1], zone = m[2] or nil, stack = stack }
    end
  end }
  return time_order.tree(prof, function(f) return f end, function(zone) return #zone end, function() end)
end

describe("perf.profile.report.time_order", function()
  it("has one node for a call in consecutive samples, and another after other code ran", function()
    local t = tree { { 1, false, 11, 12 }, { 2, false, 11, 12 }, { 4, false, 11, 13 }, { 8, false, 11, 12 },
      { 16, false, 21, 12 } }
    assert.equal(7, t.n)
    assert.same({ 0, 11, 12, 13, 12, 21, 12 }, t.frame)
    assert.same({ 0, 1, 2, 2, 2, 1, 2 }, t.depth)
    assert.same({ 0, 0, 3, 4, 8, 0, 16 }, t.own)
    assert.same({ 0, 0, 2, 1, 1, 0, 1 }, t.count)
    assert.same({ 0, 0, 0, 0, 0, 0, 0 }, t.gap)
  end)

  it("begins calls of a frame anew if its caller is another one", function()
    local t = tree { { 1, false, 1, 5 }, { 1, false, 2, 5 }, { 1, false, 1, 5 } }
    assert.same({ 0, 1, 5, 2, 5, 1, 5 }, t.frame)
  end)

  it("keeps a call open while it makes a call and after that", function()
    local t = tree { { 1, false, 1 }, { 2, false, 1, 2 }, { 4, false, 1 }, { 8, false, 1, 2 }, { 16, false, 1, 3 },
      { 32, false, 1 } }
    assert.same({ 0, 1, 2, 2, 3 }, t.frame)
    assert.same({ 0, 37, 2, 8, 16 }, t.own)
    assert.same({ 0, 0, 1, 4, 0 }, t.gap)
  end)

  it("has zones below the root", function()
    local t = tree { { 1, "zone", 11 }, { 1, false, 11 }, { 1, "zone", 11 } }
    assert.same({ 0, 4, 11, 11, 4, 11 }, t.frame)
    assert.same({ 0, 1, 2, 1, 1, 2 }, t.depth)
  end)

  it("is the root alone without samples", function()
    assert.same({ n = 1, frame = { 0 }, depth = { 0 }, own = { 0 }, count = { 0 }, gap = { 0 } }, tree {})
  end)
end)
