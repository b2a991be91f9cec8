local json = require "perf.base.json"

describe("json", function()
  it("keeps every digit of integers", function()
    assert.equal("9007199254740992", json.encode(2 ^ 53))
    assert.equal("1790000000123456", json.encode(1790000000123456))
    assert.equal("-1", json.encode(-1))
    assert.equal("0", json.encode(0))
  end)

  it("keeps LuaJIT's 64-bit integers", function()
    requires { jit = true }
    local ffi = require "ffi"
    assert.equal("18446744073709551615", json.encode(ffi.cast("uint64_t", ffi.cast("int64_t", -1))))
    assert.equal("-9223372036854775808", json.encode(ffi.cast("int64_t", -2 ^ 63)))
  end)

  it("prints fractions so that they read back the same", function()
    assert.equal(0.1, tonumber(json.encode(0.1)))
    assert.equal(1 / 3, tonumber(json.encode(1 / 3)))
  end)

  it("has null for what JSON lacks", function()
    assert.equal("[null,null,null]", json.encode { 0 / 0, 1 / 0, -1 / 0 })
    assert.equal("null", json.encode(nil))
  end)

  it("escapes strings", function()
    assert.equal([["a\"b\\c\n\t\u0001\u007f"]], json.encode 'a"b\\c\n\t\1\127')
    assert.equal('"\195\164"', json.encode "\195\164")
  end)

  it("tells arrays from objects, and sorts keys", function()
    assert.equal('[1,[2],{"a":3}]', json.encode { 1, { 2 }, { a = 3 } })
    assert.equal('{"a":1,"b":{"c":true}}', json.encode { b = { c = true }, a = 1 })
    assert.equal("{}", json.encode {})
    assert.equal("[]", json.encode(json.empty_array))
  end)

  it("raises for what is no data", function()
    assert.has_error(function() json.encode { print } end, "cannot encode a function as JSON")
  end)
end)
