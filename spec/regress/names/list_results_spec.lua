-- The story: `=perf.list "fault"` in a REPL, as the manual shows it, printed "nil nil" below the table. Those were the message
-- and the code, which only an empty list has.
local perf = require "perf"

describe("perf.list", function()
  it("returns the list alone if there is no reason to give", function()
    assert.equal(1, select("#", perf.list "page-faults"))
    assert.equal(1, select("#", perf.list "software"))
  end)
end)
