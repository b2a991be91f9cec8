-- Counts the chunks of nginx's configuration that have no hooks: each is called by the hook of its phase.
--
-- nginx's Lua module loads a chunk at its first run in a worker, and stores it in a table of the registry, its cache. The key has
-- the directive and the digest of the text. The key of a file has no directive, since several may name the same file.
local core = require "perf.core"
local ffi = require "ffi"
local pairs_of = require "perf.base.pairs"

local getfenv, setfenv = getfenv, setfenv

local M = {}

-- The cache, or nil: the table whose key in the registry is the address of this variable.
local function find_cache()
  pcall(ffi.cdef, "extern char ngx_http_lua_code_cache_key[1];")
  local found, variable = pcall(function() return ffi.C.ngx_http_lua_code_cache_key end)
  if not found then return nil end
  local address = tonumber(ffi.cast("uintptr_t", variable)) % 2 ^ 47
  for key, t in pairs_of(debug.getregistry()) do
    if type(key) == "userdata" and type(t) == "table" and tonumber((tostring(key):match "0x%x+")) == address then return t end
  end
end

-- Whether nginx's Lua module was compiled for OpenResty's LuaJIT. Otherwise the cache has functions that make the chunk, one for
-- each run, and the module sets the environment of this chunk.
local function keeps_chunks() return (pcall(require, "thread.exdata")) end

-- The function that takes the place of a chunk.
-- @param hooks by phase
-- @param key of the cache
local function counted(hooks, key, chunk)
  local hook = hooks[key:match "^([%l_]+)_by_lua_nhli_%x+$"]
  if hook then return function(...) return hook(chunk, ...) end end
  local get_phase = ngx.get_phase
  return function(...)
    local phase = get_phase()
    local in_phase = hooks[phase == "ssl_cert" and "ssl_certificate" or phase]
    if in_phase then return in_phase(chunk, ...) end
    return chunk(...)
  end
end

-- The same for a function that makes the chunk.
local function maker_of_counted(hooks, key, make)
  return function()
    local chunk = make()
    local run = counted(hooks, key, chunk)
    return function(...)
      setfenv(chunk, getfenv(1))
      return run(...)
    end
  end
end

-- Let hooks call all chunks that nginx loads from now on.
-- @param hooks by phase
-- @param[opt] cache nginx's cache (default: it is searched for)
-- @param[opt] keeps whether the cache has the chunks themselves
-- @return true; or nil and a message
function M.install(hooks, cache, keeps)
  cache = cache or find_cache()
  if not cache then return nil, "this version of nginx's Lua module has no known cache of chunks" end
  if getmetatable(cache) then return nil, "another module watches nginx's cache of chunks" end
  if keeps == nil then keeps = keeps_chunks() end
  local wrap = keeps and counted or maker_of_counted
  local from_first = core.wrap_chunks(cache, function(key, chunk) return wrap(hooks, key, chunk) end)
  if not from_first then return nil, "the first run of each chunk in a worker is not counted" end
  return true
end

return M
