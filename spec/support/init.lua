--- The helper that every busted run of this tree loads first (tools/suite.sh does).
--
-- It gives the specs a global:
--
--     requires{pmu = true, paranoid = 1, lua = "5.4", cmd = {"clang", "llc"}}
--
-- as the first statement of an `it` (or of a before_each, for all of a block). If a need is not met,
-- the spec ends there as pending, "needs: a PMU, perf_event_paranoid <= 1". The needs are the
-- table `probes` in spec/support/needs.lua. It raises, so that nothing after it runs, and no `if`
-- can be forgotten; do not call it inside pcall.
--
-- After each spec the same descriptors and event mappings must be open as before it: see leaks.lua. `require "testkit"`
-- (spec/support/testkit*.c) has exact triggers; `require "spec.support.util"` has other functions for specs.
--
-- PERF_GCSTRESS=1 runs each spec with the collector under pressure: see stress.lua. PERF_JITSTRESS=1 lets LuaJIT compile all code
-- at once. PERF_SAN=1 means that this build has sanitizers. PERF_MUST: see needs.lua.
local busted = require "busted"
local kit = require "testkit"
local needs = require "spec.support.needs"
local leaks = require "spec.support.leaks"
local stress = require "spec.support.stress"

-- The sanitizers check this process only: programs that it starts may leak.
if os.getenv("PERF_SAN") then
  kit.setenv("ASAN_OPTIONS", (os.getenv("ASAN_OPTIONS") or "") .. ":detect_leaks=0")
end

-- Specs see the same text whether busted writes to a terminal or not.
require "perf.base.format".destination = false

-- Descriptors are counted, so only specs may open them. event/prewarm_spec.lua uses a separate process.
kit.setenv("PERF_KEEP", "0")

-- After each file, busted unloads the modules that the file required. This module stays loaded, as in
-- a program, because LuaJIT's FFI cannot define a C type twice. If it does not load, the specs fail.
pcall(require, "perf")
pcall(require, "perf.event.group") -- a second copy would not know Groups that functions of the first copy open
pcall(require, "perf.profile.zone") -- this module has the zones' names
pcall(require, "perf.data.recorder") -- specs replace functions of the modules that it uses

-- Raises busted's pending error, also in before_each, where `pending` is another function.
local raise_pending = require "busted.core"().pending

function _G.requires(list)
  local missing, failed = needs.unmet(list)
  if failed then error("PERF_MUST promises what is not here: " .. failed, 2) end
  if #missing > 0 then raise_pending("needs: " .. table.concat(missing, ", ")) end
end

-- LuaJIT unmaps free pages and maps new ones, which would add page faults to a spec that counts. So its heap is grown, and one
-- table in 500 is kept, so that no page is unmapped. It is grown again before the file at which a MB of the new pages is in use.
-- testkit grows malloc's heap. Machine code gets one area that is large enough, since a new one adds faults too, and where LuaJIT
-- begins to compile differs between runs.
local jit = rawget(_G, "jit")
if jit then
  jit.flush() -- also frees the small area that it has now
  require("jit.opt").start("sizemcode=1024", "maxmcode=8192")
  if os.getenv "PERF_JITSTRESS" then require("jit.opt").start("hotloop=1", "hotexit=1") end
end
local collected -- KB in use after the last collection
local enough -- KB in use up to which the heap need not grow
local function grow_heap()
  if collected and enough and collected < enough then return end
  local t = {}
  for i = 1, 60000 do t[i] = {i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i} end
  kit.ballast = {}
  for i = 500, 60000, 500 do kit.ballast[i / 500] = t[i] end
  t = nil -- luacheck: ignore 311
  collectgarbage()
  enough = collectgarbage "count" + 1024
end

local name
busted.subscribe({"test", "start"}, function(element, parent)
  -- busted calls only the last function that a spec gives to `finally`. This calls all of them, the last one first.
  local finally, list = element.env.finally, {}
  function element.env.finally(fn)
    table.insert(list, 1, fn)
    finally(function()
      for _, each in ipairs(list) do each() end
    end)
  end
  name = element.name
  while parent and parent.descriptor ~= "file" and parent.name do
    name = parent.name .. " " .. name
    parent = busted.parent(parent)
  end
end)

-- Several processes share the spec files of a run: $SUITE_LEFT has a file for each spec file, and the process that manages to
-- move it away runs the spec.
local left, begun = os.getenv "SUITE_LEFT", os.getenv "SUITE_BEGUN"
kit.setenv "SUITE_LEFT" -- a busted that a spec starts is a separate run
local function taken(file)
  local token = "/" .. file.name:gsub("/", "%%")
  return left and not os.rename(left .. token, begun .. token)
end

-- busted compiles all files before it runs the first one. Here each is compiled when it runs: other processes run most of them,
-- and in a large heap each collection and each fork takes longer.
local loader = require "busted.modules.files.lua"
local load = loader.load
function loader.load(core, path)
  local function run()
    local chunk, message = loadfile(path)
    if not chunk then error(message, 0) end
    core.wrap(chunk)
    return chunk()
  end
  return run, select(2, load(core, "/dev/null")) -- the second value shortens tracebacks
end

-- The specs of spec/unit count no page faults or system calls, so they need no such preparations.
local live
busted.subscribe({"file", "start"}, function(file)
  if taken(file) then
    getmetatable(file.run).__call = function() end
    return
  end
  live = not tostring(file.name):find("spec/unit/", 1, true)
  kit.settle_after_forks(live)
  if live and jit then
    grow_heap()
    assert(loadstring "for _ = 1, 1000 do end")() -- compiled: so there is an area for machine code, also after jit.flush
  end
  collected = nil
end)

-- busted keeps the functions of all files, with all that they refer to, until the end of the run: after 100 files each collection
-- would take twenty times as long. Nothing uses them after their file.
local function forget(element)
  for _, child in ipairs(busted.children(element)) do
    forget(child)
    for key in pairs(child) do child[key] = nil end
  end
end
busted.subscribe({"file", "end"}, function(file)
  forget(file)
  file.env, file.before_each, file.after_each = nil, nil, nil
end)

-- A collection during a count would unmap pages (a system call) and map others. A collection before it
-- delays the next one, by far more than a tenth of the heap.
local function collect()
  if collected and collectgarbage "count" < 1.1 * collected then return end
  collectgarbage()
  collected = collectgarbage "count"
end

busted.before_each(function()
  name = nil
  if live and jit then collect() end
  if live then kit.settle(true) end -- settle pages that the last spec mapped, or that a fork made copy-on-write
  leaks.start()
  stress.start()
end)

busted.after_each(function()
  stress.stop()
  local found = leaks.finish()
  if found then error("leak in '" .. (name or "a before_each") .. "': " .. found, 0) end
end)
