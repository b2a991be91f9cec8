-- Symbols of code from a JIT compiler: /tmp/perf-PID.map, which node, Java and others write for perf.
--
--     7f0000001000 40 LazyCompile:~add app.js:3
--     start  size (both hexadecimal)  name
--
-- Anyone may write to /tmp: a map is only read if it is a regular file of the process's user or of root, and no other user may
-- write to it. A JIT reuses addresses: if two lines include an address, the later one is valid.
local host = require "perf.kernel.host"

local M = {}
local Map = {}
Map.__index = Map

-- The possible paths of a process's map, and the user who must own it.
-- @return array of paths, uid; nothing for a process that has ended
function M.places(pid)
  local status = host.read_file(("/proc/%d/status"):format(pid))
  local uid = status and status:match "\nUid:%s+%d+%s+(%d+)"
  if not uid then return nil end
  -- In a container it has another pid, and another /tmp.
  local inner = status:match "\nNSpid:[%d%s]-(%d+)\n" or pid
  return { ("/proc/%d/root/tmp/perf-%s.map"):format(pid, inner), ("/tmp/perf-%d.map"):format(pid) }, tonumber(uid)
end

-- The lines of a map, by address.
-- @return array of {start, end, name}
function M.parse(text)
  local list = {}
  for line in text:gmatch "[^\n]+" do
    local start, size, name = line:match "^%s*0?x?(%x+)%s+0?x?(%x+)%s+(.+)"
    -- Some builds limit tonumber(start, 16) to 32 bits.
    start, size = start and tonumber("0x" .. start), size and tonumber("0x" .. size)
    if size and size > 0 then list[#list + 1] = { start, start + size, name, #list } end
  end
  table.sort(list, function(a, b)
    if a[1] ~= b[1] then return a[1] < b[1] end
    return a[4] < b[4]
  end)
  return list
end

-- The entry for an address in a list of `parse`, or nil.
function M.search(list, addr)
  local low, high = 1, #list + 1
  while low < high do
    local mid = math.floor((low + high) / 2)
    if list[mid][1] <= addr then low = mid + 1 else high = mid end
  end
  -- An older, longer piece may begin before a newer one that ends before the address.
  local best
  for i = low - 1, math.max(1, low - 16), -1 do
    local e = list[i]
    if addr < e[2] and (not best or e[4] > best[4]) then best = e end
  end
  return best
end

-- The map of a process, which is read at the first use.
-- @func read function(path, uid) -> text, or nil, message, code: see perf.symbols
function M.new(pid, read)
  return setmetatable({ pid = pid, read = read, list = nil, read_at = nil }, Map)
end

-- The symbol of an address.
-- @return name, offset; nothing if it has no symbol
function Map:find(addr)
  if type(addr) ~= "number" then return nil end
  local entry = self.list and M.search(self.list, addr)
  local now = os.time()
  if not entry and self.read_at ~= now then -- the JIT may have added code; read it at most once a second
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

-- Read the map again at the next address.
function Map:forget()
  self.list, self.read_at = nil, nil
end

return M
