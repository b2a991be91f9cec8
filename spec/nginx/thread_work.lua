--- Code for a thread of nginx's pool, in a Lua state of its own.
local kit = require "testkit"

return {
  run = function(n)
    kit.syscalls(n)
    return n
  end,
}
