-- Names of the C functions of other processes, by the processes' mappings.
--
-- If a process has the same file of the interpreter or of a library as this one, both have the same functions at the same places
-- in it. So a function's address is translated to this process, where Lua's own functions are known by name.
local host = require "perf.kernel.host"
local file_symbols = require "perf.profile.file_symbols"
local late = require "perf.base.late"
local native = require "perf.profile.native"
local pairs_of = require "perf.base.pairs"

local M = {}
local Names = {}
Names.__index = Names

-- @tab images array of {pid =, maps =, file =}, as in the result of core.collector
-- @param global the address of this Lua state's global state
-- @tab interpreters a set of the paths of files that have an interpreter of Lua
function M.new(images, global, interpreters)
  local self = setmetatable({ images = {}, global = global, interpreters = interpreters, natives = {},
    files = file_symbols.new() }, Names)
  self:see(images)
  return self
end

-- Go on with the images of a later result. What was found of those that have not changed is known already.
function Names:see(images)
  self.own, self.functions = host.code(host.maps()), late "perf.profile.c_functions".new()
  for i, image in ipairs(images) do
    local known, names = self.images[i], self.natives[i]
    if not known or known.of.maps ~= image.maps then
      self.images[i] = { of = image, code = host.code(host.mappings(image.maps)) }
    end
    if names and not names:is_of(image) then
      names:close()
      self.natives[i] = nil
    end
  end
end

-- The names of the code of an image; without one, of the kernel.
local function native_names(self, i)
  local found = self.natives[i]
  if not found then
    local image = self.images[i]
    found = native.new(image and image.of, image and self.files)
    self.natives[i] = found
  end
  return found
end

-- The mapping of a frame's address, and that address in the process of its image; nil and the address if no code is there.
local function place(self, f)
  local image = self.images[f.image]
  local map = image and image.code[1]
  if map and image.of.file then return map, f.address - map.offset + map.from end
  return image and host.code_at(image.code, f.address), f.address
end

-- The name of a C function.
-- @tab f a frame of the result, with `image` and `address`, or with `builtin`
-- @return the name; true if it belongs to Lua's own libraries; nil if no code is there
function Names:find(f)
  if f.builtin then return self.functions:find(self.global + f.builtin) or "builtin function", true end
  local map, address = place(self, f)
  if not map then return nil end
  for _, own in ipairs(self.own) do
    local here = address - map.from + map.offset - own.offset + own.from
    if map.file and own.file == map.file and here >= own.from and here < own.to then
      local name, is_own = self.functions:find(here)
      if name then return name, is_own end
    end
  end
  return native_names(self, f.image):symbol(address) or native.place(map, address)
end

-- The frame of an address in a call chain, as that of perf.profile.native; true if the interpreter's code is there.
function Names:native(f)
  local map, address = place(self, f)
  return native_names(self, self.images[f.image] and f.image or 0):frame(f.kind, address), map and self.interpreters[map.path]
end

-- Release its resources.
function Names:close()
  for _, found in pairs_of(self.natives) do found:close() end
  self.files:close()
end

return M
