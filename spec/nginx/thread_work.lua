--- What runs on a thread of nginx's pool, in a Lua of its own.
local kit = require "testkit"

return {
  run = function(n)
    kit.syscalls(n)
    return n
  end,
}
