-- The story: h:who(obj) took any object that was larger than the distance to obj for obj, so a table that was made after the
-- snapshot was found as a string or another table that had been there; the empty string was not found at all. A Snapshot that
-- was closed was read at address 0.
local perf = require "perf"

describe("what holds an object", function()
  before_each(function()
    requires { heap = true }
    perf.heap():close() -- the first call loads the module
  end)

  it("is not said of an object of another type or place, whose memory the new one has", function()
    local function take()
      local texts = {}
      for i = 1, 10000 do texts[i] = ("a text of the snapshot "):rep(i % 50) .. i end
      return assert(perf.heap()), #texts
    end
    local h = take()
    collectgarbage()
    collectgarbage()
    local kept, found = {}, {}
    for i = 1, 3000 do
      kept[i] = { i }
      local row = h:who(kept[i])
      if row and row.type ~= "table" then found[#found + 1] = row.what end
    end
    h:close()
    assert.same({}, found)
  end)

  it("is not said of a table beside a larger one", function()
    collectgarbage()
    local kept = {}
    for i = 1, 100 do kept[i] = { {}, {}, {} } end
    local large = {}
    for i = 1, 100000 do large[i] = i end
    local h = assert(perf.heap())
    local mine = h:who(large).object
    for i = 1, 1000 do
      kept[i] = { i }
      local row = h:who(kept[i])
      assert.is_true(row == nil or row.object ~= mine)
    end
    h:close()
  end)

  it("is said of every type of object, and of the empty string", function()
    local objects = { "", "a text of this spec", ("a long text of this spec"):rep(10), {}, string.gmatch("a", "b"),
      function() end, coroutine.create(function() end), io.stdout }
    if rawget(_G, "newproxy") then objects[#objects + 1] = rawget(_G, "newproxy")(true) end
    if rawget(_G, "jit") then
      local ffi = require "ffi"
      for _, value in ipairs { print, ffi.new "char[100]", ffi.new("char[?]", 100), ffi.new("int64_t", 1), ffi.typeof "int" } do
        objects[#objects + 1] = value
      end
    end
    local h = assert(perf.heap())
    for i, object in ipairs(objects) do assert.is_string((h:who(object) or {}).path, i .. " " .. type(object)) end
    h:close()
  end)

  it("is refused by a closed Snapshot", function()
    local h = assert(perf.heap())
    local snapshot = h.snapshot
    h:close()
    for _, method in ipairs { "object", "text", "holders", "step" } do
      assert.error_matches(function() snapshot[method](snapshot, 0, "root", 1) end, "no such object")
    end
  end)
end)
