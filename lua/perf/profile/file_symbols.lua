-- The symbols of files that processes have mapped: one resolver for each file, however many processes have it. To read the
-- symbols and lines of a file takes long, above all if its debug information is compressed.
--
-- A file is the same one if it has the same inode, path and build id: the inode of a library that was replaced may be used again.
local core = require "perf.core"
local late = require "perf.base.late"
local pairs_of = require "perf.base.pairs"

local M = {}
local Files = {}
Files.__index = Files

-- @return an object without files
function M.new()
  local ok, symbols = pcall(late, "perf.symbols")
  return setmetatable({ symbols = ok and symbols or nil, by_key = {} }, Files)
end

-- The names by which this process may be able to read a file of another one, which may be in a container. Root can read a file
-- that was replaced or deleted under its addresses.
local function names_of(map, pid)
  if not pid then return { map.path } end
  local proc = ("/proc/%d/"):format(pid)
  local mapped = ("map_files/%s-%s"):format(core.hex(map.from):sub(3), core.hex(map.to):sub(3))
  return { proc .. "root" .. map.path, proc .. mapped, map.path }
end

-- Such a name, and the file's build id, if any.
local function name_of(map, pid)
  for _, name in ipairs(names_of(map, pid)) do
    local id, _, code = core.build_id(name)
    if id or code == "ENODATA" then return name, id end
  end
  return map.path
end

-- The resolver of a mapping's file: {resolver =, from = the first address of the same part of the file}; false if it cannot be
-- read.
local function open(self, map, pid)
  local name, id = name_of(map, pid)
  local key = table.concat({ map.file, map.path, map.offset, id or "" }, "\0")
  local found = self.by_key[key]
  if found == nil then
    local resolver = self.symbols and self.symbols.open { maps = {
      { addr = map.from, len = map.to - map.from, pgoff = map.offset, filename = name } } }
    if resolver and resolver.problems[1] then
      resolver:close()
      resolver = nil
    end
    found = resolver and { resolver = resolver, from = map.from } or false
    self.by_key[key] = found
  end
  return found
end

-- The symbol at an address, or nil; and whether the file can be read.
-- @tab map the mapping of a file that has the address, one of host.code
-- @number[opt] pid the process, if it still runs the program
function Files:symbol(map, address, pid)
  if map.opened == nil then map.opened = open(self, map, pid) end
  if not map.opened then return nil, false end
  local found = map.opened.resolver:resolve(address - map.from + map.opened.from)
  return found and found.symbol, true
end

-- Release their resources.
function Files:close()
  for _, found in pairs_of(self.by_key) do
    if found then found.resolver:close() end
  end
end

return M
