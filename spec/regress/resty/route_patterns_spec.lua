-- A malformed pattern was only matched with "" at the start, which finds few mistakes. Then each request whose path matched the
-- pattern's begin failed. So did requests for which the function `routes` raised an error.
-- Long: make test runs this file on LuaJIT and Lua 5.4, make test-long on the other interpreters.
local routes = require "resty.perf.routes"

describe("patterns of routes", function()
  local function accepts(pattern) return (pcall(routes.new, { { "x", pattern = pattern } })) end

  it("are refused at the start if they are malformed", function()
    for _, pattern in ipairs { "^/api(", "^/api%", "^/api[a", "/[]", "/[^]", "/[a%", "/[%]", "/)", "/(a))", "/%b", "/%b(", "/%fa",
      "/%f", "/%f[", "/%1", "/(a%1)", "/(a)%2", "/%0", ("()"):rep(33) } do
      assert.is_false(accepts(pattern), pattern)
      local ok, err = pcall(routes.new, { { "y", pattern = "^/y$" }, { "x", pattern = pattern } })
      assert.is_false(ok)
      assert.truthy(err:find("rule 2: not a Lua pattern", 1, true), err)
    end
  end)

  it("are accepted if string.find takes them", function()
    for _, pattern in ipairs { "", "^/api", "/[]]", "/[^]]*", "/[a%]]+$", "/()", "/((a)b)%2", "/%b()x", "/%f[%w]x-", "a$b", "^",
      "$", "*", "[*]", "/%(", "%.", "/[a-z]?", "]]", "/(.-)/%1", ("()"):rep(32) } do
      assert.is_true(accepts(pattern), pattern)
    end
  end)

  -- Each text over the characters that mean something, with subjects that reach every part of it.
  it("are accepted exactly if no subject makes string.find fail", function()
    local characters = { "%", "(", ")", "[", "]", "^", "b", "f", "1", "a" }
    local subjects = { "", "a", "aa", "b", "f", "1", "[", "]", "(", ")", "()", "^", "%", "a]", "aba", "ab", "ba", "(a",
      "a)", "(a)" }
    local function fails(pattern)
      for _, subject in ipairs(subjects) do
        if not pcall(string.find, subject, pattern) then return true end
      end
    end
    local function try(prefix, more)
      if fails(prefix) then assert.is_false(accepts(prefix), prefix) end
      if more == 0 then return end
      for _, c in ipairs(characters) do try(prefix .. c, more - 1) end
    end
    try("", 4)
  end)
end)

describe("a function of routes that raises an error", function()
  it("gives (other), and its first error is reported", function()
    local errors = {}
    local find = routes.new(function(uri) return uri:match("^/(%d+)"):upper() end, function(e) errors[#errors + 1] = e end)
    assert.equal("(other)", find "/x")
    assert.equal("(other)", find "/y")
    assert.equal("7", find "/7")
    assert.equal(1, #errors)
    assert.truthy(errors[1]:find("route_patterns_spec.lua", 1, true), errors[1])
    assert.equal("(other)", routes.new(function() error() end) "/x")
  end)

  it("does the same for a pattern that is too complex for a path", function()
    local find = routes.new { { "x", pattern = "^" .. ("(.-)"):rep(31) .. "b$" }, { "y", pattern = "^/y" } }
    assert.equal("y", find "/y")
  end)
end)
