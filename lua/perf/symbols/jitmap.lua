-- Symbols of code that a JIT compiler made: /tmp/perf-PID.map, as node, Java and others leave it for perf.
--
--     7f0000001000 40 LazyCompile:~add app.js:3
--     start  size (both hexadecimal)  name
--
-- Anyone may write to /tmp: a map is read only when it is a regular file of the process's user or root and nobody else may
-- write to it. Addresses are made anew by the JIT; of two lines that say something of an address the later one holds.
local host = require "perf.kernel.host"

local M = {}
local Map = {}
Map.__index = Map

-- Where the map of a process is, and whose it has to be.
-- @int pid
-- @return array of paths to try, uid; nothing for a process that is gone
function M.places(pid)
  local status = host.slurp(("/proc/%d/status"):format(pid))
  local uid = status and status:match "\nUid:%s+%d+%s+(%d+)"
  if not uid then return nil end
  -- In a container it has another number, and another /tmp.
  local inner = status:match "\nNSpid:[%d%s]-(%d+)\n" or pid
  return { ("/proc/%d/root/tmp/perf-%s.map"):format(pid, inner), ("/tmp/perf-%d.map"):format(pid) }, tonumber(uid)
end

-- The lines of a map, by address.
-- @string text
-- @return array of {start, end, name}
function M.parse(text)
  local list = {}
  for start, size, name in text:gmatch "(%x+)%s+(%x+)%s+([^\n]+)" do
    local from, length = tonumber("0x" .. start), tonumber("0x" .. size) -- with a base it may end at 32 bits
    if from and length and length > 0 then list[#list + 1] = { from, from + length, name, #list } end
  end
  table.sort(list, function(a, b)
    if a[1] ~= b[1] then return a[1] < b[1] end
    return a[4] < b[4]
  end)
  return list
end

-- The entry of an address in what `parse` returned, or nil.
function M.search(list, addr)
  local low, high = 1, #list + 1
  while low < high do
    local mid = math.floor((low + high) / 2)
    if list[mid][1] <= addr then low = mid + 1 else high = mid end
  end
  -- Older and longer pieces may begin before a newer one that ends too early.
  local best
  for i = low - 1, math.max(1, low - 16), -1 do
    local e = list[i]
    if addr < e[2] and (not best or e[4] > best[4]) then best = e end
  end
  return best
end

-- The map of a process, read when it is first asked for.
-- @int pid
-- @func read function(path, uid) -> text, or nil, message, code: see perf.symbols
function M.new(pid, read)
  return setmetatable({ pid = pid, read = read, list = nil, read_at = nil }, Map)
end

-- The symbol of an address.
-- @return name, offset; nothing when there is none
function Map:find(addr)
  if type(addr) ~= "number" then return nil end
  local entry = self.list and M.search(self.list, addr)
  local now = os.time()
  if not entry and self.read_at ~= now then -- the JIT may have gone on; looked at once a second at most
    self.read_at = now
    local paths, uid = M.places(self.pid)
    for _, path in ipairs(paths or {}) do
      local text = self.read(path, uid)
      if text then
        self.list = M.parse(text)
        entry = M.search(self.list, addr)
        break
      end
    end
  end
  if entry then return entry[3], addr - entry[1] end
end

-- Read it again at the next address.
function Map:forget()
  self.list, self.read_at = nil, nil
end

return M
