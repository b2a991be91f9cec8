-- Names for the addresses in a call chain: code of the process, of the kernel, and code compiled by LuaJIT.
--
-- Uses perf.symbols if it was built; without it, an address is shown as its file and the offset.
local core = require "perf.core"
local host = require "perf.kernel.host"
local late = require "perf.base.late"
local printed = require "perf.base.printed"

local M = {}
local Native = {}
Native.__index = Native

-- Whether the process of an image still runs the program: it has the first mapping of the image.
local function runs(image)
  local first = image.maps:match "^[^\n]+"
  local now = first and host.read_file(("/proc/%d/maps"):format(image.pid))
  return now ~= nil and ("\n" .. now):find("\n" .. first .. "\n", 1, true) ~= nil
end

-- Load perf.symbols, which takes a millisecond; it is nil if it was not built.
function M.load()
  local ok, symbols = pcall(late, "perf.symbols")
  return ok and symbols or nil
end

-- Names for this process's current mappings; or for an image of another process, which may have ended, or run another program
-- now.
-- @tab[opt] image {pid =, maps =}, as in the result of core.collector
-- @tab[opt] files the symbols of its files, a perf.profile.file_symbols
function M.new(image, files)
  local self = setmetatable({ image = image, files = files, by_name = {} }, Native)
  self.code = host.code(image and host.mappings(image.maps) or host.maps())
  self.pid = image and runs(image) and image.pid or nil
  return self
end

-- Whether they are still those of an image.
function Native:is_of(image)
  return self.image.maps == image.maps and (self.pid ~= nil) == runs(image)
end

-- Prepare to look up symbols, which takes some tenths of a millisecond. Without this call, look_up does it.
function Native:open()
  if self.resolver ~= nil then return end
  local symbols = M.load()
  self.resolver = symbols and (self.pid or not self.image) and symbols.open { pid = self.pid or 0 } or false
end

-- The symbol at an address, and its file; nil if it has none. What is in no file that can be read, such as compiled code with a
-- map for perf, is looked up in the process.
function Native:look_up(address)
  local map = self.files and self:mapping(address)
  if map and map.file then
    local symbol, is_readable = self.files:symbol(map, address, self.pid)
    if is_readable then return symbol, map.path end
  end
  self:open()
  local found = self.resolver and self.resolver:resolve(address)
  if found then return found.symbol, found.module end
end

local function base(path) return path:match "[^/]+$" or path end

-- "FILE+OFFSET" of an address in a mapping of host.code: a name that is the same in each run.
function M.place(m, address) return ("%s+%s"):format(base(m.path), core.hex(address - m.from + m.offset)) end

-- The frame of a function; all addresses in it share one.
function Native:named(name, kind, module, address)
  local key = kind .. "\0" .. name
  local frame = self.by_name[key]
  if not frame then
    frame = printed.table { name = name, func = name, kind = kind, module = module, address = address }
    self.by_name[key] = frame
  end
  return frame
end

-- The name of the function at an address, if it has a symbol.
function Native:symbol(address)
  local symbol, module = self:look_up(address)
  return symbol and ("%s (%s)"):format(symbol, module and base(module) or "?")
end

-- The mapping that has the code at an address; nil if there is no code.
function Native:mapping(address) return host.code_at(self.code, address) end

-- The file that is mapped at an address, and "FILE+OFFSET"; nil if no file is mapped there.
function Native:place(address)
  local m = self:mapping(address)
  if m and m.path:sub(1, 1) == "/" then return m.path, M.place(m, address) end
end

-- The frame of an address.
-- @string kind "native" or "kernel"
function Native:frame(kind, address)
  local symbol, module = self:look_up(address)
  if symbol then
    if module == "[jit]" then kind = "jit" end
    local name = kind == "kernel" and symbol or ("%s (%s)"):format(symbol, module and base(module) or "?")
    return self:named(name, kind, module, address)
  end
  if kind == "kernel" then return self:named(core.hex(address), kind, "[kernel.kallsyms]", address) end
  local path, name = self:place(address)
  if path then return self:named(name, kind, path, address) end
  -- In no file: code that LuaJIT compiled. Or, further out, not an address at all, if code without frame pointers has left
  -- something else in its place.
  return self:named("(compiled code)", "jit", nil, address)
end

-- Release its resources.
function Native:close()
  if self.resolver then self.resolver:close() end
end

return M
