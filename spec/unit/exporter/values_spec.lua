local values = require "perf.exporter.values"

describe("perf.exporter.values", function()
  it("distinguishes integers and doubles, and keeps their digits", function()
    assert.same({ "int", "3" }, { values.number(3) })
    assert.same({ "int", "-9007199254740991" }, { values.number(-9007199254740991) })
    assert.same({ "double", "1.5" }, { values.number(1.5) })
    assert.same({ "double", '"NaN"' }, { values.number(0 / 0) })
    assert.same({ "double", '"-Infinity"' }, { values.number(-math.huge) })
    assert.equal("12345", values.count(12345))
    assert.equal("3", values.count(2.7))
  end)

  it("keeps 64 bits", function()
    if math.type then
      local most = math.tointeger(2 ^ 53) * 1024 - 1
      assert.same({ "int", "9223372036854775807" }, { values.number(most) })
      assert.equal("9223372036854775807", values.count(most))
    else
      requires { lua = "luajit" }
      local ffi = require "ffi"
      local function number(v) return { values.number(v) } end
      assert.same({ "int", "9223372036854775807" }, number(ffi.new("uint64_t", 2 ^ 63) - 1))
      assert.same({ "int", "-9223372036854775808" }, number(ffi.new("int64_t", -2 ^ 63)))
      assert.same({ "string", "9223372036854775808" }, number(ffi.new("uint64_t", 2 ^ 63)))
      assert.equal("1000000000000000000", values.count(ffi.new("uint64_t", 1e18)))
      assert.is_nil(values.count(ffi.new("uint64_t", 2 ^ 63)))
    end
  end)

  it("caches strings, and drops them when they are too many", function()
    local calls = 0
    local f = values.keep(function(s)
      calls = calls + 1
      return s .. s
    end)
    assert.equal("aa", f "a")
    assert.equal("aa", f "a")
    assert.equal(1, calls)
    for i = 1, 5000 do f(tostring(i)) end
    assert.equal("aa", f "a")
    assert.equal(5002, calls)
  end)
end)
