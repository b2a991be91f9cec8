-- A source file with the weight of each line beside it.
local argument = require "perf.base.argument"
local brief = require "perf.base.brief"
local checks = require "perf.api.check"
local format = require "perf.base.format"
local lua_frame = require "perf.profile.lua_frame"
local pairs_of = require "perf.base.pairs"
local source = require "perf.profile.source"
local text = require "perf.profile.report.frame_names"
local top = require "perf.profile.report.top"

local M = {}

local Annotation = {}
Annotation.__index = Annotation

local RED, GREEN, PLAIN = "\27[31m", "\27[32m", "\27[0m"
local HOT, WARM = 0.05, 0.005 -- shares of the weight

-- The own and total weights of the lines of all files: {[file] = {self =, [line] = {line=, lastline=, self=, total=, count=}}}. A
-- range of lines has a row of its own, whose key is a text.
local function weights_of(prof)
  local files, seen, sum, stamp = {}, {}, 0, 0
  local function row_of(f)
    local file = files[f.file] or { self = 0, name = f.file, rows = {} }
    files[f.file] = file
    local key = f.lastline and ("%d-%d"):format(f.line, f.lastline) or f.line
    local row = file.rows[key]
    if not row then
      row = { line = f.line, lastline = f.lastline, self = 0, total = 0, count = 0 }
      file.rows[key] = row
    end
    return row, file
  end
  for _, sample in ipairs(prof:samples()) do
    local weight, innermost = text.number(sample.weight), true
    stamp, sum = stamp + 1, sum + weight
    for _, f in ipairs(sample.stack) do
      if lua_frame.is(f) and f.file and f.line then
        local row, file = row_of(f)
        if innermost then
          row.self, row.count, file.self = row.self + weight, row.count + text.number(sample.count or 1), file.self + weight
        end
        innermost = false
        if seen[row] ~= stamp then seen[row], row.total = stamp, row.total + weight end
      end
    end
  end
  return files, sum
end

-- The file that a name means: the name in the frames, the end of a path, or without a name the heaviest file.
local function find(files, name)
  if files[name] then return files[name] end
  local found
  for path, file in pairs_of(files) do
    if not name then
      if not found or file.self > found.self or file.self == found.self and path < found.name then found = file end
    elseif path:sub(-#name - 1) == "/" .. name then
      if found then return nil, ("%s: several files have this name: %s, %s"):format(name, found.name, path) end
      found = file
    end
  end
  if found then return found end
  return nil, name and brief(name .. ": the profile has no line of this file") or "the profile has no Lua line"
end

-- The present lines of a file, and a function that gives the present number of a line of the profile; nil if it is gone.
local function present(prof, name)
  local known = prof.sources and prof.sources[name]
  if type(known) == "table" then return known, function(line) return line end end
  local lines, message, code = source.read(name)
  if not lines then return nil, message, code end
  local digest = known and source.digest(lines)
  if not known or known == digest then return lines, function(line) return line end end
  local map = source.align(known, digest, true)
  return lines, function(line) return map[line] end, true
end

local check = checks.options "Profile:annotate"

--- The lines of a source file with their weights. If the file has changed since the profile, its lines are found again by their
-- text.
-- @function Profile:annotate
-- @tparam[opt] string file its name in the profile, or the end of it after a slash; by default the file with the largest weight
-- @tparam[opt] table options
-- @treturn table `{file=, lines=, ranges=, gone=, changed=, unit=, total=, event=}`, which prints as the text of the file.
-- `lines` is an array of `{text=, self=, total=, count=}`, the weights as in `top`; `ranges` of `{line=, lastline=, self=,
-- total=}`, weights of compiled code that does not tell these lines apart; `changed` whether the file differs from the profiled
-- one; `gone` the own weight of lines that it no longer has @fails "ENOENT": the profile has no line of this file, or it cannot
-- be read
-- @since 0.2.0
function M.annotate(prof, file, opts)
  if file ~= nil and type(file) ~= "string" then
    argument.raise_in_method("annotate", "string expected, got " .. type(file), 2)
  end
  opts = check(opts, 3)
  local files, sum = weights_of(prof)
  local found, why = find(files, file)
  if not found then return nil, why, "ENOENT" end
  local lines, now, changed = present(prof, found.name)
  if not lines then return nil, now, changed end
  local a = top.whole(prof, sum)
  a.file, a.lines, a.ranges, a.gone, a.changed = found.name, {}, {}, 0, changed or false
  a.context, a.colour = opts.context, opts.colour
  for i, line in ipairs(lines) do a.lines[i] = { text = line, self = 0, total = 0, count = 0 } end
  for _, row in pairs_of(found.rows) do
    local from, to = now(row.line), now(row.lastline or row.line)
    local line = a.lines[from]
    if not line or not a.lines[to] then
      a.gone = a.gone + row.self
    elseif row.lastline then
      a.ranges[#a.ranges + 1] = { line = from, lastline = to, self = row.self, total = row.total }
    else
      line.self, line.total, line.count = line.self + row.self, line.total + row.total, line.count + row.count
    end
  end
  table.sort(a.ranges, function(x, y)
    if x.line ~= y.line then return x.line < y.line end
    return x.lastline < y.lastline
  end)
  return setmetatable(a, Annotation)
end

-- The set of the lines to show; nil: all.
local function near(a)
  if not a.context then return nil end
  local is_near = {}
  local function add(from, to)
    for i = from - a.context, to + a.context do is_near[i] = true end
  end
  for i, line in ipairs(a.lines) do
    if line.total > 0 then add(i, i) end
  end
  for _, range in ipairs(a.ranges) do add(range.line, range.lastline) end
  return is_near
end

function Annotation.__tostring(a)
  local rows, shares, is_near, at = { { "self", "%", "total", "%", "line", "" } }, {}, near(a), 1
  local function add(row, label, content)
    local own, has = row.self > 0, row.total > 0
    rows[#rows + 1] = { own and text.amount(row.self, a.unit) or "", own and text.percent(row.self, a.whole) or "",
      has and text.amount(row.total, a.unit) or "", has and text.percent(row.total, a.whole) or "", label, content }
    shares[#rows] = a.whole > 0 and row.self / a.whole or 0
  end
  local left_out = false
  for i, line in ipairs(a.lines) do
    if not is_near or is_near[i] then
      if left_out then rows[#rows + 1] = { "", "", "", "", "...", "" } end
      left_out = false
      while a.ranges[at] and a.ranges[at].line == i do
        add(a.ranges[at], ("%d-%d"):format(i, a.ranges[at].lastline), "| -- one of these lines, of compiled code")
        at = at + 1
      end
      add(line, tostring(i), ("| " .. text.line((line.text:gsub("\t", "    ")))):match "^.*%S")
    else
      left_out = true
    end
  end
  local lines, i = {}, 0
  local steps = { { 6, 30, cut = true }, { 3, 0 }, { 1, 0 }, { 4, 0 }, { 6, 8, cut = true } }
  for line in (format.align(rows, { true, true, true, true, true }, steps) .. "\n"):gmatch "([^\n]*)\n" do
    i = i + 1
    local share = a.colour and shares[i] or 0
    local colour = share >= HOT and RED or share >= WARM and GREEN
    lines[i] = colour and colour .. line .. PLAIN or line
  end
  local head = text.line(a.file) .. (a.changed and ": changed since the profile" or "")
  if a.gone > 0 then head = ("%s; %s in lines that are gone"):format(head, text.amount(a.gone, a.unit)) end
  return ("%s\n%s\n\n%s"):format(top.title(a), format.folded(head), table.concat(lines, "\n"))
end

return M
