-- Accounting of the turns of requests: costs of known size, at addresses that are made up, go to the right requests.
local kit = require "testkit"

describe("resty.perf.accounting", function()
  local ffi, ledger, meter, names

  setup(function()
    local has_ffi
    has_ffi, ffi = pcall(require, "ffi")
    if has_ffi then ledger = require "resty.perf.accounting" end
    meter, names = require "perf.measure.open_list", require "perf.names"
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

  it("separates two requests that take turns", function()
    local a, b = address(1), address(2)
    assert.equal(ledger.ENOENT, ledger.enter(a, CONTENT))
    for _, r in ipairs { a, b } do assert.equal(0, ledger.admit(r, 0, 0, 0)) end
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

  it("counts a filter within the content phase as its own, and then the content again", function()
    local r = address(3)
    ledger.admit(r, 0, 0, 0)
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

  it("adds the counts of an abandoned turn to no request", function()
    local a, b = address(4), address(5)
    ledger.admit(a, 0, 0, 0)
    ledger.admit(b, 0, 0, 0)
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

  it("adds the threads of one request together, in one turn or several", function()
    local r = address(6)
    ledger.admit(r, 0, 0, 0)
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

  it("counts the last phase of a request that ended; later turns belong to another request", function()
    local r, other = address(8), address(16)
    ledger.admit(r, 0, 0, 7)
    ledger.enter(r, CONTENT)
    kit.touch_pages(2)
    assert.equal(1, ledger.enter(r, CONTENT)) -- again, and not within the first, which did not end
    assert.equal(1, ledger.abandoned())
    ledger.exit(r, 0)
    ledger.ended(r)
    assert.equal(1, ledger.enter(r, LOG))
    kit.touch_pages(3)
    ledger.exit(r, 0)
    assert.equal(0, ledger.finish(r))
    assert.equal(3, faults(ledger.finished()))
    assert.equal(7, ledger.finished_start())
    assert.equal(1, ledger.requests(0))

    for i, next in ipairs { -- each finds the one before at its end
      function() assert.equal(ledger.ENOENT, ledger.enter(r, CONTENT)) end,
      function() assert.equal(ledger.ENOENT, ledger.enter(other, LOG)) end,
      function() ledger.admit(other, 0, 0, 0) assert.equal(0, ledger.finish(other)) end,
      function() ledger.ended(other) end,
      function() balanced() end,
    } do
      local before = ledger.requests(0)
      ledger.admit(r, 0, 0, 0)
      ledger.enter(r, CONTENT)
      ledger.ended(r)
      next()
      assert.equal(before + (i == 3 and 2 or 1), ledger.requests(0), i)
      assert.equal(0, ledger.known(), i)
    end
    ledger.admit(r, 0, 1, 0) -- known in its last phase only
    assert.equal(1, ledger.enter(r, LOG))
    assert.equal(ledger.ENOENT, ledger.enter(r, CONTENT))
    assert.equal(0, ledger.known())
    balanced()
  end)

  it("asks the host for the end of each request, which may come after the ledger is closed", function()
    local ends = {}
    ffi.cdef "struct ledger_spec_end { void (*handler)(void *); void *data; char bytes[64]; };"
    local add = ffi.cast("void *(*)(void *, size_t)", function(r, n)
      assert(n <= 64)
      if r == address(20) then return nil end
      local e = ffi.new "struct ledger_spec_end"
      e.data = e.bytes
      ends[#ends + 1] = e
      return ffi.cast("void *", e)
    end)
    -- A call that ends in a callback must not be compiled; the host's own function is C's.
    jit.off(ledger.admit)
    finally(function()
      jit.on(ledger.admit)
      add:free()
    end)
    ledger.close()
    assert(ledger.open(assert(meter.open { assert(names.resolve "page-faults:u") }), add))
    ledger.route()
    assert.is_true(ledger.admit(address(20), 0, 0, 0) < 0) -- the host has no memory
    for i = 17, 19 do
      assert.equal(0, ledger.admit(address(i), i == 19 and -1 or 0, 0, 0))
      ledger.enter(address(i), CONTENT)
    end
    assert.equal(0, ledger.admit(address(21), 0, 1, 0)) -- not of one that has ended
    assert.equal(3, #ends)
    ends[1].handler(ends[1].data)
    ledger.balance()
    assert.equal(2, ledger.known())
    assert.equal(2, ledger.requests(0))
    ends[3].handler(ends[3].data)
    ledger.balance()
    assert.equal(1, ledger.known())
    ledger.close()
    ends[2].handler(ends[2].data)
  end)

  it("adds a subrequest's turns to its parent; both end together", function()
    local r, sub, other = address(9), address(10), address(11)
    assert.equal(ledger.ENOENT, ledger.alias(sub, r))
    ledger.admit(r, 0, 0, 0)
    assert.equal(1, ledger.alias(sub, r))
    assert.equal(1, ledger.alias(other, sub))
    ledger.enter(sub, CONTENT)
    kit.touch_pages(6)
    ledger.exit(sub, 0)
    assert.equal(1, ledger.alias(sub, r)) -- another one at the same address
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

  it("does not count a request that is not sampled, nor its subrequest", function()
    local r, sub = address(12), address(13)
    ledger.admit(r, -1, 0, 0)
    assert.equal(0, ledger.enter(r, CONTENT))
    assert.equal(0, ledger.alias(sub, r))
    assert.equal(ledger.ENOENT, ledger.enter(sub, CONTENT))
    assert.equal(0, ledger.back(r, CONTENT, 0))
    assert.is_nil(ledger.request(r))
    assert.is_nil(ledger.finish(r))
    assert.is_nil(ledger.finish(sub))
    assert.equal(0, ledger.known())
  end)

  it("accounts for thousands of requests at once, in any order", function()
    local n = 5000
    for i = 1, n do assert.equal(0, ledger.admit(address(i), i % 3 == 0 and -1 or 0, 0, 0)) end
    for i = n, 1, -1 do assert.equal(i % 3 == 0 and 0 or 1, ledger.enter(address(i), CONTENT)) end
    ledger.leave(address(1))
    assert.equal(n, ledger.known())
    for i = 1, n, 2 do ledger.finish(address(i)) end
    for i = 2, n, 2 do ledger.finish(address(i)) end
    assert.equal(0, ledger.known())
    assert.equal(n - math.floor(n / 3), ledger.requests(0))
    balanced()
  end)

  it("adds requests up by route", function()
    local r = address(14)
    ledger.admit(r, 0, 0, 0)
    assert.is_false(ledger.reroute(r, 7))
    assert.equal(1, ledger.route())
    assert.is_true(ledger.reroute(r, 1))
    assert.equal(1, ledger.finish(r))
    assert.equal(0, ledger.requests(0))
    assert.equal(1, ledger.requests(1))
    assert.is_true(ledger.admit(r, 9, 0, 0) ~= 0)
  end)

  it("counts nothing for a request outside of requests", function()
    local r = address(22)
    ledger.admit(r, 0, 0, 0)
    assert.is_nil(ledger.request(nil))
    assert.is_false(ledger.reroute(nil, 0))
    assert.equal(0, ledger.turn(nil))
    assert.equal(1, ledger.known())
  end)

  it("gives nil and accepts calls after it was closed", function()
    ledger.close()
    local r = address(15)
    for _, name in ipairs { "enter", "leave", "turn", "back", "exit" } do assert.equal(0, ledger[name](r, 1, 1)) end
    assert.is_nil(ledger.finish(r))
    assert.is_nil(ledger.request(r))
    ledger.close()
  end)
end)
