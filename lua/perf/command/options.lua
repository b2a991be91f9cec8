-- Parses the options of a command line: `-e x`, `-ex`, `--event x`, `--event=x`, `-av`. They end at `--` or at the first other
-- word, since options after a program's name belong to the program. If the arguments name no program, options may follow them
-- too.
--
-- A command's options are rows as in perf.api.options, some of them copies of those. A row also has `arg`, a word for the value,
-- if the option takes one; `short`, a letter; `long`, the long name if it differs from the row's name, or false; `list` if the
-- option may be repeated: its value is the words with commas between them; of integers an array, in which each is once; `once`
-- if it may not be repeated, otherwise the last one counts; `times` if its value is how often it was given; `special`, functions
-- by a word that stands for the number that the function returns (or nil and the reason).
local checks = require "perf.api.check"
local copy = require "perf.base.copy"
local format = require "perf.base.format"
local host = require "perf.kernel.host"
local keys = require "perf.base.keys"

local M = {}

local WIDTH, USUAL = 100, 80 -- columns of a help text: at most, and without a terminal
local HELP = { "help", "boolean", "this text", short = "h" }

-- Options of several commands.
M.pid = { "pid", "integer", "running processes with their threads; several with commas or several -p", short = "p", arg = "PID",
  list = true, least = 1, most = 2 ^ 31 - 1, what = "a process number", excludes = { "all_cpus" } }
local profiler = checks.rows "perf.profiler"
M.freq = copy(profiler.freq, { [3] = profiler.freq[3] .. "; max: as many as the kernel allows", short = "F", arg = "N",
  special = { max = function()
    local most = host.sysctl "kernel.perf_event_max_sample_rate"
    return most, not most and "kernel.perf_event_max_sample_rate cannot be read" or nil
  end } })
M.period = copy(profiler.period, { [3] = profiler.period[3]:gsub("`freq`", "-F"), short = "c", long = "count", arg = "N" })
M.zone = { "zone", "string", "only the samples of one zone; in a profile of nginx, of one route", short = "z", arg = "NAME" }
M.all_cpus = { "all_cpus", "boolean", "everything on all CPUs", short = "a" }

local function long(row)
  if row.long ~= nil then return row.long end
  return (row[1]:gsub("_", "-"))
end

M.long = long

