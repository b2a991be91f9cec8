-- Wraps the host's functions in which a request's Lua may yield: a turn ends before such a call and continues after it.
--
-- The wrappers are in Lua, since nothing can yield across a C function. The work that such a function does in C itself, such as
-- write(2), is outside of the turn. If no turn of this request is open, a wrapper only calls the host's function.
--
--   the turn ends       sockets, sleep, subrequests, semaphores, waiting for threads, reading the body, exit, exec, redirect ...
--   the turn goes on    ngx.thread.spawn and coroutine.yield: the host runs another thread of the same request at once, which may
--                       end the turn; ngx.thread.wait for a thread that is done already
--   a separate turn     callbacks: timers, new threads, on_abort
--
-- coroutine.create, resume and wrap need no wrapper: the host switches between them without an event in between.
local fit = require "resty.perf.routes".peer
local nesting = require "resty.perf.nesting"

local M = {}

-- Wrap the host's functions.
-- @param ngx the host's table
-- @param turns {leave=, back=, turn=, nested=, serial=, request=, at=}: of resty.perf.accounting; request() returns the address
-- of the running request; at(phase, kind, peer, ...) returns the site of a call and the time, for `back`
-- @param hooks {timer=, find=}: timer(fn, ...) runs a timer's callback; find(path) returns the name of a route
-- @param[opt] modules loaded modules; package.loaded
-- @return function that restores the host's functions (for the tests)
function M.install(ngx, turns, hooks, modules)
  local turn, nested, serial, request, at = turns.turn, turns.nested, turns.serial, turns.request, turns.at
  local status = coroutine.status
  local undo, patched = {}, {}
  local peers = setmetatable({}, { __mode = "k" }) -- the address of each socket's peer, as text

  -- LuaJIT compiles these, but no trace can begin at a function that takes any arguments, such as a wrapper.
  local function leave() return turns.leave(request()) end
  local function back(phase, keep, site, from) return turns.back(request(), phase, keep, site, from) end

  -- Replace the function t[key], if there is one, by the result of make(t[key]).
  local function replace(t, key, make)
    local old = t and rawget(t, key)
    if type(old) ~= "function" then return end
    rawset(t, key, make(old))
    undo[#undo + 1] = function() rawset(t, key, old) end
  end

  -- Raise an error of a host's function as it would be without the wrapper. C functions take the name by which they were called,
  -- and the line, from their caller, which was pcall; `returned` has replaced the wrapper on the stack.
  local function raise(err)
    if type(err) ~= "string" then error(err, 0) end
    local called = debug.getinfo(2, "n")
    err = err:gsub("^bad argument #(%d+) to '%?'", function(n)
      n = called.namewhat == "method" and n - 1 or n
      return ("bad argument #%d to '%s'"):format(n, called.name or "?")
    end)
    error(err, err:find "^[^\n]-:%d+: " and 0 or 3)
  end

  -- The turn continues after an error too, since the program may catch it.
  local function returned(phase, site, from, ok, ...)
    back(phase, 0, site, from)
    if not ok then raise(...) end
    return ...
  end

  local function no_peer() return "" end

  -- Wrap a function that may yield. kind: the text for its waits; peer(...): computes, from the function's arguments, what it
  -- waits for.
  local function yielding(f, kind, peer)
    peer = peer or no_peer
    return function(...)
      local phase = leave()
      if phase <= 0 then return f(...) end
      local site, from = at(phase, kind, peer, ...)
      return returned(phase, site, from, pcall(f, ...))
    end
  end

  local function yields(kind, peer)
    return function(f) return yielding(f, kind, peer) end
  end

  -- Wrap a function that yields only if its n-th argument is true.
  local function yielding_if(n, kind)
    return function(f)
      local may_yield = yielding(f, kind)
      return function(...)
        if not select(n, ...) then return f(...) end
        return may_yield(...)
      end
    end
  end

  local function still(phase, ...)
    back(phase, 1)
    return ...
  end

  local function within(f)
    return function(...)
      local phase = turn(request())
      if phase == 0 then return f(...) end
      return still(phase, f(...))
    end
  end

  -- The turn of a callback.
  local function left(...)
    leave()
    return ...
  end

  local function run(phase, f)
    back(phase, 0)
    return left(f())
  end
  nesting.hooks[run] = true

  -- A thread's first turn is its parent's: if the thread ends without a yield, the parent continues in the same turn.
  local function ended(before, ...)
    if serial() ~= before then leave() end
    return ...
  end

  local function start(phase, before, f, ...)
    back(phase, 1)
    return ended(before, f(...))
  end
  nesting.hooks[start] = true

  local function spawning(spawn)
    return function(f, ...)
      local phase = turn(request())
      if phase == 0 or type(f) ~= "function" then return spawn(f, ...) end
      return still(phase, spawn(start, phase, serial(), f, ...))
    end
  end

  local function waiting(wait)
    local may_yield = yielding(wait, "thread")
    return function(thread, ...)
      if type(thread) == "thread" and status(thread) == "zombie" then return wait(thread, ...) end
      return may_yield(thread, ...)
    end
  end

  local function address(host, port)
    return fit(tostring(host) .. (type(port) == "number" and ":" .. port or type(port) == "string" and ":" .. port or ""))
  end

  local function peer_of(sock) return peers[sock] or "" end

  -- A socket's peer is known when it connects.
  local function connects(sock, host, port)
    local text = address(host, port)
    if type(sock) == "table" then peers[sock] = text end
    return text
  end

  -- Methods of sockets. A version of the host may lack some of them.
  local function patch(methods)
    if type(methods) ~= "table" or patched[methods] then return end
    patched[methods] = true
    for _, name in ipairs { "connect", "setpeername" } do replace(methods, name, yields(name, connects)) end
    for _, name in ipairs { "sslhandshake", "send", "receive", "receiveany" } do replace(methods, name, yields(name, peer_of)) end
    replace(methods, "receiveuntil", function(receiveuntil)
      return function(sock, ...)
        local iterator, message = receiveuntil(sock, ...)
        if iterator then return yielding(iterator, "receiveuntil", function() return peer_of(sock) end) end
        return nil, message
      end
    end)
  end

  local function opened(peer, sock, ...)
    local mt = type(sock) == "table" and getmetatable(sock)
    if mt then
      patch(rawget(mt, "__index"))
      peers[sock] = peer
    end
    return sock, ...
  end

  local function opening(f, peer)
    return function(...) return opened(peer, f(...)) end
  end

  replace(ngx, "sleep", yields "sleep")
  replace(ngx, "flush", yielding_if(1, "flush"))
  for _, name in ipairs { "exec", "redirect" } do replace(ngx, name, yields(name)) end
  replace(ngx, "exit", function(exit) -- it does not yield in a filter or balancer
    local may_yield = yielding(exit, "exit")
    return function(...)
      if nested() then return exit(...) end
      return may_yield(...)
    end
  end)
  replace(ngx, "run_worker_thread", yields("run_worker_thread", function(_, module, f)
    return fit(tostring(module) .. "." .. tostring(f))
  end))
  replace(ngx, "on_abort", function(on_abort)
    return function(f)
      local phase = turn(request())
      if phase == 0 or type(f) ~= "function" then return on_abort(f) end
      return on_abort(function() return run(phase, f) end)
    end
  end)

  replace(ngx.req, "read_body", yields "read_body")
  replace(ngx.req, "set_uri", yielding_if(2, "set_uri"))
  replace(ngx.req, "socket", function(socket) return opening(socket, "client") end)

  local sockets = ngx.socket
  for _, name in ipairs { "tcp", "stream", "udp" } do replace(sockets, name, opening) end
  replace(sockets, "connect", function(connect)
    local function open(host, port, ...) return opened(address(host, port), connect(host, port, ...)) end
    return yielding(open, "connect", address)
  end)
  -- Patch sockets whose constructor other code has stored in a local before.
  patch(debug.getregistry().__tcp_cosocket_mt)

  local location = ngx.location
  -- The name of the subrequest's route. nginx itself refuses invalid arguments.
  local function path(uri)
    if type(uri) ~= "string" and type(uri) ~= "number" then return "" end
    return hooks.find(tostring(uri):match "^[^?]*")
  end
  replace(location, "capture", yields("subrequest", path))
  replace(location, "capture_multi", yields("subrequest", function(list)
    local first = type(list) == "table" and type(list[1]) == "table" and list[1][1]
    return first and fit(("%s and %d more"):format(path(first), #list - 1)) or ""
  end))

  local thread = ngx.thread
  replace(thread, "spawn", spawning)
  replace(thread, "wait", waiting)

  local timer = ngx.timer
  for _, name in ipairs { "at", "every" } do
    replace(timer, name, function(begin)
      return function(delay, f, ...)
        if type(f) ~= "function" then return begin(delay, f, ...) end
        return begin(delay, function(...) return hooks.timer(f, ...) end, ...)
      end
    end)
  end

  replace(coroutine, "yield", within)

  modules = modules or package.loaded
  local function load(name)
    local ok, m = pcall(require, name)
    if ok then return type(m) == "table" and m or nil end
    modules[name] = nil -- so that the program's own require reports the reason
  end
  replace(load "ngx.semaphore", "wait", yields "semaphore")
  -- A pipe's methods belong to a C type and cannot be replaced; they yield by a function that ngx.pipe gets when it is loaded.
  local raw = rawget(coroutine, "_yield")
  if raw and not modules["ngx.pipe"] then
    rawset(coroutine, "_yield", yielding(raw, "pipe"))
    load "ngx.pipe"
    rawset(coroutine, "_yield", raw)
  end

  return function()
    for i = #undo, 1, -1 do undo[i]() end
  end
end

return M
