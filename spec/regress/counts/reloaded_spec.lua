-- The story: a program that reloads its modules also removed perf's modules from package.loaded, and required perf again. Its
-- older Counts then had the labels of lists that were measured later, so a number of page faults was shown as nanoseconds; or
-- using these Counts raised "attempt to index local 'layout' (a nil value)".
local kit = require "testkit"

-- Uses Counts from before and after perf is loaded again, in a separate Lua state.
local RELOADED = [[
  local function work() return ("x"):rep(100) end
  local function load_again()
    for name in pairs(package.loaded) do
      if name == "perf" or name:find "^perf%%." and name ~= "%s" then package.loaded[name] = nil end
    end
    return require "perf"
  end
  local perf = require "perf"
  local one, two = perf.measure("page-faults", work), perf.measure({ "task-clock", "page-faults" }, work)
  local used = %s and one + one
  local again = load_again()
  local new = again.measure("task-clock", work)
  assert(new[1].label == "task-clock" and #new == 1 and new["task-clock"], "new")
  assert(one[1].label == "page-faults" and #one == 1 and one["page-faults"], "one event")
  assert(#two == 2 and two[1].label == "task-clock" and two[2].label == "page-faults", "two events")
  assert(tostring(two):find "page%%-faults", "text")
  local later = perf.measure("context-switches", work) -- the old perf opens a new list
  assert(later[1].label == "context-switches" and later["context-switches"], "later")
  local sum = two + again.measure({ "task-clock", "page-faults" }, work)
  assert((sum - two)[2].label == "page-faults" and #(sum + sum) == 2, "sum")
  assert(not used or #(used + again.measure("page-faults", work)) == 1, "sum with an old sum")
  return "fine"
]]

describe("Counts from before perf was loaded again", function()
  for _, kept in ipairs { "perf.core", "none" } do
    for _, used in ipairs { "false", "true" } do
      it(("keep their labels (kept: %s; Counts were used before: %s)"):format(kept, used), function()
        requires { perf_open = true }
        assert.same({ true, "fine" }, { kit.state(RELOADED:format(kept, used)) })
      end)
    end
  end
end)
