-- Samples one by one: their times, addresses and stacks.
local kit = require "testkit"
local perf = require "perf"
local profiling = require "spec.support.profiling"
local util = require "spec.support.util"
local now = require("perf.base.clock").now

local function each(prof)
  local list, sum = {}, 0
  for m in prof:timeline() do
    list[#list + 1] = m
    sum = sum + m.weight
  end
  return list, sum
end

describe("a profile's timeline", function()
  it("has every fault's time, address, CPU and line", function()
    requires { perf_open = true, nosan = true, nostress = true }
    util.settled(function()
      local line, from, till
      local prof = perf.profile({ event = "page-faults", timeline = true }, function()
        from = now()
        line = profiling.next_line()
        kit.touch_pages(64)
        till = now()
      end)
      local list, sum = each(prof)
      assert.equal(prof.sample_count, #list)
      assert.equal(prof.total, sum)
      assert.equal(0, prof.timeline_lost)
      local addresses, last = {}, 0
      for _, m in ipairs(list) do
        assert.is_true(m.time >= last)
        last = m.time
        local on_line = false
        for _, frame in ipairs(m.stack) do on_line = on_line or frame.line == line end
        if on_line then
          assert.is_true(m.time >= from and m.time <= till)
          assert.equal(1, m.weight)
          assert.is_true(m.cpu >= 0)
          addresses[#addresses + 1] = m.addr - m.addr % 4096
        end
      end
      assert.equal(64, #addresses)
      table.sort(addresses)
      for i = 2, 64 do assert.equal(addresses[1] + (i - 1) * 4096, addresses[i]) end
    end)
  end)

  it("keeps the first samples, and counts the rest", function()
    requires { perf_open = true }
    local prof = perf.profile({ event = "page-faults", timeline = 10 }, kit.touch_pages, 64)
    local list = each(prof)
    assert.equal(10, #list)
    assert.equal(prof.sample_count - 10, prof.timeline_lost)
    assert.equal(prof.total, profiling.sum(prof))
  end)

  it("is in the flame graph, as far as it was kept", function()
    requires { perf_open = true }
    local whole = perf.profile({ event = "page-faults", timeline = true }, kit.touch_pages, 64)
    local cut = perf.profile({ event = "page-faults", timeline = 10 }, kit.touch_pages, 64)
    for prof, lost in pairs { [whole] = 0, [cut] = cut.sample_count - 10 } do
      local told, moments = prof:flamegraph():match '"moments_lost":(%d+),"moments":"([^"]*)"'
      assert.equal(lost, tonumber(told))
      local sum, samples = 0, 0
      for weight, count in moments:gmatch "%w:(%d+),(%d+)" do sum, samples = sum + weight, samples + count end
      local list, expected = each(prof)
      assert.same({ expected, #list }, { sum, samples })
    end
    assert.is_nil(perf.profile({ event = "page-faults" }, kit.touch_pages, 4):flamegraph():find('"moments', 1, true))
  end)

  it("weighs waits by the time off the CPU, and has the zones", function()
    requires { perf_open = true }
    local prof = perf.profile({ event = "context-switches", timeline = true }, function()
      perf.zone("nap", function() os.execute "sleep 0.02" end)
    end)
    local list, sum = each(prof)
    assert.equal(prof.total, sum)
    local napped = 0
    for _, m in ipairs(list) do
      if m.zone == "nap" then napped = napped + m.weight end
    end
    assert.is_true(napped >= 10e6) -- not 20e6: see kit.sleeps
  end)

  it("agrees with the stacks, native frames included", function()
    requires { perf_open = true }
    local prof = perf.profile({ event = "page-faults", timeline = true, native = true }, kit.touch_pages, 200)
    local by_stack = {}
    for m in prof:timeline() do by_stack[m.stack] = (by_stack[m.stack] or 0) + m.weight end
    for _, s in ipairs(prof:samples()) do
      if s.count > 0 then
        assert.equal(s.weight, by_stack[s.stack])
        by_stack[s.stack] = nil
      end
    end
    assert.same({}, by_stack)
  end)

  it("is new for each run, and exists only if it was asked for", function()
    requires { perf_open = true }
    local p = assert(perf.profiler { event = "page-faults", timeline = true })
    for _ = 1, 2 do
      assert(p:start())
      kit.touch_pages(8)
      local prof = assert(p:stop())
      assert.equal(prof.sample_count, #each(prof))
    end
    p:close()
    local prof = perf.profile({ event = "page-faults" }, kit.touch_pages, 8)
    assert.has_error(function() prof:timeline() end)
    for text, value in pairs { ["boolean or number expected, got string"] = "all",
      ["whole number from 1 to 67108864 expected, got 0"] = 0,
      ["whole number from 1 to 67108864 expected, got 134217728"] = 2 ^ 27 } do
      local ok, err = pcall(perf.profiler, { timeline = value })
      assert.is_false(ok)
      assert.matches(text, err, 1, true)
    end
  end)
end)
