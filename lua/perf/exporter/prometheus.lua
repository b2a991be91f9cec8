-- Prometheus' text format.
local M = {}

local escapes = { ["\\"] = "\\\\", ["\n"] = "\\n", ['"'] = '\\"' }

local function label(name, value) return name .. '="' .. value:gsub('[\\\n"]', escapes) .. '"' end

local PART = 50 -- lines

-- A new text.
-- @param[opt] emit function(text), called for each part of the text; finish() returns the last one
-- @param[opt] prefix the beginning of all metrics' names
-- @param[opt] constant labels of all samples: array of name, text, ...
-- @param[opt] pause called after each line
-- @return head(metric, kind, help) begins one; sample(metric, value, label, text, ...) adds to it; finish() returns the text;
-- labels(label, text, ...) returns labels as text, which the lines of a histogram share; line(metric, value, text, last) adds a
-- sample with such a text and one more label, `last`. A page has thousands of lines. They do not become strings one by one: Lua's
-- table of strings would grow, which blocks the program
function M.new(emit, prefix, constant, pause)
  local parts, n, lines, always = {}, 0, 0, {}
  prefix = prefix or ""
  for i = 1, constant and #constant or 0, 2 do always[#always + 1] = label(constant[i], constant[i + 1]) end
  always = table.concat(always, ",")
  local function finish() return table.concat(parts, "", 1, n) end
  local function head(metric, kind, help)
    metric, n = prefix .. metric, n + 1
    parts[n] = ("# HELP %s %s\n# TYPE %s %s\n"):format(metric, help:gsub("[\\\n]", " "), metric, kind)
  end
  local function labels(...)
    local list = { always ~= "" and always or nil }
    for i = 1, select("#", ...), 2 do
      local name, text = select(i, ...)
      list[#list + 1] = label(name, text)
    end
    return table.concat(list, ",")
  end
  local function line(metric, value, text, last)
    last = last or ""
    local is_bare, comma = text == "" and last == "", text ~= "" and last ~= "" and "," or ""
    parts[n + 1], parts[n + 2], parts[n + 3], parts[n + 4], parts[n + 5] = prefix, metric, is_bare and "" or "{", text, comma
    parts[n + 6], parts[n + 7], parts[n + 8], parts[n + 9] = last, is_bare and " " or "} ", value, "\n"
    n, lines = n + 9, lines + 1
    if emit and lines >= PART then
      emit(finish())
      n, lines = 0, 0
    end
    if pause then pause() end
  end
  local function sample(metric, value, ...) line(metric, value, labels(...)) end
  return head, sample, finish, labels, line
end

return M
