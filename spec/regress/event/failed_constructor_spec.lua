-- The story: on a kernel without kprobes, perf.open(perf.kprobe {...}) raised "bad argument #2 to 'open' (table of options
-- expected, got string)": the constructor had returned nil and its message.
local perf = require "perf"

describe("the results of a constructor that failed", function()
  it("are a wrong first argument", function()
    for name, expected in pairs { open = "event name or table", group = "array of events", set = "event name or table" } do
      local ok, message = pcall(perf[name], nil, "kprobe: not here", "ENOENT")
      assert.is_false(ok)
      assert.matches(("bad argument #1 to '%s' (%s expected, got nil)"):format(name, expected), message, 1, true)
    end
  end)
end)
