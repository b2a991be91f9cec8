--- The story: what is loaded at its first use was loaded by `require`. A program that had all descriptors in use read that the
-- module does not exist, and a misspelt name of perf gave the same error. And on Lua 5.1 and LuaJIT, if memory ran out while a
-- module was loaded, each later use raised "loop or previous error loading module".
-- Later: the modules are loaded again for each refused allocation.
local kit = require "testkit"
local util = require "spec.support.util"

local FULL = [[
  local kit, perf = require "testkit", require "perf"
  local taken, limit = kit.fds(), 0
  while taken[limit] do limit = limit + 1 end
  local soft = kit.rlimit "nofile"
  local function use() return %s end
  kit.rlimit("nofile", limit)
  local ok, message = pcall(use)
  kit.rlimit("nofile", soft)
  local later, result = pcall(use)
  return message .. "\n" .. type(result)
]]

-- Load a module and all that it needs, with an allocation failing in each try; after each failure it can be loaded.
local NO_MEMORY = [[
  local kit, late = require "testkit", require "perf.base.late"
  require "perf"
  if jit then jit.off() end -- the compiler of LuaJIT does not endure failing allocations everywhere
  local kept = {}
  for name in pairs(package.loaded) do kept[name] = true end
  local function load() return late "%s" end
  local function forget()
    for name in pairs(package.loaded) do
      if not kept[name] then package.loaded[name] = nil end
    end
  end
  local count, refused = kit.fail_alloc(0, load), 0
  for n = 1, count, math.ceil(count / 200) do
    forget()
    local _, ok = kit.fail_alloc(n, load)
    if not ok then refused = refused + 1 end
    if type(load()) ~= "table" then return "loaded wrongly" end
  end
  return refused > 10 and "fine" or "memory never ran out"
]]

describe("what is loaded at its first use", function()
  it("without a free descriptor says so, and a later use works", function()
    for _, row in ipairs { { "perf.tally({ by = 'pid' })", "table" }, { "perf.data.open('/dev/null')", "nil" },
      { "perf.exporter.zipkin()", "table" }, { "perf.zone('x')", "table" } } do
      local ok, message = kit.state(FULL:format(row[1]))
      assert.is_true(ok)
      assert.matches("^a part of lua%-perf cannot be loaded, perf%.[%w_.]+: Too many open files\n" .. row[2] .. "$", message)
    end
  end)

  it("does not hide that a name is misspelt", function()
    local ok, message = kit.state(FULL:format "perf.mesure" :gsub("local later.*", "return message"))
    assert.is_true(ok, message)
    assert.matches("perf has no 'mesure'; did you mean 'measure'%?$", message)
  end)

  for _, module in ipairs { "perf.names.constructors", "perf.exporter.client", "perf.api.help", "perf.bench" } do
    it(module .. " can be loaded after memory ran out", function()
      -- LuaJIT leaves the file open whose loading runs out of memory.
      assert.equal("fine", util.in_child(function() return select(2, kit.state(NO_MEMORY:format(module))) end))
    end)
  end
end)
