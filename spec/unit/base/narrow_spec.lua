-- Text for a narrow terminal: no line is wider, and what is lost is what says least. Without a terminal nothing changes.
local core = require "perf.core"
local format = require "perf.base.format"
local perf = require "perf"

describe("on a terminal of 40 columns", function()
  local size, destination
  before_each(function()
    size, destination = core.terminal_size, format.destination
    core.terminal_size = function(fd) return fd == 1 and 24 or 0, fd == 1 and 40 or 0 end
    format.destination = 1
  end)
  after_each(function() core.terminal_size, format.destination = size, destination end)

  local function fits(text)
    for line in (text .. "\n"):gmatch "([^\n]*)\n" do assert.is_true(#line <= 40, line) end
    return text
  end

  it("a path loses its first directories, and another name its middle", function()
    assert.equal("app.lua:12 f", format.shorten("app.lua:12 f", 12))
    assert.equal(".../lib/app.lua:12 run", format.shorten("/usr/share/very/long/lib/app.lua:12 run", 22))
    assert.equal("run .../app.lua:12", format.shorten("run /usr/share/very/long/app.lua:12", 18))
    assert.equal("run app.lua:12", format.shorten("run /usr/share/very/long/app.lua:12", 14))
    assert.equal("a_ve..._name", format.shorten("a_very_long_and_dull_name", 12))
    assert.equal("\195\164\195\164...\195\164\195\164\195\164", format.shorten(("\195\164"):rep(20), 8))
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
