-- luaperf annotate: source files with the weight of each line beside it.
local attempt = require "perf.base.attempt"
local input = require "perf.command.input"
local terminal = require "perf.command.terminal"

local M = {}

local try = attempt.try

M.about = "show source files with the weight of each line"
M.usage = "luaperf annotate [options] [SOURCE]"
M.words = "file"
M.text = [[
Shows a source file of a profile that luaperf record wrote, with the weights of its lines. Without SOURCE, it shows the lines
with weight, and those around them, of all files that have at least 1 % of it. The profile is the newer of luaperf.json and
perf.data by default. If a file has changed since, its lines are found again by their text.]]
M.options = {
  input.option, input.event,
  { "context", "integer", "show N lines around those with weight (all with SOURCE, otherwise 3)", short = "U", arg = "N",
    least = 0 },
  { "color", "string", "colours: auto on a terminal", arg = "WHEN", oneof = { "auto", "always", "never" } },
  input.stdio,
}

local LEAST = 0.01 -- the share of a file that is shown

-- The files of a profile that have weight of their own, the heaviest first.
local function files_of(prof)
  local top, by_file, list = prof:top(), {}, {}
  for _, row in ipairs(top.lines) do
    if row.file then
      if not by_file[row.file] then
        by_file[row.file] = { name = row.file, self = 0 }
        list[#list + 1] = by_file[row.file]
      end
      by_file[row.file].self = by_file[row.file].self + row.self
    end
  end
  table.sort(list, function(a, b)
    if a.self ~= b.self then return a.self > b.self end
    return a.name < b.name
  end)
  while list[2] and list[#list].self < LEAST * top.whole do list[#list] = nil end
  return list
end

-- Add to the message that the profile has no line of this file: the word may be the name of a profile, or misspelt.
local function explain(message, word, prof)
  if word:find "%.json$" or word:find "%.data$" then return ("%s; to read it as a profile: -i %s"):format(message, word) end
  local names = {}
  for i, file in ipairs(files_of(prof)) do names[i] = i <= 3 and file.name or i == 4 and "..." or nil end
  return #names > 0 and ("%s; it has lines of %s"):format(message, table.concat(names, ", ")) or message
end

local function show(opts, words)
  if #words > 1 then return nil, "one source file at a time", "USAGE" end
  local list = input.open(opts.input, opts.event)
  local how = { context = opts.context, colour = opts.color == "always" or opts.color ~= "never" and terminal.has_colours() }
  local shown, why, errno = 0, nil, nil
  for _, prof in ipairs(list) do
    local files = words[1] and { { name = words[1] } } or files_of(prof)
    if not words[1] then how.context = how.context or 3 end
    for _, file in ipairs(files) do
      local found, message, code = prof:annotate(file.name, how)
      if found then
        try(terminal.write((shown > 0 and "\n\n" or "") .. tostring(found) .. "\n"))
        shown = shown + 1
      else
        if not words[1] then terminal.error(message) end
        why, errno = words[1] and message:find "no line of" and explain(message, words[1], prof) or message, code
      end
    end
  end
  if shown == 0 then return nil, why or "the profile has no Lua line", errno or "ENOENT" end
  return 0
end

-- Run the command. @return exit status; or nil, message, code
function M.run(...) return attempt.catch(show, ...) end

return M
