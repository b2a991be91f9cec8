-- The tables and the page of a snapshot are made in pieces, between which a server handles requests.
--
-- The story: a snapshot's objects were searched for the largest ones in one piece, and so were the references of each object of
-- the page. For a heap of 90 MB a worker of nginx was blocked for 3 ms, and for 35 ms by the page.
-- Long: make test runs this file on LuaJIT and Lua 5.4, make test-long on the other interpreters.
local perf = require "perf"

local OBJECTS = 200000
local PIECE = 20000 -- objects or edges that C looks at

describe("a snapshot's", function()
  local h, pauses, kept

  before_each(function()
    requires { heap = true }
    kept = {}
    for i = 1, OBJECTS do kept[i] = {} end
    h = assert(perf.heap())
    h.stream = { put = function() end, pause = function() pauses = pauses + 1 end }
    pauses = 0
  end)

  after_each(function()
    assert.equal(OBJECTS, #kept)
    kept = nil
    h:close()
  end)

  it("tables are made in pieces, and are the same as in one", function()
    local rows = h:paths(5)
    assert.is_true(pauses > OBJECTS / PIECE, pauses)
    h.stream = nil
    assert.same(rows, h:paths(5))
  end)

  it("objects are chosen in pieces, and are the same as in one", function()
    local snapshot = h.snapshot
    for _, pick in ipairs { false, true } do
      local choice, calls = snapshot:choose(100, pick), 0
      local list
      repeat
        list = snapshot:go_on(choice, 1000)
        calls = calls + 1
      until list
      assert.is_true(calls > OBJECTS / 1000 * (pick and 3 or 1), calls) -- it clears, counts and selects
      assert.same(snapshot:go_on(snapshot:choose(100, pick), 2 ^ 50), list)
    end
  end)

  it("references of a large table are looked at in pieces, and are the same as in one", function()
    local snapshot = h.snapshot
    local choice = snapshot:choose(300, true)
    local picked = snapshot:go_on(choice, 2 ^ 50)
    local parts, total = 0, 0
    for _, i in ipairs(picked) do
      local list, others, _, _, from = snapshot:references(i, choice, 1000)
      local sum = others
      while from do
        parts = parts + 1
        list, others, _, _, from = snapshot:references(i, choice, 1000, from, list)
        sum = sum + others
      end
      total = math.max(total, sum + #list / 2)
    end
    assert.is_true(parts >= OBJECTS / PIECE - 1, parts)
    assert.is_true(total >= OBJECTS, total)
  end)

  it("page pauses while it searches", function()
    h:html()
    assert.is_true(pauses > OBJECTS / PIECE * 3, pauses)
  end)
end)
