-- The files of a recording that begins a new one when the present one is large or old enough, as perf record --switch-output:
-- PATH is the latest, and an older one is PATH with the time of its end, in hundredths of a second. Each can be read by itself.
local attempt = require "perf.base.attempt"
local core = require "perf.core"

local M = {}

local Rotation = {}
Rotation.__index = Rotation

local sizes, times = { B = 1, K = 2 ^ 10, M = 2 ^ 20, G = 2 ^ 30 }, { s = 1, m = 60, h = 3600, d = 86400 }

-- The limit that a text names, bytes or seconds: "10M", "30s".
-- @return bytes or nil, seconds or nil
local function limit_of(text)
  local number, unit = text:match "^(%d+)(%a)$"
  number = tonumber(number)
  if not number or number < 1 then return nil end
  return sizes[unit] and number * sizes[unit], times[unit] and number * times[unit]
end

-- The mistake in a limit as text, or nil.
function M.wrong(text)
  local bytes, seconds = limit_of(text)
  if not (bytes or seconds) then
    return ("a size (10M, with B, K, M or G) or a time (30s, with s, m, h or d) expected, got '%s'"):format(text)
  end
end

-- The files of a recording into `path`.
-- @string limit
-- @int[opt] most files to keep, the present one with them
function M.new(path, limit, most)
  local bytes, seconds = limit_of(limit)
  return setmetatable({ path = path, bytes = bytes, seconds = seconds, most = most or math.huge, older = {},
    began = core.wall_ns() }, Rotation)
end

-- Whether the present file, which has so many bytes, is complete.
function Rotation:is_full(bytes)
  if self.bytes then return bytes >= self.bytes end
  return core.wall_ns() - self.began >= self.seconds * 1e9
end

-- Rename the present file, which is closed, as an older one; remove the oldest files beyond the limit.
function Rotation:keep()
  local now = core.unix_time()
  local stamp = ("%s%02d"):format(os.date("%Y%m%d%H%M%S", math.floor(now)), math.floor(now % 1 * 100))
  self.again = stamp == self.stamp and self.again + 1 or 0 -- two within a hundredth
  self.stamp = stamp
  local name = self.path .. "." .. stamp .. (self.again > 0 and "-" .. self.again or "")
  local ok, message = os.rename(self.path, name)
  if not ok then attempt.refuse(message, "EIO") end
  table.insert(self.older, name)
  while #self.older >= self.most do os.remove(table.remove(self.older, 1)) end
  self.began = core.wall_ns()
end

-- The names of all files, the oldest first.
function Rotation:files()
  local list = {}
  for i, name in ipairs(self.older) do list[i] = name end
  list[#list + 1] = self.path
  return list
end

return M
