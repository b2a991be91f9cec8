-- The story: a function whose debug information was stripped was shown as the main chunk of its file, since LuaJIT gives 0 for
-- the line of its definition. In Neovim, all functions of the built-in modules had this name.
local perf = require "perf"

describe("a profile of a function without debug information", function()
  before_each(function() requires { perf_open = "user", lua = "luajit" } end)

  local text = [[
    return function(list)
      for i = 1, 1e6 do list[i % 100] = tostring(i) end
    end]]
  local load_text = rawget(_G, "loadstring") or load

  local function names(chunk)
    local found = {}
    for _, row in ipairs(perf.profile("task-clock:u", chunk(), {}):top().lines) do
      if row.file == "stripped.lua" then found[row.func] = row.line end
    end
    return found
  end

  it("does not call it a main chunk", function()
    assert.same({ ["(stripped)"] = 0 }, names(load_text(string.dump(load_text(text, "@stripped.lua"), true), "@stripped.lua")))
  end)

  it("names it with debug information", function()
    local found = names(load_text(text, "@stripped.lua"))
    assert.is_nil(found["(stripped)"])
    assert.truthy(found["anonymous@1"])
  end)
end)
