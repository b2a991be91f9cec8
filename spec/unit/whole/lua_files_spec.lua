-- Modules in Lua that are also built into perf.core: csrc/binding/lua_files.c.
local util = require "spec.support.util"
require "perf.base.core" -- adds the searcher

local searchers = package.searchers or rawget(package, "loaders")
local search = searchers[#searchers]

describe("Lua modules that are built in", function()
  it("are the files unchanged, and have their names", function()
    local n = 0
    for module, path in util.read_file "csrc/binding/lua_files.c":gmatch 'FILE%([%w_]+, "([^"]+)", "([^"]+)"%)' do
      local chunk = search(module)
      local name = debug.getinfo(chunk, "S").source
      assert.matches("^@.*" .. path:gsub("%p", "%%%0") .. "$", name)
      local file = assert((rawget(_G, "loadstring") or load)(util.read_file(path), name))
      assert.equal(string.dump(file), string.dump(chunk))
      local other = path:gsub("^lua/", ""):gsub("/init%.lua$", ""):gsub("%.lua$", ""):gsub("/", ".")
      assert.equal(other, module)
      n = n + 1
    end
    assert.is_true(n > 20)
  end)

  it("are found only by their whole names", function()
    assert.equal(0, select("#", search "perf.count"))
    assert.equal(0, select("#", search "perf.counts.arithmetics"))
  end)

  it("have one searcher, however often perf is loaded", function()
    local n = #searchers
    searchers[n + 1] = function() end
    require "perf.core".add_searcher "@"
    searchers[n + 1] = nil
    assert.equal(n, #searchers)
  end)
end)
