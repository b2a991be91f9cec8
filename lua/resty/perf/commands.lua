-- Commands that one worker gets while nginx runs, and that reach the other workers through the shared dictionary.
--
-- A command stays there for later workers, after a crash or a reload, as long as nginx.conf has the same options as when it was
-- given.
local M = {}

local seen = 0

-- Leave a command for the other workers.
-- @param dict ngx.shared.DICT
-- @param mark of the configuration
-- @param command {stop=true}, or {events=text, sample=number}
function M.publish(dict, mark, command)
  dict:safe_add("commands", 0)
  local n = dict:incr("commands", 1)
  if not n then return end
  seen = n
  local parts = { n, mark, command.stop and "stop" or "start", command.sample or "-", command.events or "" }
  dict:set("command", table.concat(parts, " "))
end

-- The newest command, if this worker has not seen it; nil otherwise.
function M.newest(dict, mark)
  local text = dict:get "command"
  if not text then return nil end
  local n, of, what, sample, events = text:match "^(%d+) (%d+) (%a+) (%S+) (.*)$"
  n = tonumber(n)
  if not n or n == seen then return nil end
  seen = n
  if tonumber(of) ~= mark then return nil end
  return { stop = what == "stop" or nil, sample = tonumber(sample), events = events ~= "" and events or nil }
end

return M
