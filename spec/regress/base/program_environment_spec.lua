-- The story: a program could break the library by changes to its environment. After a failed `require "resty.perf"` each error of
-- the library was "bad argument #1 to 'every'", since Lua 5.1 and LuaJIT leave a userdata in package.loaded. A program that
-- raises an error for undefined globals, as with strict.lua, could not load perf.bench. `perf.help` indexed nil if the program
-- had cleared package.loaded.perf.
local util = require "spec.support.util"

local function run(code)
  local text
  util.with_tmpname(function(path)
    util.write_file(path, code)
    text = util.shell(util.lua() .. " " .. path)
  end)
  return text
end

describe("a program", function()
  it("gets the library's own errors after a module failed to load", function()
    local output = run [[
      local perf = require "perf"
      package.preload["resty.perf"] = function() error "no nginx" end
      assert(not pcall(require, "resty.perf"))
      local _, message = pcall(function()
        local event = perf.open({}, 3)
      end)
      io.write(message)]]
    assert.is_truthy(output:find("bad argument #2 to 'open' (table of options expected, got number)", 1, true), output)
  end)

  it("may raise an error for undefined globals", function()
    assert.equal("done", run [[
      setmetatable(_G, { __index = function(_, name) error("undefined global " .. tostring(name), 2) end })
      local perf = require "perf"
      for _, group in ipairs(require "perf.api") do
        local ok, message = pcall(require, "perf." .. group.module)
        assert(ok or message:find "not built", message)
      end
      local ok, message = pcall(perf.bench, function() end, { repeats = 2, min_time = 0.001 })
      assert(ok or not message:find "undefined global", message)
      require "perf.exporter.transport.ngx".new {}
      io.write "done"]])
  end)

  -- `require "perf"` called debug.getinfo, which a program may have removed alone.
  for what, code in pairs { ["the library debug"] = "debug, package.loaded.debug = nil, nil",
    ["debug.getinfo"] = "debug.getinfo = nil" } do
    it("may have removed " .. what .. ": then errors have no position", function()
      assert.equal("false\tbad argument", run(code .. [[

        local perf = require "perf"
        assert(tostring(perf.measure(function() end)):find "elapsed")
        local ok, message = pcall(perf.measure, 0)
        io.write(tostring(ok), "\t", (message:match "^bad argument"))]]))
    end)
  end

  it("may remove debug.getinfo later", function()
    assert.equal("bad argument", run [[
      local perf = require "perf"
      pcall(perf.measure, 0)
      debug.getinfo = nil
      local _, message = pcall(perf.measure, 0)
      io.write((message:match "bad argument"))]])
  end)

  it("may clear package.loaded.perf", function()
    local output = run [[
      local perf = require "perf"
      package.loaded.perf = nil
      perf.help(perf.measure)
      local ok, message = pcall(perf.help, 1)
      io.write(message)]]
    assert.matches("perf.measure([events,] fn, ...)", output, 1, true)
    assert.matches("a name or an object of this library expected, got number", output, 1, true)
  end)
end)
