-- The story: the objects of one linked list filled the table of paths, and left only the last of them there; and h:diff(h) was
-- not empty, since the step to one of several traces of a prototype, metatables of the interpreter or local variables of a
-- recursive function led to the first of them.
local perf = require "perf"

local GLOBALS = { "perf_spec_list", "perf_spec_cache" }

local function names(rows)
  local found = {}
  for _, row in ipairs(rows) do found[row.path] = row.retained end
  return found
end

describe("the paths of a heap", function()
  before_each(function()
    requires { heap = true }
    perf.heap():close() -- the first call loads the module
  end)
  after_each(function()
    for _, name in ipairs(GLOBALS) do rawset(_G, name, nil) end
  end)

  for kind, grow in pairs {
    ["with one table for each entry"] = function(last, i) return { next = last, i } end,
    ["with two tables for each entry"] = function(last, i) return { entry = { next = last, i } } end,
  } do
    it("have a linked list " .. kind .. " once, and what is smaller too", function()
      local last, cache = nil, {}
      for i = 1, 20000 do last = grow(last, i) end
      for i = 1, 20000 do cache[i] = i end
      rawset(_G, "perf_spec_list", last)
      rawset(_G, "perf_spec_cache", cache)
      local h = assert(perf.heap { collect = true })
      -- 100 rows, since earlier specs may have left several other paths with some megabytes each. If each entry of the list had a
      -- row, these would fill the 100 too.
      local found, of_list = names(h:paths(100)), 0
      for path, bytes in pairs(found) do
        if path:find("_G.perf_spec_list", 1, true) then
          of_list = of_list + 1
          assert.is_true(bytes > 0.99 * h:who(last).retained)
        end
      end
      h:close()
      assert.equal(1, of_list)
      assert.is_number(found["_G.perf_spec_cache"])
    end)
  end

  it("have no difference from themselves", function()
    local h
    local function call(n)
      local kept = {}
      for i = 1, 100 * n do kept[i] = {} end
      if n == 0 then
        h = assert(perf.heap())
      else
        call(n - 1)
      end
      return #kept
    end
    local text = {}
    for i = 1, 20 do -- many traces of one prototype
      text[i] = ("for i = 1, 200 do if i %% %d == 0 then a = a + i end end"):format(i + 1)
    end
    local fn = (loadstring or load)("local a = 0 " .. table.concat(text, " ") .. " return a")
    fn()
    coroutine.wrap(call)(5)
    local difference = h:diff(h)
    h:close()
    assert.same({}, difference.paths)
    assert.same({}, difference.types)
    assert.equal(0, difference.total)
    assert.is_function(fn)
  end)
end)
