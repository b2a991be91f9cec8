local source = require "perf.profile.source"

-- The alignment of two texts whose lines are single words: for each word before the line after, 0 if it is gone.
local function aligned(before, after, equal)
  local function digest(text)
    local lines = {}
    for word in text:gmatch "%S+" do lines[#lines + 1] = word end
    return source.digest(lines), #lines
  end
  local a, n = digest(before)
  local map, list = source.align(a, (digest(after)), equal), {}
  for i = 1, n do list[i] = map[i] or 0 end
  return table.concat(list, " ")
end

describe("perf.profile.source", function()
  it("splits a text into its lines", function()
    assert.same({}, source.split "")
    for text, wanted in pairs { ["a"] = { "a" }, ["a\n"] = { "a" }, ["a\n\n"] = { "a", "" }, ["\n a\nb"] = { "", " a", "b" } } do
      assert.same(wanted, source.split(text))
    end
  end)

  it("makes the same digest of the same code, whatever its indentation", function()
    local digest = source.digest { "local x = 1", "", "  return x" }
    assert.matches("^%x+$", digest)
    assert.equal(18, #digest)
    assert.equal(digest, source.digest { "\tlocal x = 1\r", "    ", "return x" })
    assert.equal(digest, source.digest(digest))
    assert.not_equal(digest, source.digest { "local x = 2", "", "  return x" })
  end)

  it("aligns the lines of two versions", function()
    assert.equal("1 2 3", aligned("a b c", "a b c"))
    assert.equal("3 4 5", aligned("a b c", "x y a b c"))
    assert.equal("1 0 2", aligned("a b c", "a c"))
    assert.equal("1 2 3", aligned("a b c", "a x c"))
    assert.equal("1 0 3", aligned("a b c", "a x c", true))
    assert.equal("1 0 4", aligned("a b c", "a x y c"))
    assert.equal("", aligned("", "a"))
    assert.equal("0 0", aligned("a b", ""))
    assert.equal("4 5 6 0 0 7", aligned("f a b end g end", "h x end f a b end")) -- the ends lead to no other function
    assert.equal("3 4 5 0 0", aligned("f a b g c", "g c f a b")) -- of two functions that changed places the longer one
  end)

  it("aligns long files, also without any single line, in time", function()
    local a, b = {}, {}
    for i = 1, 20000 do
      a[i] = "line " .. i
      b[i + 1], b[1] = "line " .. i, "new"
    end
    local map = source.align(source.digest(a), source.digest(b))
    assert.same({ 2, 20001 }, { map[1], map[20000] })
    for i = 1, 20000 do a[i], b[i] = i % 2 == 0 and "x" or "y", i % 2 == 0 and "y" or "x" end
    source.align(source.digest(a), source.digest(b))
  end)
end)
