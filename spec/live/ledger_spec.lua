-- The ledger of requests' turns: who is billed for what, with costs of known size and addresses made up for it.
local kit = require "testkit"

describe("resty.perf.ledger", function()
  local ffi, ledger, meter, names

  setup(function()
    local has_ffi
    has_ffi, ffi = pcall(require, "ffi")
    if has_ffi then ledger = require "resty.perf.ledger" end
    meter, names = require "perf.meter", require "perf.names"
  end)

  local CONTENT, LOG, HEADER = 4, 5, 8
  local function address(n) return ffi.cast("void *", 4096 + 64 * n) end

  before_each(function()
    requires { lua = "luajit", perf_open = true, nostress = true }
    assert(ledger.open(assert(meter.open { assert(names.resolve "page-faults:u"), assert(names.resolve "task-clock") })))
    assert.equal(0, ledger.route())
  end)
  after_each(function() if ledger then ledger.close() end end)

  local function faults(c) return c["page-faults"] end

  local function balanced()
    local whole, unattributed, pending = ledger.balance()
    for _, e in ipairs(whole) do
      local sum = unattributed[e.label] + pending[e.label]
      for phase = 1, #ledger.phases do
        local c = ledger.phase_counts(0, phase, ledger.zeros())
        sum = sum + (c and c[e.label] or 0)
      end
      assert.equal(e.value, sum, e.label)
    end
    return faults(unattributed)
  end

  it("two requests that take turns", function()
    local a, b = address(1), address(2)
    assert.equal(ledger.ENOENT, ledger.enter(a, CONTENT))
    for _, r in ipairs { a, b } do assert.equal(0, ledger.admit(r, 1, 0)) end
    balanced()
    assert.equal(1, ledger.enter(a, CONTENT))
    kit.touch_pages(5)
    assert.equal(0, ledger.leave(b))
    assert.equal(CONTENT, ledger.leave(a))
    assert.equal(0, ledger.leave(a))
    assert.equal(1, ledger.enter(b, CONTENT))
    kit.touch_pages(7)
    ledger.leave(b)
    kit.touch_pages(100)
    ledger.back(a, CONTENT, 0)
    kit.touch_pages(5)
    ledger.exit(a, 0)
    assert.equal(10, faults(ledger.request(a)))
    assert.equal(7, faults(ledger.request(b)))
    assert.equal(0, ledger.finish(a))
    assert.equal(10, faults(ledger.finished()))
    assert.is_nil(ledger.finish(a))
    assert.is_nil(ledger.request(a))
    assert.equal(1, ledger.known())
    assert.equal(0, ledger.finish(b))
    assert.equal(2, ledger.requests(0))
    assert.equal(1, tonumber(ledger.histogram(0, 1)[3]), "7 has three bits")
    assert.equal(1, tonumber(ledger.histogram(0, 1)[4]), "10 has four")
    balanced()
  end)

  it("a filter within the content; the content goes on", function()
    local r = address(3)
    ledger.admit(r, 1, 0)
    ledger.enter(r, CONTENT)
    kit.touch_pages(3)
    local code = ledger.enter(r, HEADER)
    assert.equal(1 + CONTENT, code)
    kit.touch_pages(4)
    ledger.exit(r, code - 1)
    kit.touch_pages(2)
    assert.equal(CONTENT, ledger.leave(r))
    ledger.finish(r)
    assert.equal(5, faults(ledger.phase_counts(0, CONTENT, ledger.zeros())))
    assert.equal(4, faults(ledger.phase_counts(0, HEADER, ledger.zeros())))
    balanced()
  end)

  it("a turn found open is nobody's from its beginning", function()
    local a, b = address(4), address(5)
    ledger.admit(a, 1, 0)
    ledger.admit(b, 1, 0)
    ledger.enter(a, CONTENT)
    kit.touch_pages(3)
    ledger.leave(a)
    ledger.back(a, CONTENT, 0)
    kit.touch_pages(20) -- and an error
    ledger.enter(b, CONTENT)
    kit.touch_pages(2)
    ledger.exit(b, 0)
    assert.equal(1, ledger.abandoned())
    assert.equal(3, faults(ledger.request(a)))
    assert.equal(2, faults(ledger.request(b)))
    assert.truthy(balanced() >= 20)
  end)

  it("threads of one request: a turn lasts, or begins again", function()
    local r = address(6)
    ledger.admit(r, 1, 0)
    ledger.enter(r, CONTENT)
    kit.touch_pages(1)
    ledger.back(r, CONTENT, 1)
    kit.touch_pages(1)
    ledger.leave(r)
    ledger.back(r, CONTENT, 1)
    kit.touch_pages(1)
    assert.equal(CONTENT, ledger.turn(r))
    assert.equal(0, ledger.turn(address(7)))
    ledger.leave(r)
    assert.equal(0, ledger.abandoned())
    assert.equal(3, faults(ledger.request(r)))
  end)

  it("another request at the same address, and a redirect of the same", function()
    local r = address(8)
    ledger.admit(r, 1, 0)
    ledger.enter(r, CONTENT)
    ledger.exit(r, 0)
    assert.equal(ledger.EAGAIN, ledger.enter(r, CONTENT))
    assert.is_false(ledger.same(r, 2))
    assert.is_true(ledger.same(r, 1))
    assert.equal(1, ledger.enter(r, CONTENT))
    assert.equal(1, ledger.enter(r, LOG)) -- not within the content, which did not end
    assert.equal(1, ledger.abandoned())
    ledger.admit(r, 3, 0) -- the old one is over
    assert.equal(1, ledger.requests(0))
    assert.equal(1, ledger.enter(r, CONTENT))
  end)

  it("a subrequest's turns are its parent's; both go together", function()
    local r, sub, other = address(9), address(10), address(11)
    assert.equal(ledger.ENOENT, ledger.alias(sub, 1, r))
    ledger.admit(r, 1, 0)
    assert.equal(0, ledger.alias(sub, 2, r))
    assert.equal(0, ledger.alias(other, 2, sub))
    ledger.enter(sub, CONTENT)
    kit.touch_pages(6)
    ledger.exit(sub, 0)
    assert.equal(ledger.EAGAIN, ledger.enter(sub, CONTENT))
    assert.equal(0, ledger.alias(sub, 3, r)) -- another one at the same address
    assert.equal(1, ledger.enter(sub, CONTENT))
    ledger.exit(sub, 0)
    assert.equal(6, faults(ledger.request(r)))
    assert.equal(3, ledger.known())
    assert.is_nil(ledger.finish(sub)) -- it may have a log phase of its own
    assert.equal(2, ledger.known())
    assert.equal(6, faults(ledger.request(other)))
    assert.equal(0, ledger.finish(r))
    assert.equal(0, ledger.known())
    balanced()
  end)

  it("one that is not counted, and its subrequest", function()
    local r, sub = address(12), address(13)
    ledger.admit(r, 1, -1)
    assert.equal(0, ledger.enter(r, CONTENT))
    ledger.alias(sub, 1, r)
    assert.equal(0, ledger.enter(sub, CONTENT))
    assert.equal(0, ledger.back(r, CONTENT, 0))
    assert.is_nil(ledger.request(r))
    assert.is_nil(ledger.finish(r))
    assert.is_nil(ledger.finish(sub))
    assert.equal(0, ledger.known())
  end)

  it("thousands at once, in any order", function()
    local n = 5000
    for i = 1, n do assert.equal(0, ledger.admit(address(i), i, i % 3 == 0 and -1 or 0)) end
    for i = n, 1, -1 do assert.equal(i % 3 == 0 and 0 or 1, ledger.enter(address(i), CONTENT)) end
    ledger.leave(address(1))
    assert.equal(n, ledger.known())
    for i = 1, n, 2 do ledger.finish(address(i)) end
    for i = 2, n, 2 do ledger.finish(address(i)) end
    assert.equal(0, ledger.known())
    assert.equal(n - math.floor(n / 3), ledger.requests(0))
    balanced()
  end)

  it("routes", function()
    local r = address(14)
    ledger.admit(r, 1, 0)
    assert.is_false(ledger.reroute(r, 7))
    assert.equal(1, ledger.route())
    assert.is_true(ledger.reroute(r, 1))
    assert.equal(1, ledger.finish(r))
    assert.equal(0, ledger.requests(0))
    assert.equal(1, ledger.requests(1))
    assert.is_true(ledger.admit(r, 1, 9) ~= 0)
  end)

  it("closed, it knows nothing and refuses nothing", function()
    ledger.close()
    local r = address(15)
    for _, name in ipairs { "enter", "leave", "turn", "back", "exit" } do assert.equal(0, ledger[name](r, 1, 1)) end
    assert.is_nil(ledger.finish(r))
    assert.is_nil(ledger.request(r))
    ledger.close()
  end)
end)
