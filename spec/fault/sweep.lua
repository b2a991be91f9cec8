--- Runs rows in which something fails at each of its places, and collects the outcomes.
local inject = require "spec.fault.inject"
local rows = require "spec.fault.rows"

local Sweep = {}
Sweep.__index = Sweep

-- @string what the failing operation
-- @string told "told" or "raised": whether a refusal is returned or raised
function Sweep.new(what, told)
  return setmetatable({ what = what, told = told, rows = rows, faults = 0, refused = 0, survived = 0 }, Sweep)
end

--- Tries a row.
-- @func fail(trial, row) makes it fail
-- @return what was wrong: an empty array
function Sweep:try(row, fail)
  local t = inject.trial(row)
  fail(t, row)
  for _, k in ipairs { "faults", "refused", "survived" } do self[k] = self[k] + t[k] end
  return t:finish()
end

--- The end: prints the number of trials, and removes the files that the rows made.
function Sweep:finish()
  io.write(("%s: %d; %s: %d, survived: %d\n"):format(self.what, self.faults, self.told, self.refused, self.survived))
  rows.teardown()
end

return Sweep
