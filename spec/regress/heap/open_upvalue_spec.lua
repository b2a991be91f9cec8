-- The story: a program whose main chunk has a local table, to which its functions add, compared two snapshots. The table had
-- grown from nothing to the largest object, and no row of `h:diff` had it. As long as the chunk runs, the table belongs to its
-- stack too, so the upvalue retains next to nothing. But the upvalue and the table have the same path, and only the first of them
-- was compared.
local perf = require "perf"

describe("a table in a local variable that is still on the stack", function()
  local function row_of(difference, pattern)
    for _, row in ipairs(difference.paths) do
      if row.path:find(pattern) and row.type == "table" then return row end
    end
  end

  -- The row of the table in the difference of two snapshots, around fn(list), and the whole difference as text.
  local function change(list, fn)
    function _G.heap_serve(i)
      if i then list[i] = { i } end
      return list
    end
    finally(function() _G.heap_serve = nil end)
    local before = perf.heap { collect = true }
    list = fn(list)
    local after = perf.heap { collect = true }
    local difference = after:diff(before)
    before:close()
    after:close()
    return row_of(difference, "^_G%.heap_serve > upvalue list %b()$"), tostring(difference)
  end

  before_each(function()
    requires { heap = true }
    perf.heap():close()
  end)

  it("has a row when it has grown", function()
    local row, text = change({}, function(list)
      for i = 1, 3000 do _G.heap_serve(i) end
      return list
    end)
    assert.is_truthy(row, text)
    assert.is_true(row.before < 1000 and row.bytes >= 3000 * 50 and row.bytes == row.after - row.before, text)
  end)

  it("has a row when it is gone", function()
    local held = { {} }
    for i = 1, 3000 do held[1][i] = { i } end
    local row, text = change(table.remove(held), function() return nil end)
    assert.is_truthy(row, text)
    assert.is_true(row.after == 0 and row.bytes <= -3000 * 50, text)
  end)
end)
