-- Prometheus' text format.
local M = {}

local escapes = { ["\\"] = "\\\\", ["\n"] = "\\n", ['"'] = '\\"' }

local function label(name, value) return name .. '="' .. value:gsub('[\\\n"]', escapes) .. '"' end

local PART = 50 -- lines

-- A new text.
-- @param[opt] emit function(text), called for each part of the text; finish() returns the last one
-- @param[opt] prefix the beginning of all metrics' names
-- @param[opt] constant labels of all samples: array of name, text, ...
-- @return head(metric, kind, help) begins a metric; sample(metric, value, label, text, ...) adds to it; finish() returns the text
function M.new(emit, prefix, constant)
  local lines, always = {}, {}
  prefix = prefix or ""
  for i = 1, constant and #constant or 0, 2 do always[#always + 1] = label(constant[i], constant[i + 1]) end
  always = table.concat(always, ",")
  local function finish()
    lines[#lines + 1] = ""
    return table.concat(lines, "\n")
  end
  local function head(metric, kind, help)
    metric = prefix .. metric
    lines[#lines + 1] = ("# HELP %s %s\n# TYPE %s %s"):format(metric, help:gsub("[\\\n]", " "), metric, kind)
  end
  local function sample(metric, value, ...)
    local labels = always ~= "" and "{" .. always or ""
    for i = 1, select("#", ...), 2 do
      local name, text = select(i, ...)
      labels = labels .. (labels ~= "" and "," or "{") .. label(name, text)
    end
    lines[#lines + 1] = prefix .. metric .. labels .. (labels ~= "" and "} " or " ") .. value
    if emit and #lines >= PART then
      emit(finish())
      lines = {}
    end
  end
  return head, sample, finish
end

return M
