--- The benchmark's table, its JSON file and its picture.
local json = require "perf.base.json"
local machine = require "bench.machine"
local picture = require "bench.picture"

local M = {}

local function number(v, unit)
  if unit == "bytes" then return ("%.0f B"):format(v) end
  if v < 1000 then return ("%.3g ns"):format(v) end
  if v < 1e6 then return ("%.3g us"):format(v / 1e3) end
  return ("%.3g ms"):format(v / 1e6)
end

local function ratio(v, floor) return floor and floor > 0 and v / floor or nil end

-- A row's value as it is compared with its target: the ratio of the minima, or of the medians if the row has that, and the time
-- over the floor; or the value itself.
local function reached(row, r, floor)
  if not r then return nil end
  if row.absolute then return r.min end
  if not floor then return nil end
  local by = row.by or "min"
  return ratio(r[by], floor[by]), r[by] - floor[by]
end

-- A target: `over` is the time over the floor that suffices, where the floor is small.
local function aim(row, id)
  local target, over = row.target and row.target[id], row.over and row.over[id]
  if not target then return nil end
  return row.absolute and number(target, row.unit) or ("%.2fx"):format(target) .. (over and (" or +%d ns"):format(over) or "")
end

local function is_met(row, id, value, more)
  local over = row.over and row.over[id]
  return value <= row.target[id] or over ~= nil and more <= over
end

-- The time over the floor's, which is not the kernel's, and both ratios.
local function against(r, floor, unit)
  if not floor then return "", "", "" end
  return ("%+.0f %s"):format(r.min - floor.min, unit), ("%.2fx"):format(ratio(r.min, floor.min)),
    ("%.2fx"):format(ratio(r.median, floor.median))
end

function M.head(host, all)
  print(("%s, %s x %s%s, on CPU %s, load %s"):format(host.kernel or "?", host.cpus or "?", host.cpu or "?",
    host.virtual and " (" .. host.virtual .. ")" or "", host.on_cpu or "?", host.load_before or "?"))
  for _, c in ipairs(all) do
    if c.why then print(("not here: %s: %s"):format(c.title, c.why)) end
  end
end

local heading

function M.row(row, result, all)
  if row.group ~= heading then
    heading = row.group
    print(("\n%-40s %10s %10s   %s"):format(heading:upper(), "min", "median",
      "over the floor's min; of its min, median"))
  end
  print("  " .. row.title)
  local floor = result.results.floor
  for _, c in ipairs(all) do
    local r = result.results[c.id]
    if r then
      local over, low, middle = against(r, c.id ~= "floor" and floor or nil, row.unit)
      local target, mark = aim(row, c.id), ""
      local value, more = reached(row, r, floor)
      if target and value and not is_met(row, c.id, value, more) then mark = "  above " .. target end
      print(("    %-36s %10s %10s %10s %7s %7s%s"):format(c.title, number(r.min, row.unit), number(r.median, row.unit), over, low,
        middle, mark))
    elseif c.ours and not c.why then
      print(("    %-36s %s"):format(c.title, "- " .. tostring(result.missing[c.id])))
    end
  end
  io.stdout:flush()
end

-- The number of targets, and those that were missed.
local function targets(done)
  local met, missed = 0, {}
  for _, d in ipairs(done) do
    for id in pairs(d.row.target or {}) do
      local value, more = reached(d.row, d.result.results[id], d.result.results.floor)
      if value and is_met(d.row, id, value, more) then
        met = met + 1
      elseif value then
        missed[#missed + 1] = ("%s, %s: %s, aimed at %s"):format(d.row.id, id,
          d.row.absolute and number(value, d.row.unit) or ("%.2fx, %+.0f ns"):format(value, more), aim(d.row, id))
      end
    end
  end
  table.sort(missed)
  return met, missed
end

function M.foot(done)
  local met, missed = targets(done)
  print(("\ntargets: %d met, %d missed"):format(met, #missed))
  for _, text in ipairs(missed) do print("  " .. text) end
end

local function save(path, text)
  local f = assert(io.open(path, "w"))
  f:write(text)
  f:close()
  print("wrote " .. path)
end

local function rounded(v) return math.floor(v * 10 + 0.5) / 10 end

-- One line for each row, so that two files are easy to compare.
local function encode(host, done, all)
  local lines, ids = {}, {}
  for i, c in ipairs(all) do ids[i] = { id = c.id, title = c.title, missing = c.why } end
  for i, d in ipairs(done) do
    local results, floor = {}, d.result.results.floor
    for id, r in pairs(d.result.results) do
      results[id] = { min = rounded(r.min), median = rounded(r.median), rounds = r.rounds,
        ratio = floor and id ~= "floor" and math.floor(ratio(r.min, floor.min) * 1000 + 0.5) / 1000 or nil,
        over = floor and id ~= "floor" and rounded(r.min - floor.min) or nil }
    end
    lines[i] = "  " .. json.encode { id = d.row.id, title = d.row.title, unit = d.row.unit, results = results,
      target = d.row.target, over = d.row.over }
  end
  return ('{"machine":%s,\n"contestants":%s,\n"rows":[\n%s\n]}\n'):format(json.encode(host), json.encode(ids),
    table.concat(lines, ",\n"))
end

function M.write(host, done, all)
  os.execute "mkdir -p bench/results"
  save(("bench/results/%s-%s.json"):format(host.date, machine.slug(host)), encode(host, done, all))
  save("bench/results/measure.svg", picture.draw(host, done, all))
end

return M
