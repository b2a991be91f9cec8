-- The rows of the public names, and `perf` as it is filled from them.
local api = require "perf.api"
local util = require "spec.support.util"

-- The output of a new interpreter that has run nothing else.
local function fresh(code)
  local text
  util.with_tmpname(function(path)
    local file = assert(io.open(path, "w"))
    file:write(code)
    file:close()
    local output, status = util.shell(util.lua() .. " " .. path)
    assert.equal(0, status, output)
    text = output:gsub(path:gsub("%p", "%%%0"), "FILE")
  end)
  return text
end

describe("perf", function()
  it("has every name of the table before any is used", function()
    local names = {}
    for name in fresh('for name, value in pairs(require "perf") do print(name, type(value)) end'):gmatch "%S+" do
      names[name] = true
    end
    for _, group in ipairs(api) do
      if group.name then
        assert.is_true(names[group.name], group.name)
      else
        for _, row in ipairs(group) do assert.is_true(names[row[1]], row[1]) end
      end
    end
  end)

  it("is filled from the same names", function()
    local found, expected = {}, {}
    for i, row in ipairs(require "perf.api.names") do found[i] = table.concat(row, " ") end
    for i, group in ipairs(api) do
      local words = { group.module }
      for _, row in ipairs(group) do words[#words + 1] = row[1] end
      words[#words + 1] = group.name
      expected[i] = table.concat(words, " ")
    end
    assert.same(expected, found)
  end)

  it("loads at first only the modules for measuring", function()
    local output = fresh('require "perf" for name in pairs(package.loaded) do print(name) end')
    for module in ("names doctor bench profile trace pool data symbols api api.help api.classes api.strict base.format event "
      .. "event.group event.open event.refusal.causes kernel.host counts.arithmetic"):gmatch "%S+" do
      assert.is_nil(output:find("perf." .. module .. "\n", 1, true), module)
    end
  end)

  it("loads few further modules for a first measurement", function()
    local output = fresh('require "perf".measure(function() end) for name in pairs(package.loaded) do print(name) end')
    assert.matches("perf.measure.open_list\n", output, 1, true)
    local plain = _VERSION == "Lua 5.1" and not jit -- its Counts are tables from the start
    for module in ("event event.open event.group measure.requested measure.abandoned event.watch"
      .. (plain and "" or " counts counts.readings")):gmatch "%S+" do
      assert.is_nil(output:find("perf." .. module .. "\n", 1, true), module)
    end
  end)

  it("has functions that agree with the table", function()
    local perf = require "perf"
    for _, group in ipairs(api) do
      local ok, module = pcall(require, "perf." .. group.module)
      local place, known = group.name and perf[group.name] or perf, {}
      for _, row in ipairs(group) do
        known[row[1]] = true
        assert.equal("function", type(place[row[1]]), row[1])
        assert.is_truthy(row[2]:find "^%(.*%)$" and row[3]:find "%.$", row[1])
        if ok and module.available ~= false then assert.equal("function", type(module[row[1]]), row[1]) end
      end
      if group.name == "pfm" then known.find = true end -- for the parser of events
      for name, value in pairs(group.name and ok and module or {}) do
        assert.is_true(type(value) ~= "function" or known[name], name)
      end
    end
  end)

  it("replaces a stub at its first call, and a stub that was kept goes on working", function()
    local output = fresh [[
      local perf = require "perf"
      local paranoid, open = perf.paranoid, perf.data.open
      assert(paranoid() == perf.paranoid() and paranoid ~= perf.paranoid and paranoid() == paranoid())
      assert(perf.paranoid == require "perf.doctor.features".paranoid)
      local data = perf.data
      local file, message, code = perf.data.open "/nowhere/perf.data"
      assert(not file and message and code == "ENOENT")
      assert(perf.data == require "perf.data" and data ~= perf.data)
      assert(select(3, data.open "/nowhere/perf.data") == "ENOENT" and select(3, open "/nowhere/perf.data") == "ENOENT")
      data.mine = 1
      assert(perf.data.mine == 1 and data.mine == 1)
      perf.tally = "mine"
      assert(perf.tally == "mine")
      io.write "done"
    ]]
    assert.equal("done", output)
  end)

  -- The story: the modules that are loaded at their first use were empty tables until then, and a REPL did not complete their
  -- names.
  it("has all names for a REPL's completion before their first use", function()
    local output = fresh [[
      local perf = require "perf"
      for _, row in ipairs(require "perf.api.names") do
        local found, module = {}, row[3]
        for name in pairs(module and perf[module] or perf) do found[name] = true end
        for name in row[2]:gmatch "%S+" do assert(found[name], name) end
      end
      io.write "done"
    ]]
    assert.equal("done", output)
  end)

  it("raises an error of a first call at the caller's line", function()
    local output = fresh [[
      local perf = require "perf"
      local _, message = pcall(function()
        local set = perf.set({}, 3)
      end)
      io.write(message)
    ]]
    assert.is_truthy(output:find("bad argument #2 to 'set'", 1, true), output)
    if _VERSION ~= "Lua 5.1" or _G.jit then assert.is_truthy(output:find("FILE:3:", 1, true), output) end
  end)

  it("raises an error for an unknown name", function()
    local perf = require "perf"
    local function message_of(name)
      local ok, message = pcall(function() return perf[name] end)
      assert.is_false(ok)
      return (message:gsub("^.-:%d+: ", ""))
    end
    assert.equal("perf has no 'mesure'; did you mean 'measure'?", message_of "mesure")
    assert.equal("perf has no 'qqqqqqqq'", message_of "qqqqqqqq")
    assert.is_truthy(select(2, pcall(function() return perf.mesure end)):find "^.*api_spec.lua:%d+: perf has no")
    assert.is_nil(rawget(perf, "mesure"))
    for _, name in ipairs { "__index", "_protocol", 1, true } do assert.is_nil(perf[name]) end
  end)
end)

describe("the description of a DataFile's features", function()
  it("names each feature that the library reads, and no other", function()
    local named, text = {}, nil
    for _, class in ipairs(require "perf.api.classes") do
      for _, row in ipairs(class.class == "DataFile" and class.fields or {}) do
        text = row[1] == "features" and row[3] or text
      end
    end
    for name in text:gmatch "`([%l_]+)`" do named[name] = true end
    for _, feature in ipairs(require "perf.core".data_features()) do
      assert.is_true(named[feature.name], feature.name)
      named[feature.name] = nil
    end
    assert.same({}, named)
  end)
end)
