-- Each request's counts are exactly its own, while requests of 64 connections take turns on one worker.
local kit = require "testkit"
local server = require "spec.nginx.server"

describe("resty.perf under load", function()
  local s

  before_each(function() requires(server.needs) end)
  after_each(server.stop)

  local function serve(label, opts)
    opts.init_worker = opts.init_worker or ("app.start{events={'task-clock', '%s'}}"):format(label)
    opts.server = ([[location /cost { content_by_lua_block { perf.content(app.cost, "%s") } }]]):format(label)
    s = server.start(opts)
  end

  local function check(event, counted)
    assert.equal(3000, s:load("/cost", 3000, 64))
    assert.truthy(s:get "/tell":find(("checked %d wrong 0"):format(counted or 3000)), s:get "/tell")
    local w = s:worker()
    for _, name in ipairs { event, "task-clock", "lua" } do
      assert.equal(w["whole:" .. name], w["unattributed:" .. name] + w["pending:" .. name] + w["routes:" .. name], name)
    end
    assert.equal(0, w.abandoned)
    assert.equal("", s:errors())
  end

  it("counts page faults, as www-data", function()
    requires { cmd = "setpriv" }
    serve("page-faults:u", { capability = "ipc_lock",
      init_worker = "app.lock_memory() app.start{events={'task-clock', 'page-faults:u'}}" })
    check "page-faults:u"
  end)

  -- The story: for each sample of a page fault, the profiler caused one or two itself: above the end of the C stack, and where
  -- 32-bit numbers on it would point to.
  it("counts page faults, while they are profiled", function()
    requires { cmd = "setpriv" }
    serve("page-faults:u", { capability = "ipc_lock",
      init_worker = "app.lock_memory() app.start{events={'task-clock', 'page-faults:u'}}" })
    local begun = os.time()
    local client = s:profile "flame=page-faults:u&seconds=60"
    check "page-faults:u"
    local _, status = s:get "/perf?flame=page-faults:u&seconds=0.01"
    assert.is_true(status == 409 or os.time() - begun >= 60, status) -- it still runs
    kit.kill(client, 15)
  end)

  it("counts hashed bytes, by a uprobe, as root", function()
    requires { ext = "symbols", uprobe = true }
    local event = ("uprobe:%s:ngx_md5_update"):format(server.binary)
    serve(event, { user = "root", init_worker = ([[
      app.start { events = { "task-clock", require "perf".uprobe { path = "%s", symbol = "ngx_md5_update" } } }]]):format(
        server.binary) })
    check(event)
  end)

  it("counts system calls, as root", function()
    requires { tracepoint = "syscalls:sys_enter_getppid" }
    serve("syscalls:sys_enter_getppid", { user = "root" })
    check "syscalls:sys_enter_getppid"
  end)

  it("counts system calls of one of three requests, while the turns of all are watched", function()
    requires { tracepoint = "syscalls:sys_enter_getppid" }
    serve("syscalls:sys_enter_getppid", { user = "root", init_worker = [[
      app.start{events={'task-clock', 'syscalls:sys_enter_getppid'}, sample=3, blocked=100, waits=true}]] })
    check("syscalls:sys_enter_getppid", 1000)
  end)

  it("counts what Lua allocates", function()
    s = server.start { init_worker = "app.start{events={'lua-alloc-bytes', 'lua-alloc-blocks'}}",
      server = "location /garbage { content_by_lua_block { perf.content(app.garbage) } }" }
    assert.equal(300, s:load("/garbage", 300, 8))
    local w = s:worker()
    for _, name in ipairs { "lua-alloc-bytes", "lua-alloc-blocks" } do
      assert.equal(w["whole:" .. name], w["unattributed:" .. name] + w["pending:" .. name] + w["routes:" .. name], name)
    end
    -- Ten strings of 100 KB, and twice as much for the buffer that they are made in.
    local each = w["route:/garbage:lua-alloc-bytes"] / 300
    assert(each >= 1e6 and each < 4e6, each)
    assert(w["route:/garbage:lua-alloc-blocks"] >= 300 * 10)
    assert.equal("", s:errors())
  end)
end)
