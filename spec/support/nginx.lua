--- A simulated nginx for resty.perf: one worker that serves one request, with only the functions that resty.perf uses.
--
--     local host = nginx.new()
--     local resty = host:load()            -- resty.perf, loaded anew with this host
--     host:run(resty.start, {events = "page-faults"})
--
-- The global ngx exists only during host:run, since other modules use it to detect nginx.
local Host = {}
Host.__index = Host

local nginx = {}

local function nothing() end

-- lua_shared_dict
local function dictionary()
  local t, dict = {}, {}
  function dict:get(key) return t[key], self and nil end
  function dict:set(key, v)
    t[key] = v
    return self and true
  end
  function dict:add(key, v) return t[key] == nil and self:set(key, v) or nil end
  function dict:incr(key, by, init)
    if not t[key] and not init then return nil, "not found" end
    t[key] = (t[key] or init) + by
    return t[key], self and nil
  end
  dict.safe_set, dict.safe_add = dict.set, dict.add
  function dict:delete(key) t[key] = self and nil end
  function dict:free_space() return self and 1e6 end
  dict.capacity = dict.free_space
  function dict:rpush(key) return self:incr(key .. " n", 1, 0) end
  function dict:lpush(key) return self:incr(key .. " n", 1, 0) end
  dict.lrange = nothing
  return dict
end

local function host_table(self)
  return { WARN = 5, ERR = 4, status = 200, is_subrequest = false, ctx = {}, header = {}, said = {},
    req = { start_time = function() return 1e9 end, get_method = function() return "GET" end,
      get_uri_args = function() return {} end, http_version = function() return 1.1 end, socket = nothing },
    var = { uri = "/cart", remote_addr = "127.0.0.1", arg_format = "json", request_uri = "/cart", request_method = "GET",
      host = "localhost", http_host = "localhost", server_name = "" },
    now = function() return 1e9 + 0.5 end, time = function() return 1e9 end, update_time = nothing, log = nothing,
    timer = { every = function() return true end, at = function(_, fn, arg)
      table.insert(self.timers, { fn, arg })
      return true
    end },
    sleep = function() self:fire() end,
    shared = { perf = dictionary() }, worker = { pid = function() return 7 end }, get_phase = function() return "content" end,
    crc32_short = function(text) return #text end, say = nothing, print = nothing, socket = {}, location = {}, thread = {} }
end

function nginx.new()
  local self = setmetatable({ timers = {} }, Host)
  self.ngx = host_table(self)
  return self
end

--- Fire the timers that ngx.sleep waits for.
function Host:fire()
  local due = self.timers
  self.timers = {}
  for _, timer in ipairs(due) do timer[1](false, timer[2]) end
end

local function finished(ok, ...)
  rawset(_G, "ngx", nil)
  if not ok then error((...), 0) end
  return ...
end

--- Calls a function like nginx.
function Host:run(fn, ...)
  rawset(_G, "ngx", self.ngx)
  return finished(pcall(fn, ...))
end

--- Loads resty.perf anew for this host, since its state belongs to a worker.
function Host:load()
  local address = require "ffi".cast("void *", 4096)
  for name in pairs(package.loaded) do
    -- The accounting's module stays loaded: FFI types are never freed.
    if name:find "^resty%.perf" and name ~= "resty.perf.accounting" then package.loaded[name] = nil end
  end
  local base = package.loaded["resty.core.base"]
  package.loaded["resty.core.base"] = { get_request = function() return address end }
  self.perf = self:run(require, "resty.perf")
  package.loaded["resty.core.base"] = base
  return self.perf
end

return nginx
