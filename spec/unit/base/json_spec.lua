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

  it("writes null for values that JSON lacks", function()
    assert.equal("[null,null,null]", json.encode { 0 / 0, 1 / 0, -1 / 0 })
    assert.equal("null", json.encode(nil))
  end)

  it("escapes strings", function()
    assert.equal([["a\"b\\c\n\t\u0001\u007f"]], json.encode 'a"b\\c\n\t\1\127')
    assert.equal('"\195\164"', json.encode "\195\164")
  end)

  it("quotes any bytes as JSON in UTF-8", function()
    assert.equal([["a\"b\\c\n\r\t\u0001\u007f"]], json.quote 'a"b\\c\n\r\t\1\127')
    assert.equal('"grün €\240\159\153\130"', json.quote "grün €\240\159\153\130")
    for bad, good in pairs { ["\255"] = 1, ["a\195"] = 1, ["\192\128"] = 2, ["\237\160\128"] = 3, ["\244\144\128\128"] = 4,
      ["\224\128\128"] = 3, ["\240\159\153"] = 3, ["\128x"] = 1 } do
      local _, n = json.quote(bad):gsub("\239\191\189", "")
      assert.equal(good, n, bad)
    end
  end)

  it("tells arrays from objects, and sorts keys", function()
    assert.equal('[1,[2],{"a":3}]', json.encode { 1, { 2 }, { a = 3 } })
    assert.equal('{"a":1,"b":{"c":true}}', json.encode { b = { c = true }, a = 1 })
    assert.equal("{}", json.encode {})
    assert.equal("[]", json.encode(json.empty_array))
  end)

  it("raises for values that JSON cannot represent", function()
    assert.has_error(function() json.encode { print } end, "cannot encode a function as JSON")
  end)
end)

describe("decoded JSON", function()
  it("has every kind of value", function()
    assert.same({ 1, -2.5, 1e3, "a\"\\/\b\f\n\r\t\226\130\172\240\159\148\165", true, false, { x = { {} } } },
      json.decode [=[ [1, -2.5, 1e3, "a\"\\\/\b\f\n\r\t\u20ac\ud83d\udd25", true, false, {"x": [[]]}] ]=])
    assert.is_nil(json.decode "null")
    assert.same({ a = 1 }, json.decode '{"a": 1, "b": null}')
    assert.same({ 1, 2, 3 }, json.decode "[1,2, 3]")
  end)

  it("is refused for text that is not JSON", function()
    for _, text in ipairs { "", "[", "[1", "[1,]x", '"a', '"\\q"', '"\\u12"', "{1:2}", '{"a" 1}', '{"a":1', "nul", "1 2", "--1",
      ("["):rep(1000) } do
      local v, message, code = json.decode(text)
      assert.is_nil(v)
      assert.matches("^byte %d+: ", message)
      assert.equal("EBADMSG", code)
    end
  end)
end)
