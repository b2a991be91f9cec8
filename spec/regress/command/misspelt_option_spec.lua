-- The story: `luaperf record --outptu x` answered only that the option is unknown. CONTRIBUTING.md promises that the right
-- spelling is suggested for the options of a command, as for commands, events and the options of functions.
local options = require "perf.command.options"

local rows = { { "events", "string", "what", short = "e", long = "event", arg = "EVENTS" },
  { "output", "string", "where", short = "o", arg = "FILE" }, { "g", "boolean", "short", short = "g", long = false } }

it("a misspelt long option of luaperf is answered with the nearest", function()
  for word, message in pairs { ["--evnt"] = "unknown option '--evnt'; did you mean '--event'?",
    ["--outptu=x"] = "unknown option '--outptu=x'; did you mean '--output'?",
    ["--hlep"] = "unknown option '--hlep'; did you mean '--help'?",
    ["--native"] = "unknown option '--native'", ["--=x"] = "unknown option '--=x'" } do
    local opts, wrong = options.parse(rows, { word }, 1)
    assert.is_nil(opts)
    assert.equal(message, wrong)
  end
end)
