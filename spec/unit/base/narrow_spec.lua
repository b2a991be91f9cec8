-- Text for a narrow terminal: no line is wider than it, and the least important parts are lost first. Without a terminal nothing
-- changes.
local core = require "perf.core"
local format = require "perf.base.format"
local kit = require "testkit"
local perf = require "perf"
local utf8 = require "perf.base.utf8"

describe("on a terminal of 40 columns", function()
  local size, destination
  before_each(function()
    size, destination = core.terminal_size, format.destination
    core.terminal_size = function(fd) return fd == 1 and 24 or 0, fd == 1 and 40 or 0 end
    format.destination = 1
  end)
  after_each(function()
    core.terminal_size, format.destination = size, destination
    kit.setenv "COLUMNS"
  end)

  local function fits(text)
    for line in (text .. "\n"):gmatch "([^\n]*)\n" do assert.is_true(#line <= 40, line) end
    return text
  end

  it("$COLUMNS counts if it has fewer columns, or without a terminal", function()
    for text, columns in pairs { ["30"] = { 30, 30 }, ["60"] = { 40, 60 }, ["5"] = { 20, 20 }, ["0"] = { 40 }, ["4x"] = { 40 },
      [""] = { 40 } } do
      kit.setenv("COLUMNS", text)
      assert.equal(columns[1], format.text_for(1, format.columns), text)
      assert.equal(columns[2], format.text_for(2, format.columns), text)
      assert.is_nil(format.text_for(false, format.columns))
    end
  end)

  it("a path loses its first directories, and another name its middle", function()
    assert.equal("app.lua:12 f", format.shorten("app.lua:12 f", 12))
    assert.equal(".../lib/app.lua:12 run", format.shorten("/usr/share/very/long/lib/app.lua:12 run", 22))
    assert.equal("run .../app.lua:12", format.shorten("run /usr/share/very/long/app.lua:12", 18))
    assert.equal("run app.lua:12", format.shorten("run /usr/share/very/long/app.lua:12", 14))
    assert.equal("a_ve..._name", format.shorten("a_very_long_and_dull_name", 12))
    assert.equal("\195\164\195\164...\195\164\195\164\195\164", format.shorten(("\195\164"):rep(20), 8))
  end)

  -- The story: the name of a file without a directory lost the number of its line, so that rows were the same; and a cell was
  -- shortened to a number of characters, of which some take two columns.
  it("a name keeps the number of its line", function()
    assert.equal("a_r....lua:123 handler_2", format.shorten("a_rather_long_name.lua:123 handler_2", 24))
    assert.equal("main chu..._name.lua:12", format.shorten("main chunk a_rather_long_name.lua:12", 23))
    assert.equal("app.lua:7 a_...name", format.shorten("app.lua:7 a_rather_long_name", 19))
  end)

  it("a wide character counts as two columns, and a mark as none", function()
    local wide, mark = "\230\151\165", "\204\136"
    assert.equal(20, utf8.columns(wide:rep(10)))
    assert.equal(3, utf8.columns("a" .. mark .. "o" .. mark .. "\255"))
    for n = 8, 30 do
      for _, text in ipairs { wide:rep(40), "/" .. wide:rep(20) .. "/" .. wide .. ".lua:12",
        wide:rep(20) .. ".lua:12 " .. wide:rep(9), ("a" .. mark):rep(40), wide:rep(12) .. "\255\254" .. wide } do
        assert.is_true(utf8.columns(format.shorten(text, n)) <= n, n .. ": " .. text)
      end
    end
    local text = format.align({ { "1", wide:rep(2), "x" }, { "2", "abcd", "y" } })
    assert.equal("1  " .. wide:rep(2) .. "  x\n2  abcd  y", text)
  end)

  it("a table keeps its numbers, and loses columns in the order that its maker says", function()
    local rows = { { "self", "%", "Lua line" }, { "1,234.567 ms", "99.9", "/usr/share/lua/5.1/some/app.lua:12 handler" } }
    local steps = { { 3, 16 }, { 1, 0 }, { 3, 8 } }
    assert.equal("        self     %  Lua line\n1,234.567 ms  99.9  app.lua:12 handler",
      fits(format.align(rows, { true, true }, steps)))
    core.terminal_size = function() return 24, 30 end
    local text = format.align(rows, { true, true }, steps)
    assert.matches("^self %%  Lua line\n  99%.9  %.%.%./app%.lua:12 handler$", text)
    assert.equal("/usr/share/lua/5.1/some/app.lua:12 handler", rows[2][3]) -- the rows are unchanged
  end)

  it("what the library prints fits", function()
    local path = os.tmpname()
    local file = assert(io.open(path, "w"))
    local frames = "/usr/share/lua/5.1/a/long/path/app.lua:12 handler;/usr/share/lua/5.1/a/long/path/app.lua:300 deeper"
    file:write(frames, " 900\n", (frames:gsub("deeper", "other")), " 50\n")
    file:close()
    local prof = assert(perf.load(path))
    os.remove(path)
    for _, object in ipairs { prof, prof:tree(), prof:callers "deeper", prof:diff(prof), prof:samples(), prof:samples()[1],
      perf.list "page", perf.features(), (perf.measure(function() end)),
      perf.bench(function() end, { repeats = 3, min_time = 0 }), perf.heap() } do
      fits(tostring(object))
    end
    fits((require "perf.api.help".text "bench"):gsub("^[^\n]*\n", ""))
    assert.matches("94%.7 .*app%.lua:300 deeper", tostring(prof):gsub("\n", " "))
  end)

  it("text for a file is not shortened", function()
    local rows = { { ("x"):rep(100) } }
    assert.equal(("x"):rep(100), format.text_for(false, format.align, rows))
    assert.equal(("x"):rep(100), format.text_for(2, format.align, rows))
    assert.equal(37 + 3, #format.align(rows))
  end)
end)
