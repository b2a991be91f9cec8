-- Declared options, and the messages about mistakes in them.
local checks = require "perf.api.check"

local check = checks.options({
  { "rate", "integer", "", least = 1, excludes = { "period" } }, { "period", "number", "", above = 0, unset = -1 },
  { "pages", "integer", "", least = 1, most = 64, default = 8 },
  { "mode", "boolean|string", "", oneof = { "fp", "dwarf", "lbr" } },
  { "path", "string", "", any = true }, { "pid", "number", "" }, { "limits", "{table,...}|boolean", "", options = {
    { "spans", "integer", "", default = 9 } } },
}, { path = function(v) return v == "" and "a path expected" or nil end })

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
    says("a table of options has a name for each value, but [1] has none; there are limits, mode, pages, path, period, "
      .. "pid, rate", { 1 })
  end)

  it("raise for a wrong type, number or string", function()
    says("option 'pid': number expected, got string", { pid = "1" })
    says("option 'mode': boolean or string expected, got number", { mode = 1 })
    says("option 'mode': \"fp\", \"dwarf\" or \"lbr\" expected", { mode = "x" })
    says("option 'mode': \"fp\", \"dwarf\" or \"lbr\" expected; did you mean 'dwarf'?", { mode = "dwraf" })
    says("option 'rate': positive integer expected, got 0", { rate = 0 })
    says("option 'rate': positive integer expected, got 1.5", { rate = 1.5 })
    says("option 'pages': whole number from 1 to 64 expected, got 65", { pages = 65 })
    says("option 'period': number above 0 expected, got 0", { period = 0 })
    says("option 'period': number above 0 expected, got " .. tostring(0 / 0), { period = 0 / 0 })
    says("option 'path': a path expected", { path = "" })
  end)

  it("raise for options that exclude each other", function()
    says("options 'rate' and 'period' exclude each other", { rate = 1, period = 2 })
    assert.equal(1, check({ rate = 1 }, 2).rate)
  end)

  it("may be tables with options of their own", function()
    assert.same({ spans = 9 }, check({ limits = {} }, 2).limits)
    assert.is_true(check({ limits = true }, 2).limits)
    says("option 'limits': table or boolean expected, got number", { limits = 1 })
    says("option 'limits': unknown option 'span'; did you mean 'spans'?", { limits = { span = 1 } })
    says("option 'limits.spans': whole number expected, got 0.5", { limits = { spans = 0.5 } })
  end)

  it("can be required", function()
    local needs = checks.options { { "by", "string", "", required = true } }
    assert.error_matches(function() needs({}, 1) end, "option 'by': string expected")
    assert.error_matches(function() needs(nil, 1) end, "table of options expected, got nil")
    needs = checks.options { { "by", "string", "", required = true, any = true } }
    assert.error_matches(function() needs({}, 1) end, "option 'by' expected")
  end)
end)

describe("the options of the public functions", function()
  it("are rows that a check can be made from, with a help text", function()
    for name, rows in pairs(require "perf.api.options") do
      local known = checks.rows(name)
      for _, row in ipairs(rows) do
        assert.is_truthy(row[1]:find "^[%l_]+$" and row[2] ~= "" and #row[3] > 0, name)
        for _, other in ipairs(row.excludes or {}) do assert.is_table(known[other]) end
      end
      assert.error_matches(function() checks.options(rows)({ ["?"] = 1 }, 1) end, "unknown option")
    end
  end)
end)
