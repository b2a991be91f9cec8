-- Prometheus' text format.
local M = {}

local escapes = { ["\\"] = "\\\\", ["\n"] = "\\n", ['"'] = '\\"' }

local function label(name, value) return name .. '="' .. value:gsub('[\\\n"]', escapes) .. '"' end

local PART = 50 -- lines

-- A new text.
-- @param[opt] emit function(text), called for each part of the text; finish() returns the last one
-- @return head(metric, kind, help) begins a metric; sample(metric, value, label, text, ...) adds to it; finish() returns the text
function M.new(emit)
  local lines = {}
  local function finish()
    lines[#lines + 1] = ""
    return table.concat(lines, "\n")
  end
  local function head(metric, kind, help)
    lines[#lines + 1] = ("# HELP %s %s\n# TYPE %s %s"):format(metric, help:gsub("[\\\n]", " "), metric, kind)
  end
  local function sample(metric, value, ...)
    local labels = ""
    for i = 1, select("#", ...), 2 do
      local name, text = select(i, ...)
      labels = labels .. (i > 1 and "," or "{") .. label(name, text)
    end
    lines[#lines + 1] = metric .. labels .. (labels ~= "" and "} " or " ") .. value
    if emit and #lines >= PART then
      emit(finish())
      lines = {}
    end
  end
  return head, sample, finish
end

return M
