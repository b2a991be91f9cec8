-- The story: a Group kept its own state of whether it was enabled, and its own copy of its leader's descriptor. The Group did not
-- notice what the program did with the leader itself: after leader:disable() a measurement counted nothing, and after
-- leader:close() the Group read whatever file had got the number of the descriptor since.
--
-- When a disabled leader is closed, its members are disabled too, since the kernel would start them. A member that had been
-- opened enabled still passed for enabled: event:measure did not enable it, and counted nothing. And the library went on adding
-- its own system calls to the count of such a member.
local perf = require "perf"

local function work()
  for _ = 1, 100 do os.time() end
end

describe("the leader of a group, used by itself", function()
  before_each(function() requires { perf_open = true } end)

  it("is enabled again by a measurement of the group", function()
    local g = assert(perf.group { "task-clock", "cpu-clock" })
    g:measure(work)
    assert.truthy(g[1]:disable())
    local counts = g:measure(work)
    assert.truthy(counts["task-clock"] > 0)
    assert.is_false(g[1]:is_off())
    g:close()
  end)

  it("closes the group when it is closed", function()
    local g = assert(perf.group { "task-clock", "cpu-clock" })
    g:measure(work)
    g[1]:close()
    local file = assert(io.open("/dev/zero")) -- most likely it gets that number
    assert.error_matches(function() g:measure(work) end, "Group is closed, or a member of it")
    file:close()
    g:close()
  end)

  it("leaves a member that was opened enabled to be enabled by its own measurement", function()
    local leader = assert(perf.open "page-faults")
    local member = assert(perf.open({ type = "software", config = 1, disabled = false }, { group = leader }))
    assert.is_false(member:is_off())
    leader:close()
    assert.is_true(member:is_off())
    assert.truthy(member:measure(work).raw > 0)
    assert.is_false(member:is_off())
    member:close()
  end)

  it("leaves a member that was enabled counting when it was enabled too", function()
    local leader = assert(perf.open "page-faults")
    local member = assert(perf.open({ type = "software", config = 1, disabled = false }, { group = leader }))
    leader:enable()
    leader:close()
    assert.is_false(member:is_off())
    assert.truthy(member:measure(work).raw > 0)
    member:close()
  end)

  it("lets a member count none of the library's own calls when it is closed", function()
    requires { tracepoint = "syscalls:sys_enter_read" }
    local g = assert(perf.group { "page-faults", "syscalls:sys_enter_read" })
    g:measure(work)
    local member = g[2]
    g:disable()
    g[1]:close()
    local before = member:scan(true)
    for _ = 1, 5 do perf.measure("task-clock", work) end
    local after = member:scan(true)
    assert.equal(before[1].value, after[1].value)
    assert.equal(before.own, after.own)
    g:close()
  end)
end)
