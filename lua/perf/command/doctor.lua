-- luaperf doctor: shows what works on this machine, what does not, and how to change that.
local terminal = require "perf.command.terminal"

local M = {}

M.about = "show what works on this machine, what does not, why, and what would change it"
M.usage = "luaperf doctor"
M.text = "Shows what works on this machine, what does not, why, and what would change it."
M.options = {}

-- Run the command. @return exit status; or nil, message, code
function M.run(_, words)
  if #words > 0 then return nil, "luaperf doctor takes no arguments", "USAGE" end
  local text = require "perf".doctor():text { colour = terminal.has_colours() }
  local done, message, code = terminal.write(text .. "\n")
  return done and 0, message, code
end

return M
