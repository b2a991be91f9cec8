-- The learner of the structures of PUC Lua's objects works in a Lua state of its own, which allocates by the C library's realloc.
-- Here realloc refuses each of these allocations in turn. LuaJIT's allocator takes memory from the system instead: see
-- spec/regress/heap/refused_memory_spec.lua.
-- Long: make test runs this file on LuaJIT and Lua 5.4, make test-long on the other interpreters.
local util = require "spec.support.util"

local function testkit()
  for template in package.cpath:gmatch "[^;]+" do
    local path = template:gsub("%?", "testkit")
    local f = io.open(path)
    if f then
      f:close()
      return path
    end
  end
end

it("learning the structures of the heap fails without memory, leaves nothing, and succeeds later", function()
  requires { puc = true, heap = true, nosan = true }
  local output = util.shell(([[timeout -s KILL 600 env LD_PRELOAD=%s GLIBC_TUNABLES=glibc.malloc.tcache_count=0 %s -e '
    local core, kit = require "perf.core", require "testkit"
    kit.settle_after_forks(false) -- no page faults are counted
    local function take()
      local h, message, code = core.heap_take()
      return h and "taken" or code .. " " .. message
    end
    local function is_refused(text) return text == "not enough memory" or text == "ENOMEM heap: Cannot allocate memory" end
    local function attempt(n)
      local _, _, first = kit.fail_realloc(n, take)
      if first == "taken" then return first end -- Lua has collected garbage and tried again
      local again, left
      for _ = 1, 4 do -- the first ones also load modules, and let tables grow
        local _
        _, _, again, left = kit.fail_realloc(n > 1000 and n - 500 or n, take) -- later calls allocate less often
        if not is_refused(again) then break end
      end
      if is_refused(first) and is_refused(again) and left < 1000 and take() == "taken" then return "refused" end
      return first .. "; " .. again .. "; " .. left .. " bytes left"
    end
    local _, all = kit.fork(function() return (kit.fail_realloc(2^40, take)) end)
    all = tonumber(all)
    assert(all > 100, "nothing was learned")
    local refused = 0
    for n = 1, all, math.ceil(all / 60) do
      local status, text = kit.fork(attempt, n)
      if text == "refused" then
        refused = refused + 1
      elseif text ~= "taken" then
        print(n, status, text)
      end
    end
    print(refused > 0, all)']]):format(testkit(), util.lua()))
  assert.matches("^true\t%d+\n$", output)
end)
