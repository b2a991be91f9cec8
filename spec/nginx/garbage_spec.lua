-- A request that is counted makes no garbage.
--
-- The story: LuaJIT compiles no trace that begins at a function with any arguments, as hooks are, so each hook made two or three
-- boxed addresses of 24 bytes. The log phase made a closure for each request, which is not compiled either, and so took a
-- microsecond more. (Where a worker counts some requests and leaves out others, the rarer ones leave the compiled code.)
local server = require "spec.nginx.server"

describe("resty.perf", function()
  setup(function() requires(server.needs) end)
  after_each(server.stop)

  for name, sample in pairs { ["that is counted"] = 1, ["that is left out"] = "{routes = {['/hooks'] = 0}}" } do
    it("allocates no Lua memory for a request " .. name, function()
      local s = server.start { log = " ", init_worker = ([[
        perf.start{slow = 1000, sample = %s}
        local last, counts = 0, {}
        function note()
          local now = collectgarbage 'count' * 1024
          local grown = now - last
          counts[grown], last = (counts[grown] or 0) + 1, now
        end
        -- Returns what most requests have allocated since the one before. A timer or a new trace allocates too.
        function result()
          local most = next(counts)
          for grown, n in pairs(counts) do if n > counts[most] then most = grown end end
          counts = {}
          return most
        end
        function plain(f) return f() end ]]):format(sample), server = [[
        location = /plain { content_by_lua_block { plain(note) } log_by_lua_block { local a } }
        location = /hooks { content_by_lua_block { perf.content(note) } log_by_lua_block { perf.log() } }
        location = /stop { content_by_lua_block { collectgarbage 'stop' ngx.say 'x' } }
        location = /result { content_by_lua_block { ngx.say(result()) } } ]] }
      local paths, bytes = { "/plain", "/hooks" }, {}
      for _, path in ipairs(paths) do s:load(path, 3000, 1) end -- until everything is compiled
      s:get "/stop"
      for _, path in ipairs(paths) do
        s:get "/result"
        s:load(path, 2000, 1)
        bytes[path] = tonumber((s:get "/result"))
      end
      assert.equal(bytes["/plain"], bytes["/hooks"])
    end)
  end
end)
