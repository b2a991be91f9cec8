--- Heap:html, totable, json and save. spec/reports/heap_spec.lua views the page in a browser.
-- Long: make test runs this file on LuaJIT and Lua 5.4, make test-long on the other interpreters.
local json = require "perf.base.json"
local perf = require "perf"
local util = require "spec.support.util"

-- The data of a page.
local function data_of(page)
  return assert(json.decode((page:match '<script type="application/json" id="data">(.-)</script>')))
end

describe("the page of a heap", function()
  before_each(function() requires { heap = true } end)
  after_each(function() rawset(_G, "heap_page", nil) end)

  it("has a bounded number of objects, and says what it leaves out of a heap of any size", function()
    local list = {}
    for i = 1, 60000 do list[i] = { { i } } end
    rawset(_G, "heap_page", list)
    local h = assert(perf.heap())
    local page = h:html()
    assert.is_true(#page < 5e6)
    local objects = data_of(page).objects
    assert.equal(20001, #objects) -- with the root
    local sums, owned = {}, {}
    for k = 2, #objects do
      local owner = objects[k][1]
      if owner < 0 or owner >= k - 1 then error(("object %d comes before its owner %d"):format(k, owner)) end
      sums[owner], owned[owner] = (sums[owner] or 0) + objects[k][4], (owned[owner] or 0) + 1
    end
    local total = 0
    for k, o in ipairs(objects) do
      local left, bytes = o[11] - (owned[k - 1] or 0), o[4] - o[3] - (sums[k - 1] or 0)
      if not (left > 0 and bytes > 0 or left == 0 and bytes == 0 or left > 0 and bytes == 0 and k > 1) then
        error(("object %d: %d left out, of %d bytes"):format(k, left, bytes))
      end
      total = total + o[3] + bytes
    end
    assert.equal(objects[1][4], total)
    h:close()
  end)

  it("has the path of each object, and the references between them", function()
    -- They retain more than most objects, of which the page has only the first 20,000.
    local held = { "held", ("h"):rep(1e5) }
    rawset(_G, "heap_page", { one = { held, ("1"):rep(1e5) }, two = { held, ("2"):rep(1e5) },
      text = "</script><b>" .. ("x"):rep(1000) })
    local h = assert(perf.heap { collect = true })
    local page = h:html()
    local objects = data_of(page).objects
    local number = h:who(held).object
    local found
    for k, o in ipairs(objects) do
      local holder = objects[o[6] + 1] -- none if it is left out
      if holder and o[8] == 1 and o[7] == "[1]" and (holder[7] == ".one" or holder[7] == ".two") then found = k - 1 end
    end
    assert.is_number(number)
    assert.is_number(found)
    local holders = 0
    for _, o in ipairs(objects) do
      for i = 1, #o[12], 3 do holders = holders + (o[12][i] == found and 1 or 0) end
    end
    assert.is_true(holders >= 2 and holders <= objects[found + 1][10])
    h:close()
  end)

  it("is saved by the ending of a name, like the tables as JSON and text", function()
    local h = assert(perf.heap())
    local name = os.tmpname()
    os.remove(name)
    local function saved(ending)
      finally(function() os.remove(name .. ending) end)
      assert.is_true(h:save(name .. ending))
      return util.read_file(name .. ending)
    end
    assert.match("^<!DOCTYPE html>.*</html>%s*$", saved ".html")
    assert.equal(tostring(h) .. "\n", saved ".txt")
    local t = json.decode(saved ".json")
    assert.same(json.decode(h:json()), t)
    assert.equal(h.total, t.total)
    assert.equal(h:paths()[1].path, t.paths[1].path)
    assert.equal(h:types()[1].bytes, t.types[1].bytes)
    local ok, message, code = h:save "/nonexistent/heap.html"
    assert.is_nil(ok)
    assert.match("nonexistent", message)
    assert.equal("ENOENT", code)
    assert.error_matches(function() h:save "heap.svg" end, "unknown ending; .html, .json and .txt are known")
    assert.error_matches(function() h:html(nil, { dif = h }) end, "diff")
    assert.error_matches(function() h:html(nil, { diff = {} }) end, "Heap expected, got table")
    local old = assert(perf.heap())
    old:close()
    assert.error_matches(function() h:html(nil, { diff = old }) end, "closed")
    h:close()
    for _, method in ipairs { "html", "json", "totable" } do
      assert.error_matches(function() return h[method](h) end, "closed")
    end
    assert.error_matches(function() return h:save "heap.txt" end, "closed")
  end)
end)
