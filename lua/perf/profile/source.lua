-- The source files of a profile, by the names in its frames, and the alignment of two versions of a file.
--
-- A profile has the lines of each file as they were when it ended, an array. If it was read from a file, it has their digest
-- instead, so that the file gives no source away: WIDTH hexadecimal digits for each line. Indentation does not change it.
local core = require "perf.core"
local memo = require "perf.base.memo"
local trim = require "perf.base.trim"

local M = {}

local WIDTH, PRIME = 6, 16777213 -- the largest prime number of 24 bits
local MOST = 16 * 2 ^ 20 -- bytes of a source file that are read

-- The lines of a text.
-- @func[opt] pause called now and then
function M.split(text, pause)
  local lines = {}
  for line in (text:find "[^\n]$" and text .. "\n" or text):gmatch "([^\n]*)\n" do
    lines[#lines + 1] = line
    if pause then pause() end
  end
  return lines
end

-- The lines of a file; nil, message, code if it cannot be read.
function M.read(path, pause)
  local text = core.regular_file(path, MOST)
  if not text then return nil, path .. ": no file that can be read", "ENOENT" end
  return M.split(text, pause)
end

-- The digest of lines; a digest is returned unchanged.
function M.digest(lines)
  if type(lines) == "string" then return lines end
  local of = memo(function(line)
    local h, text = 0, trim(line)
    for i = 1, #text do h = (h * 31 + text:byte(i)) % PRIME end
    return ("%06x"):format(h)
  end)
  local parts = {}
  for i, line in ipairs(lines) do parts[i] = of[line] end
  return table.concat(parts)
end

local function marks_of(digest)
  local marks = {}
  for at = 1, #digest, WIDTH do marks[#marks + 1] = digest:sub(at, at + WIDTH - 1) end
  return marks
end

-- The longest sequence of pairs {i, k} that rises in both numbers, of pairs in the order of i.
local function rising(pairs_of_lines)
  local ends, before = {}, {} -- ends[n]: the pair with the smallest k that ends a sequence of n
  for _, pair in ipairs(pairs_of_lines) do
    local low, high = 1, #ends + 1
    while low < high do
      local middle = math.floor((low + high) / 2)
      if ends[middle][2] < pair[2] then low = middle + 1 else high = middle end
    end
    ends[low], before[pair] = pair, ends[low - 1]
  end
  local list, pair = {}, ends[#ends]
  for n = #ends, 1, -1 do list[n], pair = pair, before[pair] end
  return list
end

-- The pairs of lines that are equal, and occur once in a[i..j] and once in b[k..l].
local function single(a, i, j, b, k, l)
  local places, list = {}, {}
  for at = k, l do places[b[at]] = places[b[at]] == nil and at end -- false: several
  local here = {}
  for at = i, j do here[a[at]] = here[a[at]] == nil and at end
  for at = i, j do
    if here[a[at]] and places[a[at]] then list[#list + 1] = { at, places[a[at]] } end
  end
  return rising(list)
end

-- Align two versions of a file: equal lines, and as many changed lines between equal ones as there were before. Lines that occur
-- once in both versions are aligned first, since an `end` tells nothing.
-- @string before the digest of the older version
-- @string after that of the newer one
-- @bool[opt] equal only equal lines
-- @return {[line before] = line after}; a line that is gone has none
function M.align(before, after, equal)
  local a, b, map = marks_of(before), marks_of(after), {}
  local todo = { { 1, #a, 1, #b } }
  while #todo > 0 do
    local i, j, k, l = (table.unpack or unpack)(table.remove(todo))
    while i <= j and k <= l and a[i] == b[k] do
      map[i], i, k = k, i + 1, k + 1
    end
    while i <= j and k <= l and a[j] == b[l] do
      map[j], j, l = l, j - 1, l - 1
    end
    local anchors = i <= j and k <= l and single(a, i, j, b, k, l) or {}
    if not equal and #anchors == 0 and j - i == l - k then
      for at = i, j do map[at] = k + at - i end
    end
    if #anchors > 0 then
      for _, pair in ipairs(anchors) do
        todo[#todo + 1] = { i, pair[1] - 1, k, pair[2] - 1 }
        map[pair[1]] = pair[2]
        i, k = pair[1] + 1, pair[2] + 1
      end
      todo[#todo + 1] = { i, j, k, l }
    end
  end
  return map
end

return M
