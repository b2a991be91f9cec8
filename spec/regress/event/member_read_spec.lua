-- The story: group[2]:read() returned the leader's count under the member's label. With "group" in its read_format, which every
-- member of a perf.group has, the kernel returns the whole group's counts, the leader's first, whichever member is read.
-- group[2]:measure(fn) and tostring(group[2]) had the same bug.
local kit = require "testkit"
local perf = require "perf"
local util = require "spec.support.util"

describe("a member of a group", function()
  it("reads and measures its own count", function()
    requires { perf_open = true, nosan = true, nostress = true }
    local group = assert(perf.group { "dummy", "page-faults", "minor-faults", "cpu-clock" })
    util.settled(function()
      group:reset()
      group:enable()
      kit.touch_pages(64)
      group:disable()
      local all = group:read()
      for i = 1, #group do
        local e = group[i]:read()
        assert.equal(all[i].label, e.label)
        assert.equal(all[i].value, e.value)
        assert.equal(group[i]:id(), e.id)
        assert.equal(#group, #e.members)
      end
      assert.equal(64, group[2]:read().value)
      assert.equal("Event(page-faults: 64)", tostring(group[2]))
      group:enable()
      assert.equal(64, (group[3]:measure(kit.touch_pages, 64)).value)
      assert.equal(0, (group[1]:measure(kit.touch_pages, 64)).value)
    end)
    group:close()
  end)

  it("reports that it cannot find its count if its read_format has no id", function()
    requires { perf_open = true }
    local format = { "group", "total_time_enabled", "total_time_running" }
    local leader = assert(perf.open { event = "dummy", read_format = format })
    local member = assert(perf.open({ event = "page-faults", read_format = format }, { group = leader }))
    assert(member:enable())
    assert(leader:enable())
    assert.equal(0, leader:read().value)
    assert.equal(0, (leader:measure(kit.touch_pages, 4)).value)
    for _, e in ipairs { member:read(), (member:measure(kit.touch_pages, 4)) } do
      assert.is_nil(e.value)
      assert.matches('"group" without "id"', e.why, 1, true)
    end
    member:close()
    leader:close()
  end)
end)

-- The story: after a member was closed, the group's read is shorter; it was taken for the read of a pinned group without a
-- counter, and every count was "not enabled".
describe("a group with a closed member", function()
  it("refuses to read, since the counts could not be assigned to its members", function()
    requires { perf_open = true }
    for i = 1, 3 do
      local group = assert(perf.group { "dummy", "page-faults", "cpu-clock" })
      group:enable()
      group[i]:close()
      for _, method in ipairs { "read", "measure", "enable" } do
        local ok, message = pcall(function()
          local r = group[method](group, function() end)
          return r
        end)
        assert.is_false(ok)
        assert.matches("member_read_spec.lua:%d+: .*Group is closed, or a member of it", message)
      end
      group:close()
    end
  end)
end)
