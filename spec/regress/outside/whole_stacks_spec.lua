-- The stories: of a chain of nested coroutines only the inner ones were shown, without being counted as cut, if C functions
-- between them used much of the C stack: the copy of the C stack ended before, or at a page of a buffer to which nothing was
-- written yet. Stacks of 1,000 frames were cut or were counted as cut, since the same names were copied again and again.
-- Later: the snapshots of deep stacks are large.
local outside = require "spec.support.outside"
local kit = require "testkit"
local profiling = require "spec.support.profiling"

local function profile(opts, fn)
  opts.event, opts.period = "page-faults", 1
  return (outside.profile(opts, fn))
end

-- The samples whose stacks are counted as cut. Those for which the process was asked when it had ended have another reason.
local function cut(prof)
  local failures = prof.failures or {}
  return tonumber(failures["too deep"] or 0) + tonumber(failures["function gone"] or 0)
end

-- The stacks that are too short, for the message of an assertion.
local function text_of(prof, short)
  local lines = { profiling.text(prof) }
  for _, s in ipairs(short) do
    local stack = s.stack
    lines[#lines + 1] = ("too short: %s samples, %d frames, %s < %s < ... < %s"):format(tostring(s.count), #stack, stack[1].name,
      stack[2] and stack[2].name or "", stack[#stack].name)
  end
  return table.concat(lines, "\n")
end

-- The samples of touched pages. Their stacks have a function n times, or end earlier and are counted: where the profiler is slow,
-- the process may have ended before it was asked for what the snapshot lacks.
local function only(prof, func, n)
  local count, ended, short = 0, 0, {}
  for _, s in ipairs(prof:samples()) do
    local times = 0
    for _, f in ipairs(s.stack) do times = times + (f.func == func and 1 or 0) end
    if s.stack[1].func == "testkit.touch_pages" then
      assert.is_true(times <= n, profiling.text(prof))
      count = count + s.count
      ended = ended + (times < n and s.count or 0)
      if times < n then short[#short + 1] = s end
    end
  end
  assert.is_true(ended <= cut(prof), text_of(prof, short))
  return count
end

describe("the stack of another process", function()
  before_each(function()
    outside.requires()
  end)

  -- string.gsub has a buffer of 8 KiB on the C stack on most versions.
  local function nested(n)
    if n == 0 then kit.touch_pages(100) return end
    pcall(string.gsub, "x", "x", function() coroutine.wrap(nested)(n - 1) end)
  end

  for _, n in ipairs { 3, 12, 30 } do
    it(("has %d coroutines, each resumed by the next"):format(n), function()
      local prof = profile({ coroutines = "resumer" }, function() nested(n) end)
      assert.is_true(only(prof, "nested", n + 1) >= 100, profiling.text(prof))
      assert.is_nil((prof.failures or {})["too deep"])
    end)
  end

  it("is counted as cut if there are too many coroutines", function()
    local function chain(n)
      if n == 0 then kit.touch_pages(100) return end
      coroutine.wrap(chain)(n - 1)
    end
    local prof = profile({ coroutines = "resumer" }, function() chain(90) end)
    local n, text = only(prof, "chain", 64), profiling.text(prof)
    -- These snapshots are large, and so are those of the deep stacks in the next specs: on a loaded machine the ring may be full.
    assert.is_true(n + tonumber(prof.lost) >= 100 and cut(prof) >= n, text)
  end)

  it("has a coroutine without those that resumed it, if they are not asked for", function()
    local prof = profile({ coroutines = "alone" }, function() nested(12) end)
    assert.is_true(only(prof, "nested", 1) >= 100, profiling.text(prof))
    assert.is_nil((prof.failures or {})["too deep"])
  end)

  -- Functions of several chunks, whose frames have many slots.
  local function deep(n)
    local down = {}
    for i = 1, 40 do
      down[i] = assert((rawget(_G, "loadstring") or load)(("\n"):rep(i) .. [[
        local down, touch = ...
        return function(k, a, b, c, d, e, f, g, h)
          if k == 0 then return 1 + touch(100) end
          return 1 + down[k % 40 + 1](k - 1, a, b, c, d, e, f, g)
        end]], "@chunk" .. i))(down, function(pages) kit.touch_pages(pages) return 0 end)
    end
    if rawget(_G, "jit") then require "jit".off(true, true) end
    down[1](n)
  end

  it("has 900 frames", function()
    local prof, ended, short = profile({}, function() deep(900) end), 0, {}
    for _, s in ipairs(prof:samples()) do
      if s.stack[1].func == "testkit.touch_pages" and #s.stack <= 900 then
        ended = ended + s.count
        short[#short + 1] = s
      end
    end
    assert.is_true(ended <= cut(prof), text_of(prof, short))
    assert.is_nil((prof.failures or {})["too deep"], profiling.text(prof))
  end)

  it("has the inner 1,000 of more frames, and is counted as cut", function()
    local prof = profile({}, function() deep(1500) end)
    local n = 0
    for _, s in ipairs(prof:samples()) do
      if s.stack[1].func == "testkit.touch_pages" then
        assert.is_true(#s.stack <= 1000, profiling.text(prof))
        n = n + s.count
      end
    end
    assert.is_true(n + tonumber(prof.lost) >= 100 and cut(prof) >= n, profiling.text(prof))
  end)
end)
