--- The helper that every busted run of this tree loads first (tools/suite.sh does).
--
-- It gives the specs a global:
--
--     requires{pmu = true, paranoid = 1, lua = "5.4", cmd = {"clang", "llc"}}
--
-- as the first statement of an `it` (or of a before_each, for all of a block): where a need is not
-- met the spec ends there as pending, "needs: a PMU, perf_event_paranoid <= 1". The needs are the
-- table `probes` in spec/support/needs.lua. It raises, so nothing after it runs, and no `if`
-- around it can be forgotten; it must not stand inside pcall.
--
-- After each spec the same descriptors and event mappings must be open as before it: see leaks.lua.
-- Exact triggers are in `require "testkit"` (spec/support/testkit*.c); `require "spec.support.util"`
-- has what specs share beyond that.
--
-- PERF_GCSTRESS=1 runs each spec with the collector under pressure: see stress.lua;
-- PERF_SAN=1 says that this is a build with sanitizers; PERF_MUST: see needs.lua.
local busted = require "busted"
local kit = require "testkit"
local needs = require "spec.support.needs"
local leaks = require "spec.support.leaks"
local stress = require "spec.support.stress"

-- Sanitizers are for this process: what it starts may leak as it likes.
if os.getenv("PERF_SAN") then
  kit.setenv("ASAN_OPTIONS", (os.getenv("ASAN_OPTIONS") or "") .. ":detect_leaks=0")
end

-- Descriptors are counted: what is open is what a spec opened. event/prewarm_spec.lua asks a process of its own.
kit.setenv("PERF_KEEP", "0")

-- busted forgets after each file what the file required. The module stays loaded once, as in a
-- program: C types that LuaJIT's FFI was told of cannot be told again. Where it does not load, the
-- specs say so.
pcall(require, "perf")
pcall(require, "perf.profile.zone") -- which has the zones' names

-- Raises what busted knows as pending, also where its own `pending` is another function (before_each).
local raise_pending = require "busted.core"().pending

function _G.requires(list)
  local missing, failed = needs.unmet(list)
  if failed then error("PERF_MUST promises what is not here: " .. failed, 2) end
  if #missing > 0 then raise_pending("needs: " .. table.concat(missing, ", ")) end
end

-- LuaJIT gives free pages back and takes fresh ones, which would be faults in a spec that counts. So before each file its heap
-- is grown unless it has room, and one table in 500 kept, that all of it stays; and machine code gets one area that lasts. What
-- malloc has, testkit has grown.
local jit = rawget(_G, "jit")
if jit then require("jit.opt").start("sizemcode=1024", "maxmcode=8192") end
local function grow_heap()
  local t = {}
  for i = 1, 60000 do t[i] = {i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i} end
  kit.ballast = {}
  for i = 500, 60000, 500 do kit.ballast[i / 500] = t[i] end
end

local name
busted.subscribe({"test", "start"}, function(element, parent)
  name = element.name
  while parent and parent.descriptor ~= "file" and parent.name do
    name = parent.name .. " " .. name
    parent = busted.parent(parent)
  end
end)

-- Several processes share the files of a run: one file of each spec's name is in $SUITE_LEFT until somebody moves it away, and
-- that one runs the spec.
local left, begun = os.getenv "SUITE_LEFT", os.getenv "SUITE_BEGUN"
kit.setenv "SUITE_LEFT" -- that of a busted which a spec starts is another run
local function taken(file)
  local token = "/" .. file.name:gsub("/", "%%")
  return left and not os.rename(left .. token, begun .. token)
end

-- A collection in the middle of a count would give pages back (a system call) and take others. One
-- before it leaves none to do for a while.
local live
busted.subscribe({"file", "start"}, function(file)
  if taken(file) then
    getmetatable(file.run).__call = function() end
    return
  end
  live = jit and tostring(file.name):find("spec/unit/", 1, true) == nil
  if live then grow_heap() end
end)

busted.before_each(function()
  name = nil
  if live then collectgarbage() end
  kit.settle(true) -- what was loaded since, and what a fork made copy-on-write
  leaks.start()
  stress.start()
end)

busted.after_each(function()
  stress.stop()
  local found = leaks.finish()
  if found then error("leak in '" .. (name or "a before_each") .. "': " .. found, 0) end
end)
