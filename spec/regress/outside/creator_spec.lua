-- The story: luaperf record -p PID --coroutines creator, a mistake in the options, ended with the status of a refusal by the
-- machine.
local luaperf = require "spec.support.luaperf"

it("luaperf record -p --coroutines creator is a mistake in the options", function()
  local output = luaperf.shell(".", "luaperf record -p $$ -o none.json --coroutines creator 2>&1; echo $?")
  assert.matches("^luaperf: %-%-coroutines creator: [^\n]+\n129\n$", output)
end)
