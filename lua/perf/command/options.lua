-- Parses the options of a command line: `-e x`, `-ex`, `--event x`, `--event=x`, `-av`. They end at `--` or at the first other
-- word, since options after a program's name belong to the program. If the arguments name no program, options may follow them
-- too.
--
-- A command's options are rows {short, long, argument's name or nil, help, kind = "integer" | "number" | "list", least =, choices
-- = {...}}. One of the two names may be nil; the key is the long one if it exists.
local M = {}

local HELP = { "h", "help", nil, "this text" }

local function find(rows, key, value)
  if HELP[key] == value then return HELP end
  for _, row in ipairs(rows) do
    if row[key] == value then return row end
  end
end

local function shown(row)
  return row[1] and "-" .. row[1] or "--" .. row[2]
end

-- The message about an unknown long option.
local function unknown(rows, word)
  local names = { "--" .. HELP[2] }
  for _, row in ipairs(rows) do
    if row[2] then names[#names + 1] = "--" .. row[2] end
  end
  return ("unknown option '%s'%s"):format(word, require "perf.base.suggest".hint(word:match "^[^=]*", names))
end

-- Convert a value to its kind; nil and the error if it is invalid.
local function convert(row, text, before)
  if row.kind == "list" then
    return before and before .. "," .. text or text
  elseif row.kind then
    local v = tonumber(text)
    local least = row.least or 1
    if not v or v ~= v or v < least or (row.kind == "integer" and v ~= math.floor(v)) then
      return nil, ("option %s: %s, %s or more, expected, got '%s'"):format(shown(row),
        row.kind == "integer" and "a whole number" or "a number", least, text)
    end
    return v
  end
  for i = 1, #(row.choices or {}) do
    if row.choices[i] == text then return text end
  end
  if row.choices then
    return nil, ("option %s: %s expected, got '%s'"):format(shown(row), table.concat(row.choices, " or "), text)
  end
  return text
end

-- Parse a command line.
-- @tab rows the options
-- @tab words all words
-- @int from the index of the first word
-- @bool mixed whether options may follow other words
-- @return {long name = value or true}, array of the other words; or nil, the error
function M.parse(rows, words, from, mixed)
  local opts, left, i = {}, {}, from
  local function set(row, text)
    local name = row[2] or row[1]
    if not row[3] then
      opts[name] = true
      return true
    end
    if not text then
      i = i + 1
      text = words[i]
      if not text then return nil, ("option %s needs %s"):format(shown(row), row[3]) end
    end
    local value, wrong = convert(row, text, opts[name])
    if value == nil then return nil, wrong end
    opts[name] = value
    return true
  end
  while words[i] do
    local word = words[i]
    local ok, wrong = true, nil
    if word == "--" then
      i = i + 1
      break
    elseif word:find "^%-%-" then
      local name, text = word:match "^%-%-([^=]+)=?(.*)$"
      local row = name and find(rows, 2, name)
      if not row then return nil, unknown(rows, word) end
      text = word:find("=", 1, true) and text or nil
      if text and not row[3] then return nil, ("option --%s takes no value"):format(name) end
      ok, wrong = set(row, text)
    elseif word:find "^%-." then
      local at = 2
      while ok and at <= #word do
        local row = find(rows, 1, word:sub(at, at))
        if not row then return nil, ("unknown option '-%s'"):format(word:sub(at, at)) end
        local rest = at < #word and word:sub(at + 1) or nil
        ok, wrong = set(row, row[3] and rest)
        at = row[3] and #word + 1 or at + 1
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
  return opts, left
end

-- The text of --help.
function M.help(command)
  local lines, rows = { "usage: " .. command.usage, "", command.text or command.about, "" }, {}
  for _, row in ipairs(command.options) do rows[#rows + 1] = row end
  rows[#rows + 1] = HELP
  local width = 0
  local left = {}
  for i, row in ipairs(rows) do
    left[i] = ("  %s%s%s%s"):format(row[1] and "-" .. row[1] or "  ", row[1] and row[2] and ", " or "  ",
      row[2] and "--" .. row[2] or "", row[3] and " " .. row[3] or "")
    width = math.max(width, #left[i])
  end
  for i, row in ipairs(rows) do
    local first = left[i] .. (" "):rep(width - #left[i] + 2)
    for line in row[4]:gmatch "[^\n]+" do
      lines[#lines + 1] = first .. line
      first = (" "):rep(width + 2)
    end
  end
  return table.concat(lines, "\n")
end

return M
