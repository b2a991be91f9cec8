-- A module must not cache a fact that it determined while no descriptors were left: in a new Lua state, a function is called for
-- the first time without descriptors, then with them.
local kit = require "testkit"

local calls = {
  ["perf.measure"] = [[return perf.measure(nothing).source]],
  ["perf.measure of names"] = [[return #perf.measure("page-faults,sched:sched_switch,task-clock", nothing)]],
  ["perf.open"] = [[local ev = assert(perf.open "page-faults") ev:close() return ev:label()]],
  ["perf.open of a tracepoint"] = [[local ev = assert(perf.open "sched:sched_switch") ev:close() return ev:label()]],
  ["perf.set"] = [[local s = assert(perf.set "page-faults") s:close() return #s]],
  ["perf.attr"] = [[return perf.attr("sched:sched_switch").config]],
  ["perf.pmus"] = [[return #perf.pmus()]],
  ["perf.list"] = [[return #perf.list "^sched:"]],
  ["perf.available_events"] = [[return #assert(perf.available_events()).sched]],
  ["perf.features"] = [[return tostring(perf.features())]],
  ["perf.paranoid"] = [[return perf.paranoid()]],
  ["perf.data"] = [[return tostring(assert(perf.data.create("/dev/null", {events = "cpu-clock", build_ids = false})))]],
}

local code = [[
  local kit, perf = require "testkit", require "perf"
  local function nothing() end
  local function call() %s end
  for _, name in ipairs {"names", "names.constructors", "names.list", "event.set", "doctor", "doctor.features", "kernel.tracing",
      "data", "data.create"} do
    require("perf." .. name)
  end
  local taken, limit, free = kit.fds(), 0, %d
  while free > 0 or taken[limit] do
    if not taken[limit] then free = free - 1 end
    limit = limit + 1
  end
  local soft = kit.rlimit "nofile"
  kit.rlimit("nofile", limit)
  if %d >= 0 then pcall(call) end
  kit.rlimit("nofile", soft)
  local result = call()
  require("perf.measure")._release()
  return tostring(result)
]]

describe("after a first call without free descriptors, later calls still work:", function()
  for name, body in pairs(calls) do
    it(name, function()
      requires { tracefs = true, root = true }
      local _, normal = kit.state(code:format(body, 0, -1))
      for free = 0, 8 do
        local ok, result = kit.state(code:format(body, free, free))
        assert.same({ true, normal }, { ok, result }, "room for " .. free)
      end
    end)
  end
end)
