-- Frames of Lua code. A frame's name is "FILE:LINE FUNCTION", or "FILE:FIRST-LAST FUNCTION" if compiled code ran one of several
-- lines.
local printed = require "perf.base.printed"

local M = {}

local kinds = { lua = true, range = true }

-- True for a frame of Lua code, and for a row of a report about one.
function M.is(frame) return kinds[frame.kind] or false end

-- @int[opt] lastline the last of several lines
-- @int[opt] linedefined the line where the function begins
function M.new(file, line, lastline, func, linedefined)
  local lines = lastline and ("%d-%d"):format(line, lastline) or tostring(line)
  return printed.table { name = ("%s:%s %s"):format(file, lines, func), func = func, file = file, line = line,
    lastline = lastline, linedefined = linedefined, kind = lastline and "range" or "lua" }
end

-- The frame that has this name; nil if it is not the name of Lua code.
function M.parse(name)
  local file, line, lastline, func = name:match "^(.-):(%d+)%-?(%d*) (.*)$"
  return file and M.new(file, tonumber(line), tonumber(lastline), func)
end

return M
