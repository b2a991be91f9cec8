-- luaperf's messages: errors on one line, and progress if stderr is a terminal.
local argument = require "perf.base.argument"
local core = require "perf.core"

local M = {}

-- An error of a module as a message for the user: without the position in the source, the argument's number, and the option with
-- the events, which the user gave as -e.
function M.plain(err)
  return (argument.why(err):gsub("^%S+%.lua:%d+: ", ""):gsub("^option 'events': ", ""))
end

-- Write "luaperf: ..." to stderr.
function M.error(err)
  local text = M.plain(err)
  local list = text:find ": unknown event$" and "; luaperf list shows the events of this machine" or ""
  io.stderr:write("luaperf: ", text, list, "\n")
end

-- Write all of a text to stdout.
-- @return true; or nil, message, code
function M.write(text)
  local ok, message = io.stdout:write(text)
  if ok then ok, message = io.stdout:flush() end
  if ok then return true end
  return nil, "stdout: " .. message, "EIO"
end

-- Whether to write colours to stdout: it is a terminal with colours, and NO_COLOR is not set (no-color.org).
function M.has_colours()
  return (os.getenv "NO_COLOR" or "") == "" and os.getenv "TERM" ~= "dumb" and core.is_terminal(1)
end

-- Whether stderr is a terminal.
function M.watched() return core.is_terminal(2) end

-- Show a line that the next one replaces; nil removes it. Does nothing if stderr is not a terminal.
function M.progress(text)
  if not M.watched() then return end
  io.stderr:write(text and "\r" .. text .. "\27[K" or "\r\27[K")
  io.stderr:flush()
end

-- The progress of work that may be long: a function for the work to call repeatedly, which shows a text with the seconds that the
-- work has taken, from the first one on. nil if stderr is not a terminal. M.progress() removes the line.
function M.slow(text)
  if not M.watched() then return nil end
  local began, shown = core.wall_ns(), 0
  return function()
    local seconds = math.floor((core.wall_ns() - began) / 1e9)
    if seconds <= shown then return end
    shown = seconds
    M.progress(("%s: %d s"):format(text, seconds))
  end
end

return M
