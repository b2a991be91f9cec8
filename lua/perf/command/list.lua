-- luaperf list: the events of this machine.
local M = {}

M.about = "list the events of this machine"
M.usage = "luaperf list [PATTERN]"
M.text = [[
Lists the events that have a name. PATTERN is part of a name, a glob over the whole name, or a kind: hardware, software, cache,
pmu, tracepoint, raw, breakpoint.]]
M.mixed = true
M.options = {}

-- Run the command. @return exit status; or nil, message, code
function M.run(_, words)
  if #words > 1 then return nil, "luaperf list takes one pattern", "USAGE" end
  local rows = require "perf".list(words[1])
  if #rows == 0 then return nil, ("no event matches '%s'"):format(words[1] or ""), "ENOENT" end
  local ok, message, code = require "perf.command.terminal".write(tostring(rows) .. "\n")
  return ok and 0, message, code
end

return M
