-- Names for the addresses of a call chain: of the process's own code, of the kernel's, of what LuaJIT compiled.
--
-- By perf.symbols where it was built; without it an address is shown as its file and the place in it.
local core = require "perf.core"

local M = {}
local Native = {}
Native.__index = Native

-- The executable mappings of this process: {from, to, offset, path}.
local function mappings()
  local list = {}
  local f = io.open "/proc/self/maps"
  for line in f and f:lines() or function() end do
    local from, to, offset, path = line:match "^(%x+)%-(%x+) ..x%S+ (%x+) %S+ %S+ *(.*)$"
    if from then
      list[#list + 1] = { tonumber(from, 16), tonumber(to, 16), tonumber(offset, 16), path }
    end
  end
  if f then f:close() end
  return list
end

-- What is known of this process now.
function M.new()
  local self = setmetatable({ maps = mappings(), by_name = {} }, Native)
  local ok, symbols = pcall(require, "perf.symbols")
  self.resolver = ok and symbols.open { pid = 0 } or nil
  return self
end

local function base(path) return path:match "[^/]+$" or path end

-- One frame for a function, whatever the address in it.
function Native:named(name, kind, module, address)
  local key = kind .. "\0" .. name
  local frame = self.by_name[key]
  if not frame then
    frame = { name = name, func = name, kind = kind, module = module, address = address }
    self.by_name[key] = frame
  end
  return frame
end

-- The name of the function at an address, where there is a symbol for it.
function Native:symbol(address)
  local found = self.resolver and self.resolver:resolve(address)
  return found and found.symbol and ("%s (%s)"):format(found.symbol, found.module and base(found.module) or "?")
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
  -- What is no address may be beyond numbers: a text, on Lua 5.1 and 5.2.
  for _, m in ipairs(type(address) ~= "string" and self.maps or {}) do
    if address >= m[1] and address < m[2] then
      if m[4]:sub(1, 1) == "/" then
        return self:named(("%s+%s"):format(base(m[4]), core.hex(address - m[1] + m[3])), kind, m[4], address)
      end
    end
  end
  -- Of no file: LuaJIT's, whose code is gone when its profiler has stopped; or, further out, no address at all, where
  -- code without frame pointers left something else in their place.
  return self:named("(compiled code)", "jit", nil, address)
end

-- Give up what it holds.
function Native:close()
  if self.resolver then self.resolver:close() end
end

return M
