-- The story: an ordinary user, who may not read tracefs, misspelt an event with a modifier, `page-fautls:u`. The message took the
-- name for a tracepoint, and told how root could make tracefs readable.
local golden = require "spec.support.golden"

describe("where tracefs cannot be read, a name with modifiers", function()
  local m

  setup(function() m = golden.machines() end)
  teardown(function() golden.remove(m) end)

  it("that is like an event's is a mistake, with similar names", function()
    golden.fails(m.deaf, "page-fautls:u", "page-fautls:u: unknown event; did you mean 'page-faults'?")
    golden.fails(m.deaf, "cylces:pp", "did you mean 'cycles'?")
    golden.fails(m.deaf, "software:u", "a PMU, not an event: software/EVENT/")
    golden.fails(m.deaf, "duration_time:u", "an event of the perf command, not of the kernel")
  end)

  it("that is like none may be a tracepoint", function()
    golden.refused(m.deaf, "nosuch:u", "ENOENT", "no tracepoints can be looked up")
  end)
end)
