-- The counts of finished spans: total and self, each by its label, for exporters and histograms.
local counts = require "perf.counts"

local M = {}

local sink = {}

-- Whether one of the first n rows has a count with this label. (Lists are short.)
local function has_label(label, rows, values, n)
  for i = 1, n do
    if rows[i].label == label and values[i] then return true end
  end
  return false
end

-- Call put(label, unit, total, self) for each event of a finished span that has a count, once for each label: if the span's
-- attribute names an event that the tracer counts too, the tracer's count is taken. self is nil if it is unknown.
function M.each(self, put_count)
  local c = self.given or self.counted
  local rows, values = nil, {}
  if c then
    rows = counts.values(c, values)
    local of_children
    local alone = self.open > 0 or self.self_unknown
    local children = not alone and self.children
    if children then
      of_children = {}
      if self.children_given or self.given then
        for i = 1, #rows do of_children[i] = children[rows[i].label] or 0 end
      else
        counts.values(children, of_children)
      end
    end
    for i = 1, #rows do
      local total = values[i]
      if total and not has_label(rows[i].label, rows, values, i - 1) then
        local own
        if not alone then own = of_children and total - (of_children[i] or 0) or total end
        if own and own < 0 then own = nil end
        put_count(rows[i].label, rows[i].unit, total, own)
      end
    end
  end
  if self.own then
    local list = counts.values(self.own, sink)
    for i = 1, #list do
      local label = list[i].label
      if sink[i] and not has_label(label, list, sink, i - 1) and not (rows and has_label(label, rows, values, #rows)) then
        put_count(label, list[i].unit, sink[i], nil)
      end
    end
  end
end

-- Whether a finished span has a count for an attribute's key: "perf.page-faults", "perf.self.page-faults". A key is written once,
-- and the count replaces the attribute.
function M.has(self, key)
  if key:sub(1, 5) ~= "perf." then return false end
  local found = false
  M.each(self, function(label, _, _, own)
    found = found or key == "perf." .. label or own ~= nil and key == "perf.self." .. label
  end)
  return found
end

return M
