--- A long run of everything at once: an hour of what a server would do with the module in months.
--
--     SOAK_SECONDS=60 luajit spec/soak/soak.lua
--
-- Operations come in a random order from the seed, with signals and the collector in between. Each one is an `op` below: it
-- returns nothing, or the code of an error that the machine was made to return, and which the op must name; anything else ends
-- the run. After a warm-up (a tenth of the time) the number of descriptors, rings and child processes must not grow from one
-- check to the next, and the process's memory at the end must be at most two megabytes larger: an operation that leaks does so
-- thousands of times. (LuaJIT's heap still adjusts its size during the run: the size of what malloc has given out is constant to
-- the byte.)
local kit = require "testkit"
local core = require "perf.core"
local perf = require "perf"
local needs = require "spec.support.needs"

local seconds = tonumber(os.getenv "SOAK_SECONDS") or 60
local seed = tonumber(os.getenv "SOAK_SEED") or 1
local MOST = 2048 -- KiB

math.randomseed(seed)
local random = math.random
local path = os.tmpname()
local ops, order, expected = {}, {}, {}

local function op(name, codes, fn)
  local known = {}
  for code in codes:gmatch "%S+" do known[code] = true end
  ops[name], order[#order + 1] = { fn = fn, codes = known }, name
end

local sampled = { event = "page-faults:u", sample_period = 1, sample_type = { "addr", "time", "identifier" } }
local function ringed(pages)
  local ev = assert(perf.open(sampled))
  assert(ev:map { pages = pages })
  assert(ev:enable())
  return ev
end

op("measure", "", function()
  local events = random(2) == 1 and "page-faults:u,task-clock" or { "page-faults", "context-switches" }
  local c = perf.measure(events, kit.touch_pages, 8)
  assert(c["page-faults"] >= 8)
end)

op("measure with an error", "", function()
  local mine = {}
  local ok, err = pcall(perf.measure, error, mine)
  assert(not ok and err == mine)
end)

op("new lists", "", function()
  perf.measure({ { event = "page-faults", sample_period = random(1e6) } }, kit.touch_pages, 1)
end)

op("group", "", function()
  local g = assert(perf.group "page-faults,task-clock,dummy")
  assert(g:measure(kit.touch_pages, 4)["page-faults"] >= 4)
  if random(3) > 1 then g:close() end
end)

op("set", "", function()
  local s = assert(perf.set("page-faults", { cpus = "online" }))
  kit.touch_pages(1)
  s:read()
  if random(3) > 1 then s:close() end
end)

op("ring that overflows", "", function()
  local ev = ringed(1)
  kit.touch_pages(500)
  local n = 0
  for _ in ev:records() do n = n + 1 end
  kit.touch_pages(5) -- the kernel reports losses when there is room again
  ev:disable()
  for _ in ev:records() do n = n + 1 end
  assert(n > 50 and n < tonumber(ev:read().value), n) -- the loops may fault too, if the heap grows
  assert((ev:lost()) > 0, "nothing was lost")
  ev:close()
end)

op("ring that is forgotten", "", function()
  local ev = ringed(2)
  kit.touch_pages(3)
  assert(ev:read_record(0))
end)

op("event closed by others", "EBADF", function()
  local ev = assert(perf.open "page-faults")
  kit.close_fd(ev:fd())
  local e, _, code = ev:read()
  ev:close()
  assert(not e)
  return code
end)

op("fork", "", function()
  perf.measure("page-faults", kit.touch_pages, 1)
  local status, text = kit.fork(function()
    assert(perf.measure("page-faults", kit.touch_pages, 5)["page-faults"] >= 5)
    return "done"
  end)
  assert(status == 0, text)
end)

op("fork of what is open", "", function()
  local ev, g = ringed(1), assert(perf.group { "page-faults", "task-clock" })
  local before
  local c = g:measure(function()
    for _ = 1, 2 do
      local pid = kit.split(random(2) == 1)
      if pid == 0 then
        local refused = not (pcall(ev.disable, ev) or pcall(g.reset, g) or pcall(ev.read_record, ev))
        if random(2) == 1 then
          ev:close()
          g:close()
        end
        kit.exit(refused and perf.measure("page-faults", kit.touch_pages, 5)["page-faults"] >= 5 and 0 or 1)
      end
      assert(kit.reap(pid) == 0, "in the child")
    end
    before = ev:read().value
    kit.touch_pages(5)
  end)
  assert(c["page-faults"] >= 5 and ev:read().value >= before + 5)
  ev:close()
  g:close()
end)

op("exec", "", function()
  local r = assert(perf.record({ "/bin/true" }, { events = "page-faults:u", period = 1, output = path, pages = 4 }))
  assert(r.status == 0 and r.samples > 10)
end)

op("exec of nothing", "ENOENT", function()
  return select(3, perf.record({ "/no/such/program" }, { events = "page-faults:u", period = 1, output = path, pages = 4 }))
end)

op("process that ends", "EPIPE ESRCH", function()
  local child = assert(kit.start(function() kit.touch_pages(10) end))
  local ev, _, code = perf.open(sampled, { pid = child:pid() })
  if ev then
    assert(ev:map { pages = 4 })
    ev:enable()
  end
  child:go()
  child:wait()
  child:close()
  if not ev then return code end
  local rec
  repeat rec, _, code = ev:read_record(5) until not rec
  ev:close()
  return code
end)

op("threads", "", function()
  local ev = assert(perf.open { event = "page-faults", inherit = true })
  ev:enable()
  kit.threads(3, { pages = 5 })
  assert(ev:read().value >= 15)
  ev:close()
end)

op("state on a thread", "", function()
  local ok, text = kit.state([[
    local kit, perf = require "testkit", require "perf"
    perf.open "dummy"
    return perf.measure("page-faults", kit.touch_pages, 3)["page-faults"] ]], true)
  assert(ok and tonumber(text) >= 3, text)
end)

op("signals", "", function()
  kit.storm(500)
  local ev = ringed(8)
  for _ = 1, 5 do ev:read_record(0.002) end
  perf.measure("page-faults", kit.spin, 1e6)
  kit.storm(0)
  ev:close()
end)

op("collector", "", function()
  local t = {}
  for i = 1, 500 do t[i] = { i } end
  collectgarbage()
  assert(#t == 500)
end)

op("descriptors run out", "EMFILE", function()
  local soft = kit.rlimit "nofile"
  kit.rlimit("nofile", 3)
  local ev, _, code = perf.open "page-faults"
  kit.rlimit("nofile", soft)
  assert(not ev)
  return code
end)

op("refusals", "EINVAL ENOENT ESRCH EMFILE ENOMEM EACCES", function()
  local code = ({ "EINVAL", "ENOENT", "ESRCH", "EMFILE", "ENOMEM", "EACCES" })[random(6)]
  core.fault("perf_event_open", code)
  local ev, _, got = perf.open "page-faults:u"
  core.fault()
  if ev then -- an idle list was closed, and it was tried again
    assert(code == "EMFILE" or code == "ENOMEM", code)
    ev:close()
  end
  return got or code
end)

op("memory runs out", "not-enough-memory", function()
  local jit = rawget(_G, "jit")
  if jit then jit.off() jit.flush() end
  local _, ok, err = kit.fail_alloc(random(40), function() perf.open("page-faults:u"):close() end)
  if jit then jit.on() end
  if not ok then
    assert(tostring(err):find("not enough memory", 1, true), err)
    return "not-enough-memory"
  end
end)

op("profile", "", function()
  local prof = assert(perf.profile({ event = "page-faults:u", period = 1 }, function() kit.touch_pages(20) end))
  assert(prof.total >= 20)
end)

op("profiler that ends with its coroutine, or is forgotten", "", function()
  local p
  local ok, err = coroutine.resume(coroutine.create(function()
    p = assert(perf.profiler { freq = 5000, coroutines = ({ "alone", "resumer", "creator" })[random(3)] })
    assert(p:start())
    kit.spin(1e5)
    if random(2) == 1 then error "dead" end
  end))
  assert(ok or tostring(err):find "dead", err)
  local way = random(4)
  if way == 1 then assert(p:stop()) elseif way == 2 then p:close() end
  local forked = way == 3 and kit.fork(function()
    assert(not p:is_running())
    return "child"
  end)
  assert(not forked or forked == 0)
  if way == 3 then assert(p:stop()) end
  p = nil -- luacheck: ignore 311
  collectgarbage()
  collectgarbage()
end)

op("profiler that ends with its state", "", function()
  local ok, text = kit.state([[
    local perf = require "perf"
    p = assert(perf.profiler { freq = 5000 })
    assert(p:start())
    for i = 1, 1e5 do end
    require("perf.core").on_terminate(function() end) ]], random(2) == 1)
  assert(ok, text)
end)

if rawget(_G, "jit") then
  op("profile that LuaJIT's own takes", "", function()
    local profile = require "jit.profile"
    local p = assert(perf.profiler { freq = 5000 })
    assert(p:start())
    if random(2) == 1 then profile.start("i1", function() end) end
    kit.spin(1e5)
    profile.stop()
    kit.spin(1e5)
    assert(p:stop())
  end)
end

op("tally", "", function()
  local ev, t = ringed(8), assert(perf.tally { by = "addr" })
  kit.touch_pages(20)
  assert(t:take(ev) >= 20)
  ev:close()
end)

op("file", "", function()
  local w = assert(perf.data.create(path, { events = "dummy", build_ids = false }))
  assert(w:write("\9\0\0\0\2\0\8\0"))
  assert(w:close())
  local f = assert(perf.data.open(path))
  for _ in f:records() do end
  if random(2) == 1 then f:close() end
end)

local cgroups = needs.is_root() and needs.cgroup_dir()
if cgroups then
  op("cgroup that is removed", "ENOENT", function()
    local dir = ("%s/lua-perf-soak-%d"):format(cgroups, kit.getpid())
    os.execute("mkdir " .. dir)
    local ev = assert(perf.open("task-clock", { cpu = kit.cpus()[1], cgroup = dir }))
    os.execute("rmdir " .. dir)
    ev:enable()
    assert(ev:read())
    ev:close()
    return select(3, perf.open("task-clock", { cpu = kit.cpus()[1], cgroup = dir }))
  end)
end

-- Sizes that must not grow ---------------------------------------------------------------------------

local function descriptors()
  local n = 0
  for _ in pairs(kit.fds()) do n = n + 1 end
  return n
end

-- KiB of this process's private memory.
local function memory()
  local f = assert(io.open "/proc/self/smaps_rollup")
  local text = f:read "*a"
  f:close()
  return tonumber(text:match "Private_Dirty:%s+(%d+)")
end

local function look()
  require("perf.measure")._release()
  collectgarbage()
  collectgarbage()
  return { fds = descriptors(), rings = #kit.rings(), memory = memory(), lua = collectgarbage "count" }
end

local start, count = core.wall_ns(), 0
local function elapsed() return (core.wall_ns() - start) / 1e9 end

local function step()
  local name = order[random(#order)]
  local o = ops[name]
  local code = o.fn()
  if code then
    if not o.codes[code] then error(name .. ": unexpected " .. code) end
    expected[code] = (expected[code] or 0) + 1
  end
  count = count + 1
end

-- The first event of a kind makes the kernel patch its code, which takes most of the time: one stays open.
local keep = { perf.open "page-faults", perf.open "page-faults:u", perf.open "context-switches" }

for _, name in ipairs(order) do -- each once, so that all modules are loaded
  local o = ops[name]
  o.fn()
end
repeat step() until elapsed() > seconds / 10
local first, quarters = look(), {}
repeat
  for _ = 1, 200 do step() end
  local now = look()
  assert(now.fds == first.fds, ("%d descriptors, %d before"):format(now.fds, first.fds))
  assert(now.rings == first.rings, ("%d rings, %d before"):format(now.rings, first.rings))
  assert(kit.orphans() == 0, "a child process is left")
  local at = elapsed()
  -- On a loaded machine a check may come after more than one quarter.
  for i = 1, math.min(3, math.floor(4 * at / seconds)) do quarters[i] = quarters[i] or now.memory end
until at > seconds
local last = look()
for _, ev in ipairs(keep) do ev:close() end
os.remove(path)

local function list(t)
  local names, parts = {}, {}
  for name in pairs(t) do names[#names + 1] = name end
  table.sort(names)
  for i, name in ipairs(names) do parts[i] = ("%s %d"):format(name, t[name]) end
  return table.concat(parts, ", ")
end
print(("soak: %s, %.0f s, seed %d: %d operations of %d kinds"):format(
  rawget(_G, "jit") and jit.version or _VERSION, elapsed(), seed, count, #order))
print("  errors expected and seen: " .. list(expected) .. "; others: 0")
print(("  growth since the warm-up: descriptors %d, rings %d, children 0, memory %.0f KiB of %.0f (Lua's own %+.0f KiB)"):format(
  last.fds - first.fds, last.rings - first.rings, last.memory - first.memory, first.memory, last.lua - first.lua))
print("  memory at each quarter, KiB: " .. table.concat({ quarters[1], quarters[2], quarters[3], last.memory }, " "))
if last.memory - first.memory > MOST and not os.getenv "PERF_SAN" then -- a sanitizer keeps what was freed
  print("  FAILED: memory has grown")
  os.exit(1)
end
