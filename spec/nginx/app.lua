--- The application in the specs' nginx: handlers of known cost, and pages about the worker.
local ffi = require "ffi"
local kit = require "testkit"
local perf = require "resty.perf"

local M = {}

ffi.cdef [[int mlockall(int what); int munlock(void *at, size_t n); int madvise(void *at, size_t n, int advice);
void *mmap(void *at, size_t n, int may, int flags, int fd, long offset);]]
local PAGE, MOST = 4096, 20
local pages = ffi.cast("char *", ffi.C.mmap(nil, MOST * PAGE, 3, 0x22, -1, 0))
assert(ffi.C.madvise(pages, MOST * PAGE, 15) == 0) -- never huge ones

--- Call it before perf.start. All memory is locked, so the kernel populates growing memory (Lua's heap, the C library's, machine
-- code) at once, except for the pages that are to fault.
function M.lock_memory() assert(ffi.C.mlockall(3) == 0 and ffi.C.munlock(pages, MOST * PAGE) == 0) end

function M.touch(n)
  if n > 0 then assert(ffi.C.madvise(pages, n * PAGE, 4) == 0) end -- they are unmapped again
  for i = 0, n - 1 do pages[i * PAGE] = 1 end
end

--- The events that the costs below cause.
M.event = "syscalls:sys_enter_getppid"

--- perf.start, with the event above if none is given.
function M.start(opts)
  opts = opts or {}
  opts.events = opts.events or M.event
  return perf.start(opts)
end

--- All numbers of this worker: whole, unattributed, pending and the routes' sums by event, requests, abandoned, known.
function M.worker()
  local w = perf.worker()
  if not w then return ngx.say "running 0" end
  local sums = {}
  local function add(place, counts)
    for _, e in ipairs(counts) do
      local key = place .. ":" .. e.label
      if e.value then sums[key] = (sums[key] or 0) + e.value end
    end
    sums[place .. ":lua"] = (sums[place .. ":lua"] or 0) + counts.wall_ns
  end
  add("whole", w.whole)
  add("unattributed", w.unattributed)
  add("pending", w.pending)
  for name, r in pairs(w.routes) do
    sums["requests:" .. name] = r.requests
    for phase, counts in pairs(r.phases) do
      add("routes", counts)
      add("route:" .. name, counts)
      add("phase:" .. name .. ":" .. phase, counts)
    end
  end
  sums.abandoned, sums.known, sums.running = w.abandoned, w.known, 1
  sums.memory = math.floor(collectgarbage "count")
  for k, v in pairs(sums) do ngx.say(k, " ", ("%.0f"):format(v)) end
end

--- The errors that `judge` found, and the number of requests that it checked.
function M.tell()
  local dict = ngx.shared.test
  ngx.say("pid ", ngx.worker.pid(), " checked ", dict:get "checked" or 0, " wrong ", dict:get "wrong" or 0, " off ",
    dict:get "off" or 0, " ", dict:get "what" or "")
end

--- Checks whether a request has counted what it should have; the answer shows the result, and the worker keeps it for `tell`.
function M.judge(got, want)
  local dict = ngx.shared.test
  dict:incr("checked", 1, 0)
  if got ~= want then
    dict:incr("wrong", 1, 0)
    dict:incr("off", math.abs(got - want), 0)
    dict:set("what", ("%s: %d instead of %d"):format(ngx.var.uri, got, want))
  end
  ngx.say(got, " of ", want)
end

-- A place where a request may yield.
local function nap() ngx.sleep(0.001 + math.random() / 1000) end
local yields = {
  nap,
  function() ngx.thread.wait(ngx.thread.spawn(nap)) end,
  function() coroutine.yield() end,
  function() ngx.flush(true) end,
  function()
    local sock = ngx.socket.tcp()
    assert(sock:connect("127.0.0.1", ngx.var.server_port))
    assert(sock:send "GET /tell HTTP/1.0\r\n\r\n")
    assert(sock:receive "*l")
    local reader = sock:receiveuntil "\r\n\r\n"
    assert(reader())
    assert(sock:receive "*a")
    sock:close()
  end,
}

