-- The events of Lua's memory: exact counts of what the Lua state's allocator gives.
local kit = require "testkit"
local perf = require "perf"
local util = require "spec.support.util"

local BYTES, BLOCKS = "lua-alloc-bytes", "lua-alloc-blocks"
local BOTH = BYTES .. "," .. BLOCKS
local jit = rawget(_G, "jit")

local sink = {}
for i = 1, 8 do sink[i] = false end
local function nothing() end
local function one() sink[1] = {} end
local function many(n)
  for i = 1, n do sink[i % 8 + 1] = {} end
  return sink
end
local function vector(...)
  sink[1] = { 1, 2, 3 }
  return ...
end

-- The hook by which stress.lua keeps the collector busy makes tables within the measured call, and they are counted.
local function alone() requires { nostress = true } end

-- Turns LuaJIT's compiler off while fn runs: what it needs for itself is allocated too.
local function interpreted(fn)
  return function()
    alone()
    if jit then jit.off() end
    local ok, err = pcall(fn)
    if jit then jit.on() end
    if not ok then error(err, 0) end
  end
end

-- The bytes of a call by the interpreter's own count.
local function known(fn, ...)
  local least = math.huge
  for _ = 1, 5 do -- the compiler may begin at any of them, and needs memory too
    local before = collectgarbage "count"
    fn(...)
    least = math.min(least, (collectgarbage "count" - before) * 1024)
  end
  return least
end

-- Bytes and blocks that were counted.
local function counted(c, ...) return c[BYTES], c[BLOCKS], ... end