-- All options of a command, with --help.
function M.all(command)
  local rows = {}
  for i, row in ipairs(command.options) do rows[i] = row end
  rows[#rows + 1] = HELP
  return rows
end

local kinds = { EVENT = "event", EVENTS = "event", FILE = "file", PID = "process" }

-- The kind of an option's value, for completion: "event", "file", "process", an array of words, or "other"; nil if it has none.
function M.value_of(row)
  if not row.arg then return nil end
  return row.oneof or row.special and keys(row.special) or kinds[row.arg] or "other"
end

-- The forms in which an option is given: "-e", "--event".
function M.forms(row)
  local forms = { row.short and "-" .. row.short }
  if long(row) then forms[#forms + 1] = "--" .. long(row) end
  return forms
end

-- A help text without the marks of code.
local function plain(text) return (text:gsub("`", "")) end
M.plain = plain

local function find(rows, name_of, name)
  if name_of(HELP) == name then return HELP end
  for _, row in ipairs(rows) do
    if name_of(row) == name then return row end
  end
end

local function short(row) return row.short end

local function shown(row) return row.short and "-" .. row.short or "--" .. long(row) end

-- The message about an unknown long option.
local function unknown(rows, word)
  local names = { "--" .. long(HELP) }
  for _, row in ipairs(rows) do
    if long(row) then names[#names + 1] = "--" .. long(row) end
  end
  return ("unknown option '%s'%s"):format(word, require "perf.base.suggest".hint(word:match "^[^=]*", names))
end

-- Convert a value to its type; nil and the error if it is invalid, with the option's name `shown_as`.
local function convert(row, text, shown_as)
  local wanted, valid
  if row[2] == "boolean" then
    if text == "0" or text == "1" then return text == "1" end
    wanted = "0 or 1"
  elseif row[2] == "integer" or row[2] == "number" then
    local v, why = tonumber(text), nil
    if row.special and row.special[text] then v, why = row.special[text]() end
    if why then return nil, ("%s: %s"):format(shown_as, why) end
    if v and not checks.wrong_number(row, v) then return v end
    wanted = checks.number(row, v)
    for _, word in ipairs(keys(row.special or {})) do wanted = wanted .. " or " .. word end
  elseif row.oneof then
    for _, value in ipairs(row.oneof) do valid = valid or value == text end
    wanted = not valid and checks.enumerate(row.oneof)
  elseif row.arg == "FILE" and text == "" then
    wanted = "the name of a file"
  end
  if not wanted then return text end
  return nil, ("%s: %s expected, got '%s'"):format(shown_as, wanted, text)
end

-- Add the numbers of a list with commas to an array; nil and the error if one is invalid.
local function add_numbers(row, list, text, shown_as)
  local seen = {}
  for _, v in ipairs(list) do seen[v] = true end
  for word in (text .. ","):gmatch "([^,]*)," do
    local v, wrong = convert(row, word, shown_as)
    if not v then return nil, wrong end
    if not seen[v] then seen[v], list[#list + 1] = true, v end
  end
  return list
end

-- The message about options that exclude each other, or nil.
local function conflict(rows, opts, name_of)
  local named = {}
  for _, row in ipairs(rows) do named[row[1]] = row end
  for _, row in ipairs(rows) do
    for _, other in ipairs(opts[row[1]] and row.excludes or {}) do
      if opts[other] then return ("%s and %s exclude each other"):format(name_of(row), name_of(named[other])) end
    end
  end
end

-- Parse a command line.
-- @tab rows the options
-- @tab words all words
-- @int from the index of the first word
-- @bool mixed whether options may follow other words
-- @return {long name = value or true}, array of the other words; or nil, the error, the option if it is unknown
function M.parse(rows, words, from, mixed)
  local opts, left, i = {}, {}, from
  local function set(row, text, given_as)
    local name = row[1]
    if row.times then
      opts[name] = (opts[name] or 0) + 1
      return true
    end
    if not row.arg then
      opts[name] = true
      return true
    end
    if not text then
      i = i + 1
      text = words[i]
      if not text then return nil, ("option %s needs %s: %s"):format(given_as, row.arg, plain(row[3])) end
    end
    if row.once and opts[name] ~= nil then return nil, ("option %s is given twice"):format(given_as) end
    if row.list and row[2] == "integer" then
      local list, wrong = add_numbers(row, opts[name] or {}, text, "option " .. given_as)
      opts[name] = list
      return list ~= nil, wrong
    end
    if row.list then
      opts[name] = opts[name] and opts[name] .. "," .. text or text
      return true
    end
    local wrong
    opts[name], wrong = convert(row, text, "option " .. given_as)
    return not wrong, wrong
  end
  while words[i] do
    local word = words[i]
    local ok, wrong = true, nil
    if word == "--" then
      i = i + 1
      break
    elseif word:find "^%-%-" then
      local name, text = word:match "^%-%-([^=]+)=?(.*)$"
      local row = name and find(rows, long, name)
      if not row then return nil, unknown(rows, word), word:match "^[^=]*" end
      text = word:find("=", 1, true) and text or nil
      if text and not row.arg then return nil, ("option --%s takes no value"):format(name) end
      ok, wrong = set(row, text, "--" .. name)
    elseif word:find "^%-." then
      local at = 2
      while ok and at <= #word do
        local row = find(rows, short, word:sub(at, at))
        if not row then return nil, ("unknown option '-%s'"):format(word:sub(at, at)), "-" .. word:sub(at, at) end
        local rest = at < #word and word:sub(at + 1) or nil
        ok, wrong = set(row, row.arg and rest, "-" .. word:sub(at, at))
        at = row.arg and #word + 1 or at + 1
      end
    elseif mixed then
      left[#left + 1] = word
    else
      break
    end
    if not ok then return nil, wrong end
    i = i + 1
  end
  for k = i, #words do left[#left + 1] = words[k] end
  local wrong = conflict(rows, opts, shown)
  if wrong then return nil, "options " .. wrong end
  return opts, left
end

-- The variables of perf.auto, as options.
M.variables = {
  { "mode", "string", "profile or count", oneof = { "record", "stat" } },
  { "events", "string", "the event to profile by, or the list to count" },
  profiler.freq, profiler.period, profiler.native, profiler.coroutines, profiler.filter,
  { "output", "string", "the file; its ending chooses the format" },
  { "verbose", "boolean", "print the profile at the end" },
  { "quiet", "boolean", "print nothing unless the file could not be written" },
}

function M.variable(row) return "PERF_" .. row[1]:upper() end
local variable = M.variable

-- Read options from the environment: PERF_FREQ is the option `freq`.
-- @tab rows the options; a boolean is 0 or 1
-- @return {name = value}; or nil, the error
function M.environment(rows)
  local opts, wrong = {}, nil
  for _, row in ipairs(rows) do
    local text = os.getenv(variable(row))
    if text and text ~= "" then opts[row[1]], wrong = convert(row, text, variable(row)) end
    if wrong then return nil, wrong end
  end
  wrong = conflict(rows, opts, variable)
  if wrong then return nil, wrong end
  return opts
end

-- The columns of a help text.
function M.width() return math.min(WIDTH, format.columns() or USUAL) end

-- The text of --help.
function M.help(command)
  local lines, rows, width = {}, {}, M.width()
  format.wrap(lines, "usage: ", command.usage, width)
  lines[#lines + 1] = ""
  format.paragraphs(lines, command.text or command.about, width)
  lines[#lines + 1] = ""
  for i, row in ipairs(M.all(command)) do
    local name = long(row) and (row.short and ", --" or "  --") .. long(row) or ""
    rows[i] = { (row.short and "-" .. row.short or "  ") .. name .. (row.arg and " " .. row.arg or ""), plain(row[3]) }
  end
  format.describe(lines, "  ", rows, width)
  return table.concat(lines, "\n")
end

return M
