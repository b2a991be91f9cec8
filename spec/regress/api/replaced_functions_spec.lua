-- The story: a program kept a function of a module (perf.data.open) before the module was loaded. The kept function called
-- whatever function the module had under that name. So a program that then replaced the function by one that calls the kept one
-- ran forever. A function that was replaced before the module was loaded was lost when it was loaded. And a function that was
-- assigned to a kept `perf.data` did not reach the module.
local util = require "spec.support.util"

-- The output of a new interpreter, which has loaded nothing else.
local function fresh(code)
  local text
  util.with_tmpname(function(path)
    util.write_file(path, code)
    text = util.shell("timeout -s KILL 600 " .. util.lua() .. " " .. path)
  end)
  return text
end

describe("a function of a module", function()
  it("can be wrapped after the module was loaded", function()
    assert.equal("ENOENT 1", fresh [[
      local perf = require "perf"
      local open, calls = perf.data.open, 0
      perf.data.open "/nowhere/perf.data"
      perf.data.open = function(...) calls = calls + 1 return open(...) end
      io.write(select(3, perf.data.open "/nowhere/perf.data"), " ", calls)]])
  end)

  it("can be wrapped before the module is loaded", function()
    assert.equal("ENOENT ENOENT 2 true", fresh [[
      local perf = require "perf"
      local open, calls = perf.data.open, 0
      local function mine(...) calls = calls + 1 return open(...) end
      perf.data.open = mine
      local _, _, first = perf.data.open "/nowhere/perf.data"
      local _, _, second = perf.data.open "/nowhere/perf.data"
      io.write(first, " ", second, " ", calls, " ", tostring(require "perf.data".open == mine))]])
  end)

  it("can be replaced, and put back, in a table that was kept", function()
    assert.equal("mine mine ENOENT", fresh [[
      local perf = require "perf"
      local data = perf.data
      local open = data.open
      open "/nowhere/perf.data"
      data.open = function() return "mine" end
      io.write(perf.data.open(), " ", data.open(), " ")
      data.open = open
      io.write((select(3, perf.data.open "/nowhere/perf.data")))]])
  end)
end)

describe("an error of a function of a module", function()
  it("has the function's name at the first call, too", function()
    for call, message in pairs {
      ["perf.symbols.kernel(1)"] = "bad argument #1 to 'kernel' (string expected, got number)",
      ["perf.tracefields.parse(1)"] = "bad argument #1 to 'parse' (string expected, got number)",
      ["perf.exporter.otlp(1)"] = "bad argument #1 to 'otlp' (table of options expected, got number)",
      ["perf.pfm.encode(1)"] = "bad argument #1 to 'encode' (string expected, got number)",
    } do
      local output = fresh('local perf = require "perf"\nlocal ok, message = pcall(function()\nlocal v = ' .. call
        .. "\nreturn v end)\nio.write(message)")
      assert.is_truthy(output:find(":3: " .. message, 1, true) or output:find "not built", output)
    end
  end)

  it("has the caller's line where a tail call hides it", function()
    local output = fresh [[
      local perf = require "perf"
      local _, message = pcall(function()
        local msr = perf.msr "0"
      end)
      io.write(message)]]
    assert.is_truthy(output:find(":3: bad argument #1 to 'msr' (number of a CPU expected, got string)", 1, true), output)
  end)
end)
