-- The story: when the leader of a disabled group was closed, the kernel made its members independent events, and they began to
-- count. A Group's wall time ran while the group was disabled and was not reset, so that a thread that had used a CPU for 50 ms
-- and was then not counted showed 0.1 CPUs. ev:modify() of a breakpoint disabled it, and its name kept the old address.
local core = require "perf.core"
local perf = require "perf"
local kit = require "testkit"

describe("a disabled group", function()
  before_each(function() requires { perf_open = true } end)

  local function members(g) return g[1], g[2] end

  it("stays disabled when its leader is closed", function()
    for _, state in ipairs { "never enabled", "disabled" } do
      local g = assert(perf.group { "dummy", "page-faults" })
      local leader, member = members(g)
      if state == "disabled" then
        g:enable()
        kit.touch_pages(8)
        g:disable()
      end
      local before = member:read().raw
      leader:close()
      kit.touch_pages(64)
      assert.equal(before, member:read().raw, state)
      member:close()
    end
  end)

  it("stays disabled when its leader is closed, although a member opened by perf.open's group option was enabled", function()
    local leader = assert(perf.open "dummy")
    local member = assert(perf.open("page-faults", { group = leader }))
    member:enable()
    leader:close()
    kit.touch_pages(64)
    assert.equal(0, member:read().raw)
    member:close()
  end)

  it("differs from an enabled one, which goes on counting when its leader is closed", function()
    for _, start in ipairs { function(g) g:enable() end, function(g) g:measure(print) end, function(g) g[1]:enable() end } do
      local g = assert(perf.group { "dummy", "page-faults:u" })
      start(g)
      local leader, member = members(g)
      leader:close()
      local before = member:read().raw
      kit.touch_pages(64)
      assert.is_true(member:read().raw - before >= 64)
      member:close()
    end
  end)

  it("has no wall time while it is disabled", function()
    local g = assert(perf.group { "task-clock" })
    kit.sleeps(3)
    assert.equal(0, g:read().wall_ns)
    g:enable()
    kit.spin(2e6)
    g:disable()
    local c = g:read()
    -- At each switch the event stops counting a little before the thread's clock, which spin uses.
    assert.is_true(c.wall_ns >= c["task-clock"] and c["task-clock"] >= 1e6)
    kit.sleeps(3)
    assert.equal(c.wall_ns, g:read().wall_ns)
    g:enable()
    kit.spin(1e6)
    assert.is_true(g:read().wall_ns >= c.wall_ns + 1e6)
    g:reset()
    c = g:read()
    assert.is_true(c.wall_ns >= c["task-clock"])
    g:disable()
    g:reset()
    assert.equal(0, g:read().wall_ns)
    g:close()
  end)

  it("has a wall time of at least its events' time, if they are enabled from the start", function()
    local g = assert(perf.group { { event = "task-clock", disabled = false }, "page-faults" })
    kit.spin(1e6)
    local c = g:read()
    assert.is_true(c.wall_ns >= c["task-clock"])
    g:close()
  end)
end)

describe("Event:modify", function()
  before_each(function() requires { breakpoint = true } end)

  it("leaves a breakpoint as it is, enabled or not, and renames it", function()
    requires { perf_open = true }
    local here = tonumber(kit.map_exec())
    local ev = assert(perf.open(perf.breakpoint { addr = here, len = 4, access = "w" }))
    local function counts()
      local before = ev:read().enabled_ns
      kit.spin(1e5)
      return ev:read().enabled_ns > before
    end
    assert.is_false(counts())
    assert.is_true(ev:modify { bp_addr = here + 8 })
    assert.is_false(counts())
    ev:enable()
    assert.is_true(ev:modify { bp_addr = here + 16 })
    assert.is_true(counts())
    assert.equal("mem:" .. perf.hex(here + 16) .. "/4:w", ev:label())
    assert.is_true(ev:modify { bp_addr = here + 16, disabled = true })
    assert.is_false(counts())
    assert.is_true(ev:modify { bp_addr = here + 8, bp_len = 8 })
    assert.is_false(counts())
    assert.is_true(ev:modify { disabled = false })
    assert.is_true(counts())
    ev:close()
  end)

  it("says what is wrong with the place", function()
    requires { perf_open = true }
    local ev = assert(perf.open(perf.breakpoint { addr = 0x1000, len = 4, access = "w" }))
    local ok, message, code = ev:modify { bp_len = 9 }
    assert.is_nil(ok)
    assert.equal("EINVAL", code)
    assert.matches("modify: Invalid argument (bp_len is 9, and must be 1, 2, 4 or 8)", message, 1, true)
    if select(2, core.uname()) ~= "aarch64" then -- arm64 has watchpoints at any address
      assert.matches("bp_addr 0x1002 is not a multiple of bp_len 4", select(2, ev:modify { bp_addr = 0x1002 }), 1, true)
    end
    ev:close()
  end)
end)
