-- Stacks of different depths, in zones and outside of them, which have all, some or none of their frames in common. Each is
-- sampled after each other one: the stack of a sample does not depend on that of the sample before.
-- Long: make test runs this file on LuaJIT and Lua 5.4, make test-long on the other interpreters.
local kit = require "testkit"
local perf = require "perf"

describe("a profile of stacks in turns", function()
  it("counts each of them exactly", function()
    requires { perf_open = true, registers = true }
    local at = kit.region "guarded"
    local function down(left, fn, n)
      if left == 0 then fn(n, at) else down(left - 1, fn, n) end
      return left
    end
    local ways = {}
    for _, zone in ipairs { false, "first", "second" } do
      for _, depth in ipairs { 0, 1, 7 } do
        for name, fn in pairs { touch_pages = kit.touch_pages, touch_below = kit.touch_below } do
          ways[#ways + 1] = { zone = zone, depth = depth, name = name, fn = fn }
        end
      end
    end
    local function run(way)
      if way.zone then perf.zone(way.zone, down, way.depth, way.fn, way.pages) else down(way.depth, way.fn, way.pages) end
    end
    for i, way in ipairs(ways) do way.pages, way.expected, way.found = i, i * 2 * #ways, 0 end
    local prof = perf.profile({ event = "page-faults", period = 1 }, function()
      for _, a in ipairs(ways) do
        for _, b in ipairs(ways) do
          for _, way in ipairs { a, b } do run(way) end -- called on one line, so that only the ways differ
        end
      end
    end)
    for _, s in ipairs(prof:samples()) do
      local depth, name = -1, nil
      for _, frame in ipairs(s.stack) do
        name = name or frame.kind == "c" and frame.name:match "touch_%a+" or nil
        if frame.func == "down" then depth = depth + 1 end
      end
      for _, way in ipairs(ways) do
        if way.name == name and way.depth == depth and way.zone == (s.zone or false) then way.found = way.found + s.weight end
      end
    end
    for _, way in ipairs(ways) do
      local what = ("%s, %d deep, in %s: %d of %d"):format(way.name, way.depth, tostring(way.zone), tonumber(way.found),
        way.expected)
      assert(way.found >= way.expected and way.found <= way.expected + 20, what) -- new pages of the stack or the heap
    end
    assert.equal(0, prof.lost)
  end)
end)
