-- A leak in a worker is the first row of both reports: of the lines that allocate, and of the paths that hold the memory.
local load_profile = require "perf.profile.load"
local server = require "spec.nginx.server"

local PERIOD, REQUESTS = 65536, 1000 -- 4 MB of each leak: the rest of the worker's memory is less

-- Each kind of leak, and a word in the first path of its snapshot. Timers come last, since nothing can free them.
local LEAKS = { { "cache", ".cache" }, { "registry", "registry" }, { "coroutine", ".coroutines" },
  { "ffi", ".objects" }, { "timer", "registry" } }

describe("resty.perf's live heap", function()
  after_each(server.stop)

  it("shows leaks of five kinds first, by line and by path", function()
    requires(server.needs)
    requires { registers = true }
    local places = {}
    for i, leak in ipairs(LEAKS) do
      places[i] = ("location = /%s { content_by_lua_block { perf.content(app.%s) } }"):format(leak[1], leak[1])
    end
    local s = server.start { app = "spec.nginx.leaks_app", http = "lua_max_pending_timers 10000;",
      init_worker = ("app.start{events='page-faults:u', heap=%d}"):format(PERIOD), server = table.concat(places, "\n") .. [[
      location = /garbage { content_by_lua_block { perf.content(app.garbage) } }
      location = /collect { content_by_lua_block { app.collect() } }
      location = /forget { content_by_lua_block { app.forget() } } ]] }
    for _, leak in ipairs(LEAKS) do
      local kind, holder = leak[1], leak[2]
      assert.equal(REQUESTS, s:load("/" .. kind, REQUESTS, 8))
      assert.equal(20, s:load("/garbage", 20, 4))
      assert.equal("x\n", (s:get "/collect"))
      local text, status = s:get "/perf?heap=speedscope"
      assert.equal(200, status, text)
      local top = assert(load_profile.decode(text)):top()
      assert.truthy(top.lines[1].name:find("leaks_app.lua", 1, true), kind .. "\n" .. tostring(top))
      assert.equal("/" .. kind, top.zones[1].name)
      text, status = s:get("/perf?do=snapshot", "-X POST")
      if status ~= 501 then -- 501: snapshots do not support this LuaJIT
        local first = text:match "\n *retained[^\n]*\n([^\n]+)"
        assert.truthy(first and first:find(holder, 1, true), kind .. "\n" .. text)
      end
      assert.equal("x\n", (s:get "/forget"))
    end
    assert.equal("", s:errors())
  end)
end)