-- An MD5 of n bytes, one at a time: each byte is a call of nginx's own function, and a uprobe counts these calls.
ffi.cdef "void ngx_md5_init(void *); void ngx_md5_update(void *, const char *, size_t); void ngx_md5_final(char *, void *);"
local text, digests = ("z"):rep(20), {}
for n = 0, #text do digests[n] = ngx.md5_bin(text:sub(1, n)) end
local function hash(n)
  local state, digest = ffi.new "uint64_t[16]", ffi.new "char[16]"
  ffi.C.ngx_md5_init(state)
  for i = 1, n do ffi.C.ngx_md5_update(state, text:sub(i, i), 1) end
  ffi.C.ngx_md5_final(digest, state)
  assert(ffi.string(digest, 16) == digests[n])
end

local function spend(event, n)
  if event:find "^page%-faults" then return M.touch(n) end
  if event:find "^uprobe" then return hash(n) end
  kit.syscalls(n)
end

--- Costs of an event in pieces, with yields at random between them; then checks that the request, if it is counted, has counted
-- exactly that.
function M.cost(event)
  local want = 0
  for _ = 1, 4 do
    local mine, child = math.random(0, 20), math.random(0, 3)
    local thread = ngx.thread.spawn(function()
      spend(event, child)
      nap()
      spend(event, child)
    end)
    spend(event, mine)
    if math.random() < 0.8 then yields[math.random(#yields)]() end
    ngx.thread.wait(thread)
    want = want + mine + 2 * child
  end
  local counts = perf.request()
  if counts then M.judge(counts[event], want) else ngx.say "not counted" end
end

--- An OpenTelemetry collector that keeps the requests it gets, and returns them.
function M.collector()
  ngx.req.read_body()
  local dict = ngx.shared.test
  local body = ngx.req.get_body_data()
  if body then
    dict:set("spans", (dict:get "spans" or "") .. body .. "\n")
    ngx.header.content_type = "application/json"
    return ngx.print "{}"
  end
  ngx.print(dict:get "spans" or "")
end

--- Waits until the spec calls server:release(). It is a file, since a binary upgrade has two shared dictionaries.
function M.hold()
  local name, file = ngx.config.prefix() .. "released"
  repeat
    ngx.sleep(0.02)
    file = io.open(name)
  until file
  file:close()
end

--- Causes n of the event.
M.spend = kit.syscalls

--- Handlers for profiles.
function M.left() kit.syscalls(3) ngx.sleep(0.001) kit.syscalls(2) ngx.say "left" end
function M.right() kit.syscalls(1) ngx.sleep(0.001) kit.syscalls(3) ngx.say "right" end

--- 100 KB that stay, and 1 MB of garbage, which is collected.
local kept = {}
function M.leak() kept[#kept + 1] = ("x"):rep(1e5) .. #kept ngx.say(#kept) end
--- A cache that grows by 2 KB with each request.
local cache = {}
function M.cached() cache[#cache + 1] = ("z"):rep(2000) .. #cache ngx.say(#cache) end
local last = 0
function M.garbage()
  for _ = 1, 10 do
    last = last + 1
    M.last = last .. ("y"):rep(1e5)
  end
  collectgarbage()
  ngx.say "garbage"
end

--- The callback of a timer.
function M.timer(_, n) kit.syscalls(n) end

--- The count so far, as an answer.
function M.say() ngx.say(tostring(perf.request() and perf.request()[M.event])) end

--- Two subrequests of the given path with a yield between.
function M.capture(uri)
  kit.syscalls(3)
  local a, b = ngx.location.capture_multi { { uri, { args = "a" } }, { uri } }
  ngx.sleep(0.001)
  local c = ngx.location.capture(uri, { ctx = {} })
  ngx.print(a.body, b.body, c.body, " ", perf.request()[M.event], "\n")
end

--- A semaphore that another request posts.
local semaphore = require "ngx.semaphore".new()
function M.wait() ngx.say(tostring(semaphore:wait(60))) end
function M.post() semaphore:post(1); ngx.say "posted" end

--- A generator that sleeps, in a coroutine, with costs on both sides.
function M.generator()
  local gen = coroutine.wrap(function()
    for i = 1, 5 do
      kit.syscalls(2)
      if i == 3 then ngx.sleep(0.002) end
      coroutine.yield(i)
    end
  end)
  for _ = 1, 5 do
    gen()
    kit.syscalls(1)
  end
  M.say()
end

return M