describe("Lua's memory", function()
  local table_size

  before_each(function()
    collectgarbage()
    collectgarbage "stop"
    one()
    table_size = known(one)
    assert(table_size >= 40)
  end)
  after_each(function() collectgarbage "restart" end)

  local function exact()
    for _ = 1, 3 do perf.measure(BOTH, one) end -- opened before
    for _ = 1, 100 do
      assert.same({ 0, 0 }, { counted(perf.measure(BOTH, nothing)) })
      assert.same({ table_size, 1 }, { counted(perf.measure(BOTH, one)) })
    end
    local bytes, blocks, a, b, c = counted(perf.measure({ BLOCKS, BYTES }, vector, nil, 2, nil))
    assert.equal(known(vector), bytes)
    assert(blocks == 1 or blocks == 2) -- the table, and its array
    assert.same({ nil, 2, nil }, { a, b, c })
  end

  it("is counted without the measurement's own, in the interpreter", interpreted(exact))

  -- The compiler allocates traces, and tries to make some: measurements during which it works are left out.
  it("is counted without the measurement's own, in compiled code", function()
    requires { jit = true, nostress = true }
    local compiler, quiet = 0, 0
    local function watch() compiler = compiler + 1 end
    jit.attach(watch, "trace")
    finally(function() jit.attach(watch) end)
    for _, case in ipairs { { one, 1 }, { many, 1000 } } do
      for _ = 1, 300 do perf.measure(BOTH, case[1], 100) end
      for _ = 1, 300 do
        local before = compiler
        local bytes, blocks = counted(perf.measure(BOTH, case[1], 1000))
        if compiler == before then
          quiet = quiet + 1
          assert.same({ case[2] * table_size, case[2] }, { bytes, blocks })
        end
      end
    end
    assert(quiet > 100, quiet)
  end)

  it("is counted in a coroutine from its first call on", interpreted(function()
    for _ = 1, 3 do perf.measure(BOTH, one) end
    for _ = 1, 3 do
      local co = coroutine.wrap(function()
        return { counted(perf.measure(BOTH, one)) }
      end)
      assert.same({ table_size, 1 }, co())
    end
  end))

  it("is counted beside the kernel's events, in any order", interpreted(function()
    requires { perf_open = true }
    local c = perf.measure("page-faults," .. BYTES .. ",task-clock," .. BLOCKS, function()
      kit.touch_pages(64)
      one()
    end)
    assert.same({ "page-faults", BYTES, "task-clock", BLOCKS }, { c[1].label, c[2].label, c[3].label, c[4].label })
    assert(c["page-faults"] >= 64 and c["task-clock"] > 0)
    c = perf.measure({ "task-clock", BYTES }, one)
    assert.equal(table_size, c[BYTES])
    assert.equal("bytes", c[2].unit)
    assert.equal(c[2].enabled_ns, c[2].running_ns)
    assert.is_nil(c[2].id)
    c = perf.measure({ { event = BYTES, label = "memory" }, BYTES }, one)
    assert.same({ table_size, table_size }, { c.memory, c[BYTES] })
  end))

  it("is counted where the kernel counts nothing", interpreted(function()
    local blocks = util.in_child(function()
      kit.refuse("perf_event_open", 13)
      perf.measure(BOTH, one)
      return tostring(perf.measure(BOTH, one)[BLOCKS])
    end)
    assert.equal("1", blocks)
  end))

  it("is counted by nested measurements, regions and coroutines that take turns", interpreted(function()
    perf.measure(BLOCKS, one)
    local inner, nested
    for _ = 1, 2 do
      nested = perf.measure(BLOCKS, function() inner = perf.measure(BLOCKS, one) end)
    end
    local outer = perf.measure(BLOCKS, function()
      one()
      inner = perf.measure(BLOCKS, one)
      one()
    end)
    assert.equal(1, inner[BLOCKS])
    assert.equal(2, outer[BLOCKS] - nested[BLOCKS]) -- which has the inner Counts
    assert(nested[BLOCKS] > 1)
    assert(perf.start(BYTES)):stop()
    local m = assert(perf.start(BYTES))
    one()
    local first = m:read()
    one()
    local both = m:stop()
    assert.same({ table_size, 2 * table_size }, { first[BYTES], both[BYTES] })
    local function yielding()
      return coroutine.wrap(function()
        return perf.measure(BLOCKS, function()
          for _ = 1, 3 do
            one()
            coroutine.yield()
          end
        end)
      end)
    end
    local function blocks_of(meanwhile) -- a new coroutine's calls need memory too
      local co, c = yielding(), nil
      for _ = 1, 4 do
        c = co()
        if not c then meanwhile() end
      end
      return c[BLOCKS]
    end
    blocks_of(one)
    assert.equal(3, blocks_of(one) - blocks_of(nothing)) -- the tables that were made meanwhile count
  end))

  it("is counted by perf.bench, perf.compare and spans", interpreted(function()
    local stats = assert(perf.bench(BOTH, one, { repeats = 5, min_time = 0.001 }))
    assert.equal(table_size, stats[BYTES].median)
    assert.equal(1, stats[BLOCKS].median)
    local cmp = assert(perf.compare({ { "nothing", nothing }, { "one", one } }, { events = BYTES, repeats = 5 }))
    assert.truthy(tostring(cmp):find(BYTES, 1, true))
    local tracer = assert(perf.tracer { events = BOTH })
    local function spanned()
      local span = tracer:start "work"
      one()
      span:finish()
      return span:totable().counts
    end
    spanned()
    local counts = spanned()
    assert.equal(table_size, counts[BYTES])
    assert.equal(1, counts[BLOCKS])
  end))

  it("is each Lua state's own", interpreted(function()
    local c, ok, result = perf.measure(BLOCKS, function()
      one()
      return kit.state(([[
        local perf = require "perf"
        local t
        local function one() t = {} end
        local function n() return perf.measure("%s", one)["%s"] end
        n()
        return n()
      ]]):format(BLOCKS, BLOCKS))
    end)
    assert.is_true(ok, result)
    assert(c[BLOCKS] < 30, c[BLOCKS]) -- the state has allocated thousands
    assert.equal(1, tonumber(result))
  end))

  it("is counted beside profiles of it, which begin and end in any order", interpreted(function()
    requires { registers = true }
    perf.release()
    local p = assert(perf.profiler { event = "alloc", period = 1 })
    assert(p:start())
    perf.measure(BOTH, one)
    assert.equal(1, perf.measure(BOTH, one)[BLOCKS])
    assert(p:stop())
    assert.equal(1, perf.measure(BOTH, one)[BLOCKS])
    assert(p:start())
    perf.release()
    for _ = 1, 100 do one() end
    assert(assert(p:stop()).blocks.allocated_blocks >= 100)
    perf.measure(BOTH, one)
    assert.equal(table_size, perf.measure(BOTH, one)[BYTES])
  end))

  it("is not counted in the child of a fork, which can begin anew", interpreted(function()
    perf.measure(BOTH, one)
    local m = assert(perf.start(BLOCKS))
    local found = util.in_child(function()
      local e = assert(m:stop())[1]
      perf.measure(BLOCKS, one)
      return ("%s %s %d"):format(tostring(e.value), e.why, perf.measure(BLOCKS, one)[BLOCKS])
    end)
    assert.matches("^nil a fork happened .* 1$", found)
    one()
    assert(m:stop()[BLOCKS] >= 1)
  end))

  it("is listed, and other functions say where it is counted", function()
    local rows = perf.list "memory"
    local found = {}
    for _, row in ipairs(rows) do found[row.name] = row.kind == "memory" and row.description or nil end
    assert(found[BYTES] and found[BLOCKS])
    for _, fn in ipairs { perf.open, perf.group, perf.set, perf.attr, perf.profiler } do
      local message = util.message_of(function() fn(BYTES) end)
      assert.truthy(message:find("perf.measure, perf.start, perf.bench, spans and resty.perf count it", 1, true), message)
      assert.truthy(message:find("the event to sample is alloc", 1, true), message)
    end
    util.check_mistakes {
      ["the event to sample is alloc"] = function() perf.profile({ event = BYTES }, one) end,
      ["did you mean 'lua-alloc-bytes'?"] = function() perf.measure("lua-aloc-bytes", one) end,
      ["by this name alone"] = function() perf.measure(BYTES .. ":u", one) end,
    }
  end)
end)
