-- luaperf report: shows profiles as text and flame graphs, and converts them for other tools.
local attempt = require "perf.base.attempt"
local checks = require "perf.api.check"
local copy = require "perf.base.copy"
local formats = require "perf.profile.report.formats"
local keys = require "perf.base.keys"
local input = require "perf.command.input"
local options = require "perf.command.options"
local tables = require "perf.base.format"
local terminal = require "perf.command.terminal"
local utf8 = require "perf.base.utf8"

local M = {}

local try = attempt.try

M.about = "show a profile, or convert it into a flame graph, folded stacks, pprof, speedscope, perf.data"
M.usage = "luaperf report [options] [FILE]"
M.words = "file"
M.text = [[
Reads files of luaperf record, perf.data files (perf's own too), sampled speedscope files and folded stacks. FILE is the newer of
luaperf.json and perf.data by default; - is stdin. Prints tables, unless an option or the output's name chooses another format.]]
M.options = {
  copy(input.option, { [3] = "the same as FILE" }),
  { "output", "string", "write to FILE; - is stdout; its ending chooses the format, as with luaperf record", short = "o",
    arg = "FILE" },
  { "lines", "integer", "rows of each table (20), of a tree (50)", short = "n", arg = "N", least = 1 },
  input.event,
  options.zone,
  { "diff", "string", "compare with an earlier profile, also of the program before an edit: which lines take a larger or smaller "
    .. "share, or more or less memory", short = "d", arg = "FILE", excludes = { "tree", "sandwich" } },
  { "tree", "boolean", "the calls as a tree", excludes = { "sandwich" } },
  { "sandwich", "string", "the callers and the callees of a function: its name, or FILE:LINE where it begins", arg = "FUNCTION" },
  copy(checks.rows "Profile:tree".by, { [3] = "rows of a tree: function, or line", arg = "WHAT" }),
}
M.options[#M.options + 1] = input.stdio
for _, format in ipairs(formats) do M.options[#M.options + 1] = { format.option, "boolean", format.help } end

-- For each profile, the one of the same event in the file of --diff; or nil and the error.
local function earlier(list, path, opts)
  local by_event, found = {}, {}
  local before = try(input.read(opts.diff, opts.event))
  for _, prof in ipairs(before) do by_event[prof.event] = prof end
  for i, prof in ipairs(list) do
    found[i] = by_event[prof.event]
    if not found[i] then
      return nil, ("%s is of %s, but %s of %s"):format(opts.diff, input.events_of(before), path, prof.event)
    end
  end
  return found
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
  local text = opts.tree or opts.sandwich or opts.stdio -- the file may have any name
  if not (found or text) and opts.output and not opts.output:find "^/dev/" then
    local wrong
    found, wrong = formats.of(opts.output)
    if not found then return false, wrong end
  end
  if found == "perf_data" and not opts.output then return false, "--perf-data needs a file: -o out.data" end
  return found
end

-- The samples of each profile in the zone that --zone names; or nil and the error.
local function in_zone(list, name)
  local found, any, shown = {}, {}, {}
  for i, prof in ipairs(list) do
    found[i] = prof:zone(name)
    for _, zone in ipairs(prof:top().zones) do any[zone.name], shown[utf8.line(zone.name)] = true, true end
  end
  if any[name] then return found end
  local known = next(shown) and checks.enumerate(keys(shown)) or "no zones"
  return nil, ("no sample is in the zone '%s'; the profile has %s"):format(utf8.line(name), known)
end

-- A report as text, or into the file.
local function write(prof, format, opts, before)
  if format == "flamegraph" then return prof:flamegraph(opts.output, { diff = before }) end
  return prof[format](prof, opts.output)
end

local function sandwich(prof, name, how)
  return tostring(try(prof:callers(name, how))) .. "\n\n" .. tostring(prof:callees(name, how))
end

-- A profile as text, as the options ask for.
local function text_of(prof, opts, before)
  local how = { n = opts.lines, by = opts.by }
  if opts.tree then return tostring(prof:tree(how)) end
  if opts.sandwich then return sandwich(prof, opts.sandwich, how) end
  return tostring(before and prof:diff(before, opts.lines) or prof:top(opts.lines))
end

local function print_tables(list, opts, before)
  local parts = {}
  if opts.output then tables.destination = false end
  for i, prof in ipairs(list) do parts[i] = text_of(prof, opts, before and before[i]) end
  local text = table.concat(parts, "\n\n\n") .. "\n"
  if opts.output then
    return require "perf.base.file".write(opts.output, function(put) put(text) end)
  end
  return terminal.write(text)
end

local function show(opts, words)
  if opts.output == "-" then opts.output = nil end
  if #words > 1 then return nil, "one file at a time; two are compared by --diff OLD NEW", "USAGE" end
  local tree = opts.tree or opts.sandwich
  if opts.by and not tree then return nil, "--by needs --tree or --sandwich", "USAGE" end
  local format, wrong = format_of(opts)
  if format == false then return nil, wrong, "USAGE" end
  if format and tree then return nil, "--tree and --sandwich are text, not another format", "USAGE" end
  local list, path = input.open(opts.input or words[1], opts.event, opts.diff and " (--diff OLD NEW compares two files)")
  local before
  if opts.zone then
    list, wrong = in_zone(list, opts.zone)
    if not list then return nil, wrong, "USAGE" end
  end
  if opts.diff then
    if format and format ~= "flamegraph" then return nil, "a difference is a table or a flame graph (--html)", "USAGE" end
    before, wrong = earlier(list, path, opts)
    if not before then return nil, wrong, "USAGE" end
    for i, prof in ipairs(before) do before[i] = opts.zone and prof:zone(opts.zone) or prof end
  end
  if not format then return try(print_tables(list, opts, before)) and 0 end
  if #list > 1 then
    return nil, ("%s has several events: choose one by -e: %s"):format(path, input.events_of(list)), "USAGE"
  end
  local out = try(write(list[1], format, opts, before and before[1]))
  if not opts.output then try(terminal.write(out)) end
  return 0
end

-- Run the command. @return exit status; or nil, message, code
function M.run(...) return attempt.catch(show, ...) end

return M
