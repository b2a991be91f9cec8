-- Commands reach all workers.
local server = require "spec.nginx.server"

describe("resty.perf's commands", function()
  before_each(function() requires(server.needs) end)
  after_each(server.stop)

  local function start(setup)
    return server.start { workers = 2, init_worker = setup .. "perf.start{events='task-clock'}", server = [[
      location = /fill { content_by_lua_block { local dict, n = ngx.shared.perf, 0
        for _, size in ipairs { 1000000, 60000, 4000, 1000, 200, 60, 1 } do
          while dict:safe_set("fill" .. n, ("x"):rep(size)) do n = n + 1 end
        end
        ngx.say(n) } } ]] }
  end

  -- Waits until each of the two workers has shown this text on its page.
  local function wait_for(s, text)
    local follows = {}
    s:wait(function()
      local json = s:get "/perf?format=json"
      local pid = json:match '"worker":(%d+)'
      if pid and json:find(text, 1, true) then follows[pid] = true end
      local n = 0
      for _ in pairs(follows) do n = n + 1 end
      return n == 2
    end)
  end

  -- The story: a number of 16 digits was written rounded. The other workers refused it, and their timer failed.
  it("have their numbers exactly", function()
    local s = start ""
    assert.equal(200, select(2, s:get("/perf?do=start&sample=9007199254740991", "-X POST")))
    wait_for(s, '"sample":9007199254740991')
    assert.is_nil(s:errors():find("runtime error", 1, true), s:errors())
  end)

  -- The story: the answer was "done", but the other workers never stopped.
  it("are followed although the dictionary is full", function()
    local s = start ""
    wait_for(s, '"running":true')
    s:get "/fill"
    assert.equal(200, select(2, s:get("/perf?do=stop", "-X POST")))
    wait_for(s, '"running":false')
  end)

  it("say so if the dictionary refuses them", function()
    local s = start [[local commands = require "resty.perf.commands"
      commands.prepare = function() end ]]
    s:get "/fill"
    local text, status = s:get("/perf?do=stop", "-X POST")
    assert.equal(500, status)
    assert.truthy(text:find("the other workers do not follow", 1, true), text)
  end)
end)
