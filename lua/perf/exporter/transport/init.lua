-- The transport of an exporter's requests: nginx's cosockets within nginx, else LuaSocket, else lua-http.
local late = require "perf.base.late"

local M = {}

local function within_nginx()
  local ngx = rawget(_G, "ngx")
  return type(ngx) == "table" and type(ngx.timer) == "table" and type(ngx.socket) == "table"
end

-- A new transport.
-- @string[opt] which "ngx", "luasocket" or "luahttp"; by default the first that is installed
-- @tab tls {cafile=, capath=, key=, certificate=, verify=false}
-- @return transport; or nil, message
function M.new(which, tls)
  if which then
    local ok, module = pcall(late, "perf.exporter.transport." .. which)
    if not ok then return nil, ("the transport '%s' is not installed: %s"):format(which, tostring(module):match "^[^\n]*") end
    return module.new(tls)
  end
  if within_nginx() then return late("perf.exporter.transport.ngx").new(tls) end
  for _, name in ipairs { "luasocket", "luahttp" } do
    local ok, module = pcall(late, "perf.exporter.transport." .. name)
    if ok then return module.new(tls) end
  end
  return nil, "no transport is installed: install LuaSocket (apt-get install lua-socket) or lua-http"
end

return M
