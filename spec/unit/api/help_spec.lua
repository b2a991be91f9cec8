-- perf.help prints what the rows say.
local perf = require "perf"

local help = require "perf.api.help".text

describe("perf.help", function()
  it("without an argument lists functions, modules and classes", function()
    local text = help()
    for _, name in ipairs { "perf.measure ", "perf.open ", "perf.data.* ", "Event", "Counts" } do
      assert.is_truthy(text:find(name, 1, true), name)
    end
    assert.equal(text, help(perf))
  end)

  it("of a name shows every function and method of that name", function()
    assert.is_truthy(help "measure":find("^perf%.measure%(%[events,%] fn, %.%.%.%)\n  Run a function"))
    assert.is_truthy(help "measure":find("Event:measure(fn, ...)", 1, true))
    assert.equal(help "perf.bench", help "bench")
    assert.equal(help "Event:read", help "Event.read")
    assert.is_nil(help "data.open":find "symbols")
    assert.is_truthy(help "data":find("perf.data.create(path, options)", 1, true))
    assert.is_truthy(help "Event":find("Event:set_filter(text)", 1, true))
  end)

  it("has the options of a function and the fields of a class", function()
    local text = help "perf.tracer"
    assert.is_truthy(text:find('%f[%w]delay +number: seconds [^\n]-%s+OTEL_BSP_SCHEDULE_DELAY in%s+milliseconds or 5%)'), text)
    assert.is_truthy(text:find("\n    limits.events +integer: "), text)
    assert.is_truthy(help "Event:map":find("pages +integer: [^\n]-%(default: 128%)"))
    assert.is_truthy(help "Profile":find("\nFields:\n  event +string: "))
    for line in text:gmatch "[^\n]+" do assert.is_true(#line <= 100, line) end
  end)

  it("of a value describes it", function()
    assert.equal(help "perf.set", help(perf.set))
    assert.equal(help "perf.measure", help(perf.measure))
    assert.equal(help "data", help(perf.data))
    assert.equal(help "Tally", help(perf.tally { by = "ip" }))
  end)

  it("prints", function()
    local printed, print_before = nil, print
    _G.print = function(text) printed = text end
    pcall(perf.help, "measure")
    _G.print = print_before
    assert.equal(help "measure", printed)
  end)

  it("of an unknown name raises an error", function()
    assert.error_matches(function() perf.help "mesure" end,
      "bad argument #1 to 'help' %(nothing is called 'mesure'; did you mean 'measure' or 'resume'%?%)")
    assert.error_matches(function() perf.help(3) end,
      "bad argument #1 to 'help' %(a name or an object of this library expected, got number%)")
  end)
end)
