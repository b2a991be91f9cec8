-- Names for the addresses in a call chain: code of the process, of the kernel, and code compiled by LuaJIT.
--
-- Uses perf.symbols if it was built; without it, an address is shown as its file and the offset.
local core = require "perf.core"
local host = require "perf.kernel.host"

local M = {}
local Native = {}
Native.__index = Native

-- A resolver for this process's current mappings.
function M.new()
  local maps = {} -- the executable ones: {from, to, offset, path}
  for from, to, perms, offset, _, _, _, path in host.maps() do
    if perms:find "x" then maps[#maps + 1] = { tonumber(from, 16), tonumber(to, 16), tonumber(offset, 16), path } end
  end
  local self = setmetatable({ maps = maps, by_name = {} }, Native)
  local ok, symbols = pcall(require, "perf.symbols")
  self.resolver = ok and symbols.open { pid = 0 } or nil
  return self
end

local function base(path) return path:match "[^/]+$" or path end

-- The frame of a function; all addresses in it share one.
function Native:named(name, kind, module, address)
  local key = kind .. "\0" .. name
  local frame = self.by_name[key]
  if not frame then
    frame = { name = name, func = name, kind = kind, module = module, address = address }
    self.by_name[key] = frame
  end
  return frame
end

-- The name of the function at an address, if it has a symbol.
function Native:symbol(address)
  local found = self.resolver and self.resolver:resolve(address)
  return found and found.symbol and ("%s (%s)"):format(found.symbol, found.module and base(found.module) or "?")
end

-- The mapping that has the code at an address; nil if there is no code.
function Native:mapping(address)
  -- On Lua 5.1 and 5.2, a value too large for a number is a string; no code is there.
  for _, m in ipairs(type(address) ~= "string" and self.maps or {}) do
    if address >= m[1] and address < m[2] then return m end
  end
end

-- The file that is mapped at an address, and "FILE+OFFSET", which is the same in each run; nil if no file is mapped there.
function Native:place(address)
  local m = self:mapping(address)
  if m and m[4]:sub(1, 1) == "/" then return m[4], ("%s+%s"):format(base(m[4]), core.hex(address - m[1] + m[3])) end
end

-- The frame of an address.
-- @string kind "native" or "kernel"
function Native:frame(kind, address)
  local found = self.resolver and self.resolver:resolve(address)
  if found and found.symbol then
    local where = found.module and base(found.module) or "?"
    if found.module == "[jit]" then kind = "jit" end
    local name = kind == "kernel" and found.symbol or ("%s (%s)"):format(found.symbol, where)
    return self:named(name, kind, found.module, address)
  end
  if kind == "kernel" then return self:named(core.hex(address), kind, "[kernel.kallsyms]", address) end
  local module, name = self:place(address)
  if module then return self:named(name, kind, module, address) end
  -- In no file: code that LuaJIT compiled. Or, further out, not an address at all, if code without frame pointers has left
  -- something else in its place.
  return self:named("(compiled code)", "jit", nil, address)
end

-- Release its resources.
function Native:close()
  if self.resolver then self.resolver:close() end
end

return M
