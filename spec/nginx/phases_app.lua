--- The application of spec/nginx/phases_spec.lua.
local app = require "spec.nginx.app"
local balancer = require "ngx.balancer"

--- Hooks that only call their function.
app.without = setmetatable({}, { __index = function() return function(f, ...) return f(...) end end })

function app.balance()
  app.spend(3)
  assert(balancer.set_current_peer("127.0.0.1", ngx.var.server_port))
end

return app
