-- luaperf report: shows profiles as text and flame graphs, and converts them for other tools.
local attempt = require "perf.base.attempt"
local formats = require "perf.profile.report.formats"
local load = require "perf.profile.load"
local terminal = require "perf.command.terminal"

local M = {}

local try = attempt.try

M.about = "show a profile, or convert it into a flame graph, folded stacks, pprof, speedscope, perf.data"
M.usage = "luaperf report [options] [FILE]"
M.text = [[
Reads files of luaperf record, perf.data files (perf's own too), sampled speedscope files and folded stacks. FILE is the newer of
luaperf.json and perf.data by default; - is stdin. Prints tables, unless an option or the output's name chooses another format.]]
M.mixed = true
M.options = {
  { "input", "string", "the same as FILE", short = "i", arg = "FILE" },
  { "output", "string", "write to FILE; - is stdout; its ending chooses the format, as with luaperf record", short = "o",
    arg = "FILE" },
  { "lines", "integer", "rows of each table (20)", short = "n", arg = "N", least = 1 },
  { "event", "string", "the event to show, if the file has several", short = "e", arg = "EVENT" },
  { "diff", "string", "compare with an earlier profile: which lines take a larger or smaller share", short = "d", arg = "FILE" },
}
for _, format in ipairs(formats) do M.options[#M.options + 1] = { format.option, "boolean", format.help } end

local function events_of(list)
  local names = {}
  for i, prof in ipairs(list) do names[i] = prof.event end
  return table.concat(names, ", ")
end

local function read(path, event)
  if path == "-" then path = "/dev/stdin" end
  terminal.progress("reading " .. path)
  local list, message, code = load.load(path)
  terminal.progress()
  if list and message then terminal.error(message .. "; the profile is incomplete") end
  if not list or not event then return list, message, code end
  for _, prof in ipairs(list) do
    if prof.event == event or prof.event:match "^(.-):%a+$" == event then return { prof } end
  end
  return nil, ("%s: has no event '%s', but %s"):format(path, event, events_of(list)), "ENOENT"
end

-- For each profile, the one of the same event in the file of --diff; or nil and the error.
local function earlier(list, path, opts)
  local by_event, found = {}, {}
  local before = try(read(opts.diff, opts.event))
  for _, prof in ipairs(before) do by_event[prof.event] = prof end
  for i, prof in ipairs(list) do
    found[i] = by_event[prof.event]
    if not found[i] then return nil, ("%s is of %s, but %s of %s"):format(opts.diff, events_of(before), path, prof.event) end
  end
  return found
end

local function exists(path)
  local f = io.open(path, "rb")
  if f then f:close() end
  return f ~= nil
end

-- The latest file of luaperf record in this directory.
local function latest()
  if not exists "perf.data" then return "luaperf.json" end
  if not exists "luaperf.json" then return "perf.data" end
  local newer = os.execute "test perf.data -nt luaperf.json"
  return (newer == true or newer == 0) and "perf.data" or "luaperf.json"
end

-- The requested format, nil for tables; or false and the error.
local function format_of(opts)
  local found
  for _, format in ipairs(formats) do
    if opts[format.option] then
      if found then return false, "one kind of report at a time" end
      found = format.name
    end
  end
  if not found and opts.output and not opts.output:find "^/dev/" then
    local wrong
    found, wrong = formats.of(opts.output)
    if not found then return false, wrong end
  end
  if found == "perf_data" and not opts.output then return false, "--perf-data needs a file: -o out.data" end
  return found
end

-- A report as text, or into the file.
local function write(prof, format, opts, before)
  if format == "flamegraph" then return prof:flamegraph(opts.output, { diff = before }) end
  return prof[format](prof, opts.output)
end

local function print_tables(list, opts, before)
  local parts = {}
  for i, prof in ipairs(list) do parts[i] = tostring(before and prof:diff(before[i], opts.lines) or prof:top(opts.lines)) end
  local text = table.concat(parts, "\n\n\n") .. "\n"
  if opts.output then
    return require "perf.base.file".write(opts.output, function(put) put(text) end)
  end
  return terminal.write(text)
end

local function show(opts, words)
  if opts.output == "-" then opts.output = nil end
  if #words > 1 then return nil, "one file at a time; two are compared by --diff OLD NEW", "USAGE" end
  local named = opts.input or words[1]
  local path = named or latest()
  local format, wrong = format_of(opts)
  if format == false then return nil, wrong, "USAGE" end
  local list, message, code = read(path, opts.event)
  if not (list or named or exists(path)) then
    message = message .. (opts.diff and " (--diff OLD NEW compares two files)" or " (luaperf record script.lua makes one)")
  end
  try(list, message, code)
  local before
  if opts.diff then
    if format and format ~= "flamegraph" then return nil, "a difference is a table or a flame graph (--html)", "USAGE" end
    before, wrong = earlier(list, path, opts)
    if not before then return nil, wrong, "USAGE" end
  end
  if not format then return try(print_tables(list, opts, before)) and 0 end
  if #list > 1 then
    return nil, ("%s has several events: choose one by -e: %s"):format(path, events_of(list)), "USAGE"
  end
  local out = try(write(list[1], format, opts, before and before[1]))
  if not opts.output then try(terminal.write(out)) end
  return 0
end

-- Run the command. @return exit status; or nil, message, code
function M.run(...) return attempt.catch(show, ...) end

return M
