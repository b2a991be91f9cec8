--- Code for a thread of nginx's pool, which has a separate Lua state.
local kit = require "testkit"

return {
  run = function(n)
    kit.syscalls(n)
    return n
  end,
}
