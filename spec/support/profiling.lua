--- Functions on Profiles for the specs of the profiler.
local profiling = {}

--- The number of the line after the line of the call.
function profiling.next_line() return debug.getinfo(2, "l").currentline + 1 end

-- The innermost Lua frame of a stack.
local function place(stack)
  for _, frame in ipairs(stack) do
    if frame.line then return frame end
  end
end
profiling.place = place

--- The weight on a line, as the innermost Lua frame; of one function, if it is named.
function profiling.on_line(prof, line, func)
  local sum = 0
  for _, s in ipairs(prof:samples()) do
    local frame = place(s.stack)
    if frame and frame.line == line and (not func or frame.func == func) then sum = sum + s.weight end
  end
  return sum
end

-- Whether a stack contains a frame of that name.
local function has(stack, name)
  for _, frame in ipairs(stack) do
    if frame.name == name or frame.func == name then return true end
  end
  return false
end

--- The weight of all stacks that contain a frame of that name, and one of another name if it is given.
function profiling.under(prof, name, other)
  local sum = 0
  for _, s in ipairs(prof:samples()) do
    if has(s.stack, name) and (not other or has(s.stack, other)) then sum = sum + s.weight end
  end
  return sum
end

--- The sum of all weights, which is the total.
function profiling.sum(prof)
  local sum = 0
  for _, s in ipairs(prof:samples()) do sum = sum + s.weight end
  return sum
end

--- A profile as text, for the message of an assertion: its heaviest stacks, of each the eight innermost frames.
function profiling.text(prof)
  local lines = { ("%s total %s samples %s lost %s"):format(prof.event, tostring(prof.total), tostring(prof.sample_count),
    tostring(prof.lost)) }
  for reason, n in pairs(prof.failures or {}) do lines[#lines + 1] = ("%s: %s"):format(reason, tostring(n)) end
  for i, s in ipairs(prof:samples()) do
    if i > 12 then break end
    local names = {}
    for k = 1, math.min(8, #s.stack) do names[k] = s.stack[k].name end
    lines[#lines + 1] = ("%s %s"):format(tostring(s.weight), table.concat(names, " < "))
  end
  return table.concat(lines, "\n")
end

--- Calls a function while profilers take stacks at safe points, even where they could unwind.
function profiling.at_safe_points(fn, ...)
  local core = require "perf.core"
  local before = core.use_safe_points(true)
  local ok, err = pcall(fn, ...)
  core.use_safe_points(before)
  if not ok then error(err, 0) end
end

--- Checks that the line has `n` page faults or other events, and hardly more. Elsewhere there may be more: of pages that are new,
-- or copied since a fork.
function profiling.check(assert, prof, n, line, func)
  local text = profiling.text(prof)
  assert.equal(prof.total, profiling.sum(prof), text)
  assert.equal(0, prof.lost, text)
  assert.is_true(prof.total >= n, text)
  local found = profiling.on_line(prof, line, func)
  assert.is_true(found >= n * 0.999 and found <= n + 100, ("line %d:\n%s"):format(line, text))
end

return profiling
