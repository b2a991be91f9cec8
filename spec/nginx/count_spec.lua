-- Each request's counts are its own, to the unit, while 64 connections' requests take turns on one worker.
local server = require "spec.nginx.server"

describe("resty.perf under load", function()
  local s

  before_each(function() requires(server.needs) end)
  after_each(function()
    if s then s:stop() end
    s = nil
  end)

  -- spec: the event as Lua text, where its name alone does not open it
  local function serve(event, user, spec)
    s = server.start { user = user, init_worker = ("app.start{events={'task-clock', %s}}"):format(spec or "'" .. event .. "'"),
      server = [[
      location /cost { content_by_lua_block { perf.content(app.cost, "]] .. event .. [[") } } ]] }
    for _ = 1, 3 do s:load("/cost", 300, 64) end -- memory grows to what 64 need
  end

  -- How far all counts together are off.
  local function off() return tonumber(s:get "/tell":match "off (%d+)") end

  local function check(event, stray)
    local before = off()
    assert.equal(3000, s:load("/cost", 3000, 64))
    assert.truthy(off() - before <= stray, off() - before .. " off: " .. s:get "/tell")
    local w = s:worker()
    for _, name in ipairs { event, "task-clock", "lua" } do
      assert.equal(w["whole:" .. name], w["unattributed:" .. name] + w["pending:" .. name] + w["routes:" .. name], name)
    end
    assert.equal(0, w.abandoned)
    assert.equal("", s:errors())
  end

  it("page faults, as www-data", function()
    serve "page-faults:u"
    check("page-faults:u", 30) -- pages that memory of the worker's own grew by, one at a time
  end)

  it("bytes hashed, by a uprobe, as root", function()
    requires { module = "perf.symbols", uprobe = true }
    local event = "uprobe:/usr/sbin/nginx:ngx_md5_update"
    serve(event, "root", "require('perf').uprobe{path = '/usr/sbin/nginx', symbol = 'ngx_md5_update'}")
    check(event, 0)
  end)

  it("system calls, as root", function()
    requires { tracepoint = "syscalls:sys_enter_getppid" }
    serve("syscalls:sys_enter_getppid", "root")
    check("syscalls:sys_enter_getppid", 0)
  end)
end)
