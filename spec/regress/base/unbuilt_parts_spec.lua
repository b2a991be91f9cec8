-- The story: a part that was not built gave its reason at the first use. On LuaJIT and Lua 5.1 every later use said "loop or
-- previous error loading module" and blamed a line of this library, since the failed `require` had left a mark in package.loaded.
-- perf.open of an unknown event was such a first use, as it asks libpfm4 for the name.
local util = require "spec.support.util"

describe("a part that was not built", function()
  before_each(function() requires { nosan = true } end)

  it("gives the same reason at each use, at the line of the caller", function()
    local output, status = util.shell(util.lua() .. [[ - <<'END'
local perf = require "perf"
package.cpath = "" -- so that no part is found
pcall(perf.open, "inst_retired.any")
for _, use in ipairs {
  function() return #perf.pfm.find("x") end,
  function() return #perf.symbols.offset("/bin/sh", "main") end,
  function() return #perf.bpf.load("x.o") end,
  function() return #require "perf.bpf" end,
  function() return #perf.tracefields.parse("") end,
} do
  local line = debug.getinfo(use, "S").linedefined
  for _ = 1, 3 do
    local _, message = pcall(use)
    print((message:gsub("^stdin:" .. line .. ": ", "here: ")))
  end
end
for _ = 1, 2 do print((select(2, perf.uprobe { path = "/bin/sh", symbol = "main" }))) end
END
]])
    assert.equal(0, status, output)
    local wanted = {}
    for _, part in ipairs { "pfm", "symbols", "bpf", "bpf", "tracefields" } do
      for _ = 1, 3 do wanted[#wanted + 1] = ("here: perf.%s: not built (*)"):format(part) end
    end
    for _ = 1, 2 do
      wanted[#wanted + 1] = "uprobe:/bin/sh:main: looking up a symbol needs perf.symbols: not built (*)"
    end
    local found = {}
    for line in output:gmatch "[^\n]+" do found[#found + 1] = line:gsub("not built .*", "not built (*)") end
    assert.same(wanted, found)
  end)
end)
