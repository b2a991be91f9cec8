-- The story: the first listing of a directory was refused memory while it made the metatable of its objects. The metatable stayed
-- without a finalizer, so that each later listing that was refused memory left a descriptor open. It happened on LuaJIT and Lua
-- 5.1.
local util = require "spec.support.util"

describe("a listing of a directory", function()
  it("leaves no descriptor open when memory is refused, even if it was refused at the first one", function()
    util.with_tmpname(function(path)
      util.write_file(path, [[
        if rawget(_G, "jit") then jit.off() end
        local core, kit = require "perf.core", require "testkit"
        local function list() pcall(core.listdir, "/proc/self") end
        kit.fail_alloc(tonumber(arg[1]), function() pcall(list) end)
        local allocations = kit.fail_alloc(0, list)
        local function open() return #core.listdir "/proc/self/fd" end
        local before = open()
        for n = 1, allocations do kit.fail_alloc(n, function() pcall(list) end) end
        collectgarbage()
        collectgarbage()
        io.write(open() - before)]])
      for n = 1, 12 do
        local more = util.shell(("%s %s %d"):format(util.lua(), path, n))
        assert.is_true(tonumber(more) <= 0, more)
      end
    end)
  end)
end)
