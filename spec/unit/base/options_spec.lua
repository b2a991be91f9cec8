-- Declared options, and the messages about mistakes in them.
local options = require "perf.base.options"

local check = options.define({
  rate = { "number", integer = true, least = 1, excludes = { "period" } }, period = { "number", above = 0, unset = -1 },
  pages = { "number", integer = true, least = 1, most = 64, default = 8 },
  mode = { "boolean|string", oneof = { "fp", "dwarf", "lbr" } },
  path = { check = function(v) return v == "" and "a path expected" or nil end },
}, { pid = "number", cpu = "number", path = "string" })

local function says(message, opts)
  local ok, err = pcall(check, opts, 2)
  assert.is_false(ok)
  assert.equal(message, err:match "%((.*)%)$")
end

describe("declared options", function()
  it("are returned with their defaults, in a new table", function()
    assert.same({ pages = 8 }, check(nil, 2))
    local opts = { rate = 1, mode = "fp", pid = 3, path = 7 }
    local result = check(opts, 2)
    assert.same({ rate = 1, mode = "fp", pid = 3, path = 7, pages = 8 }, result)
    assert.is_nil(opts.pages)
    assert.equal(5, check(setmetatable({}, { __index = { rate = 5 } }), 2).rate)
  end)

  it("raise for a value that is not a table, and for unknown names with the nearest one", function()
    says("table of options expected, got string", "x")
    says("unknown option 'prid'; did you mean 'pid'?", { prid = 1 })
    says("unknown option 'zzzzzz'", { zzzzzz = 1 })
    says("unknown option '1'", { 1 })
  end)

  it("raise for a wrong type, number or string", function()
    says("option 'pid': number expected, got string", { pid = "1" })
    says("option 'mode': boolean or string expected, got number", { mode = 1 })
    says("option 'mode': \"fp\", \"dwarf\" or \"lbr\" expected", { mode = "x" })
    says("option 'rate': whole number of at least 1 expected, got 0", { rate = 0 })
    says("option 'rate': whole number of at least 1 expected, got 1.5", { rate = 1.5 })
    says("option 'pages': whole number from 1 to 64 expected, got 65", { pages = 65 })
    says("option 'period': number above 0 expected, got 0", { period = 0 })
    says("option 'period': number above 0 expected, got " .. tostring(0 / 0), { period = 0 / 0 })
    says("option 'path': a path expected", { path = "" })
  end)

  it("raise for options that exclude each other", function()
    says("options 'rate' and 'period' exclude each other", { rate = 1, period = 2 })
    assert.equal(1, check({ rate = 1 }, 2).rate)
  end)

  it("can be derived with an option less, and can require an option", function()
    local without = options.define({ pid = false }, { pid = "number", cpu = "number" })
    assert.has_error(function() without({ pid = 1 }, 1) end)
    local function check_by(v) return v == nil and "a field expected" or nil end
    local needs = options.define { by = { required = true, check = check_by } }
    assert.error_matches(function() needs({}, 1) end, "option 'by': a field expected")
    assert.error_matches(function() needs(nil, 1) end, "table of options expected, got nil")
  end)
end)
