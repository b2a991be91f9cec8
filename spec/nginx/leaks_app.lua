--- Leaks of known kinds. Each leaks 4 KB in each request; `M.forget` drops what they hold, except for timers.
local ffi = require "ffi"
local app = require "spec.nginx.app"

local SIZE = 4000

local M = setmetatable({}, { __index = app })
M.kinds = {}
local n = 0

local function number()
  n = n + 1
  return n
end

local held = { cache = {}, coroutines = {}, objects = {}, keys = {} }
function M.kinds.cache()
  held.cache[number()] = ("c"):rep(SIZE) .. n
end

function M.kinds.registry()
  local t = {}
  for i = 1, SIZE / 16 do t[i] = i end
  local key = "a leak " .. number()
  held.keys[#held.keys + 1], debug.getregistry()[key] = key, t
end

function M.kinds.coroutine()
  local co = coroutine.create(function()
    local text = ("t"):rep(SIZE) .. number()
    coroutine.yield()
    return text
  end)
  coroutine.resume(co)
  held.coroutines[number()] = co
end

function M.kinds.ffi()
  held.objects[number()] = ffi.gc(ffi.new("char[?]", SIZE), function() n = n + 0 end)
end

function M.kinds.timer()
  local text = ("d"):rep(SIZE) .. number()
  assert(ngx.timer.at(10000, function() return text end))
end

for kind, leak in pairs(M.kinds) do
  M[kind] = function()
    leak()
    ngx.say "x"
  end
end

function M.forget()
  for _, key in ipairs(held.keys) do debug.getregistry()[key] = nil end
  for what in pairs(held) do held[what] = {} end
  M.collect()
end

function M.collect()
  for _ = 1, 3 do collectgarbage() end
  ngx.say "x"
end

return M
