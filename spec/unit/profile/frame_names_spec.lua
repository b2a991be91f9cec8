local text = require "perf.profile.report.frame_names"

describe("perf.profile.report.frame_names", function()
  it("keeps valid UTF-8 and shows the bytes of invalid UTF-8", function()
    local euro, fire = "\226\130\172", "\240\159\148\165"
    for given, wanted in pairs { plain = "plain", [euro .. fire] = euro .. fire, ["a\255b"] = "a\\xffb",
      ["\192\128"] = "\\xc0\\x80", ["\237\160\128"] = "\\xed\\xa0\\x80", ["\244\144\128\128"] = "\\xf4\\x90\\x80\\x80",
      ["\226\130"] = "\\xe2\\x82", [fire .. "\240\159"] = fire .. "\\xf0\\x9f", ["\224\159\191"] = "\\xe0\\x9f\\xbf" } do
      assert.equal(wanted, text.utf8(given))
    end
  end)

  it("isolates right-to-left names, so that numbers beside them keep their places", function()
    local shin = "\215\169"
    local isolated = "\226\129\168" .. shin .. "\226\129\169"
    assert.equal(isolated .. " a.lua:12", text.title { func = shin, file = "a.lua", line = 12 })
    assert.equal("\226\130\172 a.lua", text.title { func = "\226\130\172", file = "a.lua" })
    assert.equal(isolated, text.title { name = shin })
  end)

  it("puts a name on one line", function()
    assert.equal("a\\nb c\\x00\\x1b", text.line "a\nb\tc\0\27")
  end)

  it("shows amounts in their unit", function()
    assert.equal("1.500 ms", text.amount(1.5e6, "ns"))
    assert.equal("-1.500 ms", text.amount(-1.5e6, "ns"))
    assert.equal("1,234,567", text.amount(1234567, ""))
    assert.equal("50.0", text.percent(1, 2))
    assert.equal("-", text.percent(0, 0))
    assert.equal(0, text.number(nil))
    assert.equal(16, text.number "0x10")
  end)
end)
