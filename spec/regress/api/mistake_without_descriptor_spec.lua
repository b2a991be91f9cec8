-- The story: what raises the errors about arguments became a module of its own, which is loaded by the first mistake. A program
-- that had all descriptors in use then read "module 'perf.base.mistake' not found" instead of its mistake. And what opens events
-- became one, so the first perf.open raised that error instead of returning that the machine refuses a descriptor.
local kit = require "testkit"

local CODE = [[
  local kit, perf = require "testkit", require "perf"
  local taken, limit = kit.fds(), 0
  while taken[limit] do limit = limit + 1 end
  local soft = kit.rlimit "nofile"
  kit.rlimit("nofile", limit)
  local _, message = pcall(function() %s end)
  kit.rlimit("nofile", soft)
  return message
]]

describe("without a free descriptor, the first mistake is named:", function()
  for _, row in ipairs {
    { "perf.measure(1)", "bad argument #1 to 'measure' (list of events or function expected, got number)" },
    { "perf:measure(print)", "call perf.measure with '.', not ':'" },
  } do
    local call, expected = row[1], row[2]
    it(call, function()
      requires { perf_open = true }
      local ok, message = kit.state(CODE:format(call))
      assert.is_true(ok)
      assert.truthy(message:find(":6: " .. expected, 1, true), message)
    end)
  end

  for _, name in ipairs { "open", "group", "set" } do
    it("perf." .. name .. " without one returns the refusal", function()
      requires { perf_open = true }
      local call = "local _, message, code = perf.%s 'page-faults' error(tostring(code) .. ' ' .. message, 0)"
      local code = CODE:format(call:format(name))
      local ok, message = kit.state(code)
      assert.is_true(ok)
      assert.truthy(message:find("^EMFILE .*perf_event_open: Too many open files"), message)
    end)
  end

  -- An idle list of events is closed for what is loaded then.
  for _, row in ipairs {
    { "a misspelt field", "local _ = event.enabl", "enabl" },
    { "an option that there is not", "perf.open('task-clock', { nonsense = 1 })", "nonsense" },
  } do
    it(row[1] .. " is named if a list is idle", function()
      requires { perf_open = true }
      local code = CODE:gsub('require "perf"\n', '%0local event = perf.open "page-faults" perf.measure("page-faults", print)\n')
      local ok, message = kit.state(code:format(row[2]))
      assert.is_true(ok)
      assert.truthy(message:find(row[3], 1, true) and not message:find("not found", 1, true), message)
    end)
  end
end)
