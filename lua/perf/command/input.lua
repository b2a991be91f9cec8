-- The profiles that luaperf report and annotate read.
local attempt = require "perf.base.attempt"
local load = require "perf.profile.load"
local terminal = require "perf.command.terminal"

local M = {}

M.option = { "input", "string", "the file of the profile", short = "i", arg = "FILE" }
M.stdio = { "stdio", "boolean", "text, which is the default; accepted because perf has this option" }
M.event = { "event", "string", "the event to show, if the file has several", short = "e", arg = "EVENT" }

-- The names of the events of profiles.
function M.events_of(list)
  local names = {}
  for i, prof in ipairs(list) do names[i] = prof.event end
  return table.concat(names, ", ")
end

-- Read a file; show the progress if that takes long.
-- @string[opt] event leave out the other events
-- @return an array of Profiles; or nil, message, code
function M.read(path, event)
  if path == "" then return nil, "the name of the file is empty", "ENOENT" end
  if path == "-" then path = "/dev/stdin" end
  local list, message, code = load.all(path, terminal.slow("reading " .. path))
  terminal.progress()
  if list and message then terminal.error(message .. "; the profile is incomplete") end
  if not list or not event then return list, message, code end
  for _, prof in ipairs(list) do
    if prof.event == event or prof.event:match "^(.-):%a+$" == event then return { prof } end
  end
  return nil, ("%s: has no event '%s', but %s"):format(path, event, M.events_of(list)), "ENOENT"
end

local function exists(path)
  local f = io.open(path, "rb")
  if f then f:close() end
  return f ~= nil
end

-- The latest file of luaperf record in this directory.
function M.latest()
  if not exists "perf.data" then return "luaperf.json" end
  if not exists "luaperf.json" then return "perf.data" end
  local newer = os.execute "test perf.data -nt luaperf.json"
  return (newer == true or newer == 0) and "perf.data" or "luaperf.json"
end

-- Read the named file, or the latest one; a refusal is raised.
-- @string[opt] hint the end of the message if there is no file
-- @return an array of Profiles, the path
function M.open(named, event, hint)
  local path = named or M.latest()
  local list, message, code = M.read(path, event)
  if not (list or named or exists(path)) then message = message .. (hint or " (luaperf record script.lua makes one)") end
  return attempt.try(list, message, code), path
end

return M
