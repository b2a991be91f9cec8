-- Commands that one worker gets while nginx runs, and that reach the other workers through the shared dictionary.
--
-- A command stays there for later workers, after a crash or a reload, as long as nginx.conf has the same options as when it was
-- given. It has the changes of all commands before it, since a worker may have missed those.
local M = {}

local seen = 0
local ROOM = 512

-- A dictionary that is full can still replace a value by one of the same length, so the length of commands is a multiple of
-- ROOM.
local function padded(text) return text .. (" "):rep(-#text % ROOM) end

-- Make room for a command, while there is some.
-- @param dict ngx.shared.DICT
function M.prepare(dict)
  dict:safe_add("commands", 0)
  dict:safe_add("command", (" "):rep(ROOM))
end

-- Leave a command for the other workers.
-- @param dict ngx.shared.DICT
-- @param mark of the configuration
-- @param command {stop=, events=text, sample=number, heap=number}
-- @return true; or nil and a message
function M.publish(dict, mark, command)
  M.prepare(dict)
  local n, message = dict:incr("commands", 1)
  local ok = false
  if n then
    local function number(v) return v and ("%.0f"):format(v) or "-" end
    local parts = { n, mark, command.stop and "stop" or "start", number(command.sample), number(command.heap),
      command.events or "" }
    ok, message = dict:safe_set("command", padded(table.concat(parts, " ")))
  end
  if not ok then return nil, "the other workers do not follow: " .. tostring(message) end
  seen = n
  return true
end

-- The newest command, if this worker has not seen it; nil otherwise.
function M.newest(dict, mark)
  local text = dict:get "command"
  if not text then return nil end
  local n, of, what, sample, heap, events = text:match "^(%d+) (%d+) (%a+) (%S+) (%S+) (.-) *$"
  n = tonumber(n)
  if not n or n == seen then return nil end
  seen = n
  if tonumber(of) ~= mark then return nil end
  return { stop = what == "stop" or nil, sample = tonumber(sample), heap = tonumber(heap),
    events = events ~= "" and events or nil }
end

return M
