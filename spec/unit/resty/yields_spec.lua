-- resty.perf.yields with a simulated host: where turns end and continue.
local yields = require "resty.perf.yields"

describe("resty.perf.yields", function()
  local log, ngx, undo, current, serial

  local function say(...)
    local words = {}
    for i = 1, select("#", ...) do words[i] = tostring((select(i, ...))) end
    log[#log + 1] = table.concat(words, " ")
  end

  before_each(function()
    log, current, serial = {}, "A", 1
    local methods = {}
    for _, name in ipairs { "connect", "send", "receive", "settimeout" } do
      methods[name] = function(_, ...) say(name, ...) return name, nil, "last" end
    end
    function methods.receiveuntil() return function(n) say("iterator", n) return "line" end end
    local function f(name) return function(...) say(name, ...) return name end end
    local function opens() return setmetatable({}, { __index = methods }) end
    ngx = { sleep = f "sleep", flush = f "flush", exit = f "exit", exec = f "exec", redirect = f "redirect",
      req = { read_body = f "read_body", set_uri = f "set_uri", socket = opens },
      socket = { tcp = opens, connect = opens }, location = { capture = function(uri, opts) say("capture", uri, opts)
        return { body = "b" } end, capture_multi = function(list) say("multi", #list) return 1, nil, 3 end },
      thread = { spawn = function(fn, ...) return "thread", fn(...) end, wait = f "wait" },
      timer = { at = function(delay, fn, ...) say("at", delay) return fn(false, ...) end } }
    undo = yields.install(ngx, {
      request = function() return current end,
      leave = function(r) if r ~= "A" then return 0 end say "leave" serial = serial + 1 return 4 end,
      serial = function() return serial end,
      nested = function() return false end,
      at = function() return 0, 0 end,
      turn = function(r) return r == "A" and 4 or 0 end,
      back = function(r, phase, keep) say("back", r, phase, keep) end,
    }, {
      timer = function(fn, ...) say "timer" return fn(...) end,
    }, { ["ngx.pipe"] = {}, ["ngx.semaphore"] = {} })
  end)
  after_each(function() undo() end)

  local function logged(text) assert.equal(text, table.concat(log, ", ")) end

  it("ends the turn at a call that yields, and returns all results, including nil", function()
    local sock = ngx.socket.tcp()
    local n = select("#", sock:send "x")
    assert.equal(3, n)
    ngx.sleep(1)
    logged "leave, send x, back A 4 0, leave, sleep 1, back A 4 0"
  end)

  it("does not end the turn at calls that cannot yield, nor the turns of other requests", function()
    local sock = ngx.socket.tcp()
    sock:settimeout(1)
    ngx.flush()
    ngx.req.set_uri("/x")
    current = "B"
    ngx.sleep(2)
    sock:receive(1)
    logged "settimeout 1, flush, set_uri /x, sleep 2, receive 1"
  end)

  it("ends the turn at flush(true), set_uri(uri, true), and an iterator of receiveuntil", function()
    ngx.flush(true)
    ngx.req.set_uri("/x", true)
    assert.equal("line", ngx.socket.tcp():receiveuntil "x"(3))
    logged "leave, flush true, back A 4 0, leave, set_uri /x true, back A 4 0, leave, iterator 3, back A 4 0"
  end)

  local function failing()
    undo()
    local err = {}
    ngx.flush = function() error(err) end
    ngx.sleep = function() error("no position", 0) end
    undo = yields.install(ngx, { request = function() return "A" end, leave = function() say "leave" return 4 end,
      back = function() say "back" end, at = function() return 0, 0 end }, {}, { ["ngx.pipe"] = {}, ["ngx.semaphore"] = {} })
    return err
  end

  it("continues the turn after an error, which is unchanged", function()
    local err = failing()
    local _, caught = pcall(ngx.flush, true)
    assert.equal(err, caught)
    logged "leave, back"
  end)

  it("gives an error without a position the caller's line", function()
    requires { lua = "luajit" } -- nginx's Lua; Lua 5.1 has a frame for the tail call, which has no line
    failing()
    local _, message = pcall(function() local x = ngx.sleep(1) return x end)
    assert.truthy(message:find "yields_spec.lua:%d+: no position$", message)
    logged "leave, back"
  end)

  it("ends the turn at a subrequest", function()
    assert.equal("b", ngx.location.capture("/x", "options").body)
    assert.equal(3, select("#", ngx.location.capture_multi { { "/a" }, { "/b" } }))
    logged "leave, capture /x options, back A 4 0, leave, multi 2, back A 4 0"
  end)

  it("continues the parent's turn after a thread, unless that thread yielded", function()
    assert.equal("thread", (ngx.thread.spawn(function(x) say("in", x) end, 7)))
    logged "back A 4 1, in 7, back A 4 1"
    log = {}
    assert.equal("thread", (ngx.thread.spawn(function() ngx.sleep(1) end)))
    logged "back A 4 1, leave, sleep 1, back A 4 0, leave, back A 4 1"
  end)

  it("does not take waiting for a finished thread as a yield", function()
    undo()
    local status = coroutine.status
    rawset(coroutine, "status", function(co) return co == current.done and "zombie" or "suspended" end)
    current = { done = coroutine.create(function() end) }
    local other = coroutine.create(function() end)
    local undo_wait = yields.install(ngx, { request = function() return "A" end, leave = function() say "leave" return 4 end,
      back = function() say "back" end, at = function() return 0, 0 end }, {}, { ["ngx.pipe"] = {}, ["ngx.semaphore"] = {} })
    rawset(coroutine, "status", status)
    ngx.thread.wait(current.done)
    assert.truthy(log[1]:find "^wait" and #log == 1)
    ngx.thread.wait(other, current.done)
    undo_wait()
    assert.equal("leave", log[2])
    assert.equal("back", log[4])
  end)

  it("wraps timers and coroutine.yield", function()
    ngx.timer.at(5, function(premature, x) say(premature, x) end, 8)
    local co = coroutine.wrap(function() return coroutine.yield "out" end)
    assert.equal("out", co())
    co()
    logged "at 5, timer, false 8, back A 4 1"
  end)
end)
