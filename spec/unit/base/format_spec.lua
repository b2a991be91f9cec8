local format = require "perf.base.format"

describe("format", function()
  it("groups digits", function()
    for v, text in pairs { [0] = "0", [999] = "999", [1000] = "1,000", [1234567] = "1,234,567", [-1234] = "-1,234",
      [0.5] = "0.50", [123456.789] = "123,456.79" } do
      assert.equal(text, format.commas(v))
    end
  end)

  it("chooses a unit of time", function()
    assert.equal("12 ns", format.ns(12))
    assert.equal("1.235 us", format.ns(1235))
    assert.equal("1.235 ms", format.ns(1234567))
    assert.equal("2.000 s", format.ns(2e9))
  end)

  it("chooses a prefix", function()
    assert.equal("1.50 K", format.si(1500))
    assert.equal("2.00 M", format.si(2e6))
    assert.equal("3.00 G", format.si(3e9))
    assert.equal("4.00 ", format.si(4))
  end)

  -- The reason of each event that a virtual machine lacks was a line of 200 characters, once for each event.
  it("shows the beginning of a long reason beside the event, and all of it once, in short lines, below the table", function()
    local why = "perf_event_open: No such file (" .. ("this machine has no such counter "):rep(5) .. ")"
    local entries = { { label = "cycles", why = why, unsupported = true }, { label = "instructions", why = why },
      { label = "branches", why = "not enabled" } }
    local text = format.counts(entries, 1, "software", {})
    assert.matches("^  <not supported>    cycles        # perf_event_open: No such file\n", text)
    assert.matches("\n    <not counted>    instructions  # perf_event_open: No such file\n", text)
    assert.matches("\n    <not counted>    branches      # not enabled\n\n  cycles, instructions: perf_event_open: No ", text)
    for line in text:gmatch "[^\n]+" do assert(#line <= 100, line) end
    local _, times = text:gsub("this machine", "")
    assert.equal(5, times)
  end)

  it("aligns columns without trailing spaces", function()
    assert.equal(" 1  a\n22  bbb\n 3", format.align({ { "1", "a" }, { "22", "bbb" }, { "3", "" } }, { true }))
  end)
end)
