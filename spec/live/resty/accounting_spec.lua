-- Accounting of the turns of requests: costs of known size go to the right requests. The addresses are made up.
local kit = require "testkit"
local leaks = require "spec.support.leaks"
local meter = require "perf.measure.open_list"
local names = require "perf.names"
local opened = require "spec.support.accounting"

describe("resty.perf.accounting", function()
  local ffi, accounting

  local CONTENT, LOG, HEADER = 4, 5, 14
  local function address(n) return ffi.cast("void *", 4096 + 64 * n) end

  before_each(function() ffi, accounting = opened.open() end)
  after_each(opened.close)

  -- LuaJIT panics if compiled code calls a C function that calls back into Lua, as the host's functions here do. (Those of a real
  -- host are in C.)
  local function interpreted()
    leaks.flush()
    jit.off()
  end

  local function faults(c) return c["page-faults"] end

  -- A sanitizer's malloc may map new memory in any call, and the first use of that is a fault too.
  local most_more = os.getenv "PERF_SAN" and 2 or 0
  local function assert_faults(expected, found)
    assert.is_true(found >= expected and found <= expected + most_more, ("%d instead of %d"):format(found, expected))
  end

  local function balanced()
    local whole, unattributed, pending = accounting.balance()
    for _, e in ipairs(whole) do
      local sum = unattributed[e.label] + pending[e.label]
      for phase = 1, #accounting.phases do
        local c = accounting.phase_counts(0, phase, accounting.zeros())
        sum = sum + (c and c[e.label] or 0)
      end
      assert.equal(e.value, sum, e.label)
    end
    return faults(unattributed)
  end

  -- Requests in memory: the pointers to the main request and to the parent are at some place in it.
  it("finds the main request of a subrequest", function()
    local function request(main, parent)
      local r = ffi.new "void *[200]"
      r[60] = r + 50
      r[141], r[142] = main or r, parent
      return r
    end
    local top = request()
    local child = request(top, top)
    assert.is_nil(accounting.main(child)) -- the place is unknown
    assert.truthy(accounting.main(top) == ffi.cast("void *", top))
    assert.truthy(accounting.main(child) == ffi.cast("void *", top))
    assert.truthy(accounting.main(request(top, child)) == ffi.cast("void *", top))
    assert.is_nil(accounting.main(request(address(1), child))) -- unmapped
    assert.is_nil(accounting.main(request(child, child))) -- no main request
    assert.is_nil(accounting.main(nil))
  end)

  it("separates two requests that take turns", function()
    local a, b = address(1), address(2)
    assert.equal(accounting.ENOENT, accounting.enter(a, CONTENT))
    for _, r in ipairs { a, b } do assert.equal(0, accounting.admit(r, 0, 0, 0)) end
    balanced()
    assert.equal(1, accounting.enter(a, CONTENT))
    kit.touch_pages(5)
    assert.equal(0, accounting.leave(b))
    assert.equal(CONTENT, accounting.leave(a))
    assert.equal(0, accounting.leave(a))
    assert.equal(1, accounting.enter(b, CONTENT))
    kit.touch_pages(7)
    accounting.leave(b)
    kit.touch_pages(100)
    accounting.back(a, CONTENT, 0)
    kit.touch_pages(5)
    accounting.exit(a, 0)
    assert_faults(10, faults(accounting.request(a)))
    assert_faults(7, faults(accounting.request(b)))
    assert.equal(0, accounting.finish(a))
    assert_faults(10, faults(accounting.finished()))
    assert.is_nil(accounting.finish(a))
    assert.is_nil(accounting.request(a))
    assert.equal(1, accounting.known())
    assert.equal(0, accounting.finish(b))
    assert.equal(2, accounting.requests(0))
    local size = accounting.BUCKETS
    local before, buckets = ffi.new("double[?]", 2 * size), ffi.new("double[?]", size)
    for _ = 1, 2 do -- the second time, nothing is new
      accounting.add_histogram(accounting.freeze(), 0, 1, before, buckets, 0)
      assert.same({ 1, 1 }, { buckets[3], buckets[4] }, "7 has three bits, 10 has four")
    end
    balanced()
  end)

  it("counts a filter within the content phase as its own, and then the content again", function()
    local r = address(3)
    accounting.admit(r, 0, 0, 0)
    accounting.enter(r, CONTENT)
    kit.touch_pages(3)
    local code = accounting.enter(r, HEADER)
    assert.equal(1 + CONTENT, code)
    kit.touch_pages(4)
    accounting.exit(r, code - 1)
    kit.touch_pages(2)
    assert.equal(CONTENT, accounting.leave(r))
    accounting.finish(r)
    assert_faults(5, faults(accounting.phase_counts(0, CONTENT, accounting.zeros())))
    assert_faults(4, faults(accounting.phase_counts(0, HEADER, accounting.zeros())))
    balanced()
  end)

  -- The story: after an error in a filter, the content's later counts were the filter's.
  it("adds the counts of a filter that an error interrupts to no request, up to the content's next yield or end", function()
    local r = address(3)
    accounting.admit(r, 0, 0, 0)
    for turn, goes_on in ipairs { accounting.leave, function() accounting.exit(r, 0) return CONTENT end } do
      accounting.enter(r, CONTENT)
      kit.touch_pages(3)
      accounting.enter(r, HEADER)
      assert.is_true(accounting.nested())
      kit.touch_pages(4) -- then an error leaves the turn
      assert.equal(accounting.EBUSY, accounting.enter(r, HEADER))
      assert.equal(1 + CONTENT, accounting.enter(r, HEADER + accounting.ANEW))
      kit.touch_pages(10)
      accounting.exit(r, CONTENT)
      accounting.enter(r, HEADER)
      kit.touch_pages(4) -- then an error leaves the turn
      assert.equal(CONTENT, goes_on(r))
      assert.is_false(accounting.nested())
      assert.equal(2 * turn, accounting.abandoned())
      accounting.back(r, CONTENT, 0)
      kit.touch_pages(5)
      accounting.exit(r, 0)
    end
    accounting.finish(r)
    assert_faults(2 * 8, faults(accounting.phase_counts(0, CONTENT, accounting.zeros())))
    assert_faults(2 * 10, faults(accounting.phase_counts(0, HEADER, accounting.zeros())))
    balanced()
  end)

  it("adds the counts of an abandoned turn to no request", function()
    local a, b = address(4), address(5)
    accounting.admit(a, 0, 0, 0)
    accounting.admit(b, 0, 0, 0)
    accounting.enter(a, CONTENT)
    kit.touch_pages(3)
    accounting.leave(a)
    accounting.back(a, CONTENT, 0)
    kit.touch_pages(20) -- then an error leaves the turn
    accounting.enter(b, CONTENT)
    kit.touch_pages(2)
    accounting.exit(b, 0)
    assert.equal(1, accounting.abandoned())
    assert_faults(3, faults(accounting.request(a)))
    assert_faults(2, faults(accounting.request(b)))
    assert.truthy(balanced() >= 20)
  end)

  it("adds the threads of one request together, in one turn or several", function()
    local r = address(6)
    accounting.admit(r, 0, 0, 0)
    accounting.enter(r, CONTENT)
    kit.touch_pages(1)
    accounting.back(r, CONTENT, 1)
    kit.touch_pages(1)
    accounting.leave(r)
    accounting.back(r, CONTENT, 1)
    kit.touch_pages(1)
    assert.equal(CONTENT, accounting.turn(r))
    assert.equal(0, accounting.turn(address(7)))
    accounting.leave(r)
    assert.equal(0, accounting.abandoned())
    assert_faults(3, faults(accounting.request(r)))
  end)

  it("counts the last phase of a request that ended; later turns belong to another request", function()
    local r, other = address(8), address(16)
    accounting.admit(r, 0, 0, 7)
    accounting.enter(r, CONTENT)
    kit.touch_pages(2)
    assert.equal(accounting.EBUSY, accounting.enter(r, CONTENT)) -- within the first, or after an error
    assert.equal(0, accounting.abandoned())
    assert.equal(1, accounting.enter(r, CONTENT + accounting.ANEW))
    assert.equal(1, accounting.abandoned())
    accounting.exit(r, 0)
    accounting.ended(r)
    assert.equal(1, accounting.enter(r, LOG))
    kit.touch_pages(3)
    accounting.exit(r, 0)
    assert.equal(0, accounting.finish(r))
    assert_faults(3, faults(accounting.finished()))
    assert.equal(7, accounting.finished_start())
    assert.equal(1, accounting.requests(0))

    for i, next in ipairs { -- each sees the end of the previous request
      function() assert.equal(accounting.ENOENT, accounting.enter(r, CONTENT)) end,
      function() assert.equal(accounting.ENOENT, accounting.enter(other, LOG)) end,
      function() accounting.admit(other, 0, 0, 0) assert.equal(0, accounting.finish(other)) end,
      function() accounting.ended(other) end,
      function() balanced() end,
    } do
      local before = accounting.requests(0)
      accounting.admit(r, 0, 0, 0)
      accounting.enter(r, CONTENT)
      accounting.ended(r)
      next()
      assert.equal(before + (i == 3 and 2 or 1), accounting.requests(0), i)
      assert.equal(0, accounting.known(), i)
    end
    accounting.admit(r, 0, 1, 0) -- it is only known in its last phase
    assert.equal(1, accounting.enter(r, LOG))
    assert.equal(accounting.ENOENT, accounting.enter(r, CONTENT))
    assert.equal(0, accounting.known())
    balanced()
  end)

  it("asks the host for the end of each request, which may come after the accounting is closed", function()
    local ends = {}
    ffi.cdef "struct accounting_spec_end { void (*handler)(void *); void *data; char bytes[64]; };"
    local add = ffi.cast("void *(*)(void *, size_t)", function(r, n)
      assert(n <= 64)
      if r == address(20) then return nil end
      local e = ffi.new "struct accounting_spec_end"
      e.data = e.bytes
      ends[#ends + 1] = e
      return ffi.cast("void *", e)
    end)
    interpreted()
    finally(function()
      jit.on()
      add:free()
    end)
    accounting.close()
    assert(accounting.open(assert(meter.open { assert(names.resolve "page-faults:u") }), { add_end = add }))
    accounting.route()
    assert.is_true(accounting.admit(address(20), 0, 0, 0) < 0) -- the host has no memory
    for i = 17, 19 do
      assert.equal(0, accounting.admit(address(i), i == 19 and -1 or 0, 0, 0))
      accounting.enter(address(i), CONTENT)
    end
    assert.equal(0, accounting.admit(address(21), 0, 1, 0)) -- a request that has ended has a mark
    assert.equal(4, #ends)
    ends[1].handler(ends[1].data)
    accounting.balance()
    assert.equal(2, accounting.known())
    assert.equal(2, accounting.requests(0))
    ends[3].handler(ends[3].data)
    accounting.balance()
    assert.equal(1, accounting.known())
    accounting.close()
    for _, e in ipairs { ends[2], ends[4] } do e.handler(e.data) end
    assert.equal(6, #ends, "the marks of two ended requests")
  end)

  it("adds a subrequest's turns to its parent; both end together", function()
    local r, sub, other = address(9), address(10), address(11)
    assert.equal(accounting.ENOENT, accounting.alias(sub, r))
    accounting.admit(r, 0, 0, 0)
    assert.equal(1, accounting.alias(sub, r))
    assert.equal(1, accounting.alias(other, sub))
    accounting.enter(sub, CONTENT)
    kit.touch_pages(6)
    accounting.exit(sub, 0)
    assert.equal(1, accounting.alias(sub, r)) -- another request at the same address
    assert.equal(1, accounting.enter(sub, CONTENT))
    accounting.exit(sub, 0)
    assert_faults(6, faults(accounting.request(r)))
    assert.equal(3, accounting.known())
    assert.is_nil(accounting.finish(sub)) -- it may have a log phase of its own
    assert.equal(2, accounting.known())
    assert_faults(6, faults(accounting.request(other)))
    assert.equal(0, accounting.finish(r))
    assert.equal(0, accounting.known())
    balanced()
  end)

  it("does not count a request that is not sampled, nor its subrequest", function()
    local r, sub = address(12), address(13)
    accounting.admit(r, -1, 0, 0)
    assert.equal(0, accounting.enter(r, CONTENT))
    assert.equal(0, accounting.alias(sub, r))
    assert.equal(accounting.ENOENT, accounting.enter(sub, CONTENT))
    assert.equal(0, accounting.back(r, CONTENT, 0))
    assert.is_nil(accounting.request(r))
    assert.is_false(accounting.finish(r))
    assert.is_nil(accounting.finish(sub))
    assert.equal(0, accounting.known())
  end)

  describe("with a host", function()
    local ends, began, variables -- of each request, by its address as text
    local callbacks, host
    local function key(r) return tostring(ffi.cast("void *", r)) end

    local function request(main)
      local r = ffi.new "void *[200]"
      r[100], r[101] = main or r, main
      variables[key(r)] = {}
      return r
    end

    setup(function()
      if not jit then return end
      require "ffi".cdef "struct spec_end { void (*handler)(void *); void *data; const struct spec_end *next; };"
    end)

    before_each(function()
      accounting.close()
      ends, began, variables = {}, {}, {}
      local add_end = ffi.cast("struct spec_end *(*)(void *, size_t)", function(r, n)
        local data = ffi.new("char[?]", math.max(tonumber(n), 1))
        local e = ffi.new "struct spec_end"
        local list = ends[key(r)]
        e.data, e.next = data, list and list[1][1]
        ends[key(r)] = { { e, data }, list }
        return e
      end)
      local get_start = ffi.cast("double (*)(void *)", function(r) return began[key(r)] end)
      local get_variable = ffi.cast("int (*)(void *, const char *, size_t, char *, int, const char **, size_t *, const char **)",
        function(r, name, n, _, _, value, size)
          local text = variables[key(r)][ffi.string(name, n)]
          if not text then return -5 end
          value[0], size[0] = text, #text
          return 0
        end)
      callbacks = { add_end, get_start, get_variable }
      host = { add_end = add_end, get_start = get_start, get_variable = get_variable }
      interpreted()
      opened.open(nil, host)
      accounting.set_slow(10)
    end)

    after_each(function()
      jit.on()
      accounting.close()
      accounting.sample()
      for _, f in ipairs(callbacks or {}) do f:free() end
      callbacks = nil
    end)

    it("makes requests known that are not to be counted, and tells the slow ones", function()
      local now = os.time()
      local a, b, c = request(), request(), request()
      local sub = request(a)
      began[key(a)], began[key(b)] = now, now - 20
      accounting.skip(0, 2)
      assert.equal(accounting.ENOENT, accounting.enter(a, CONTENT)) -- the place of the pointers is unknown
      accounting.main(a)
      assert.equal(accounting.ENOENT, accounting.enter(sub, CONTENT))
      assert.equal(accounting.ENOENT, accounting.enter(a, LOG))
      assert.equal(0, accounting.known())
      assert.equal(0, accounting.enter(a, CONTENT))
      assert.equal(0, accounting.enter(a, CONTENT))
      assert.equal(0, accounting.enter(b, CONTENT))
      assert.equal(accounting.ENOENT, accounting.enter(c, CONTENT))
      assert.is_false(accounting.skipped(0))
      assert.equal(2, accounting.seen())
      assert.equal(2, accounting.known())
      assert.is_nil(accounting.finish(a))
      assert.is_false(accounting.finish(b))
      assert.is_nil(accounting.finish(c))
      assert.equal(0, accounting.known())

      accounting.skip(0, 1) -- it stays for the next accounting, whose sampler is the same
      accounting.close()
      opened.open(nil, host)
      accounting.main(c)
      assert.equal(0, accounting.enter(c, CONTENT))
      assert.equal(accounting.ENOENT, accounting.enter(a, CONTENT))
      accounting.ended(c)
      assert.equal(0, accounting.enter(c, LOG))
      accounting.ended(c) -- the host ends it twice
    end)

    local function with(uri, header)
      local r = request()
      variables[key(r)] = { uri = uri, http_x = header }
      accounting.main(r)
      return r
    end

    it("leaves requests with the sampling header to the caller", function()
      accounting.sample { number = 1, header = "http_x" }
      accounting.skip(0, 3)
      for header, expected in pairs { [""] = 0, any = accounting.ENOENT } do
        assert.equal(expected, accounting.enter(with("/", header), CONTENT), header)
      end
      assert.equal(0, accounting.enter(with "/", CONTENT))
      assert.is_true(accounting.skipped(0))
      assert.is_false(accounting.skipped(0))
      accounting.sample { number = 1, header = ("h"):rep(1000) }
      accounting.skip(0, 1)
      assert.equal(accounting.ENOENT, accounting.enter(with "/", CONTENT))
    end)

    -- The story: the core then went on with the numbers of the last sampler, whose memory was free.
    it("keeps its sampler if there is no memory for another one", function()
      local new = ffi.new
      function ffi.new(kind, ...)
        if kind:find "path" then error("not enough memory", 0) end
        return new(kind, ...)
      end
      local ok, message = pcall(accounting.sample, { number = 2, by_route = true })
      ffi.new = new
      assert.same({ false, "not enough memory" }, { ok, message })
      accounting.skip(0, 2)
      for _ = 1, 2 do assert.equal(0, accounting.enter(with "/", CONTENT)) end
      assert.is_false(accounting.skipped(0))
      assert.equal(accounting.ENOENT, accounting.enter(with "/", CONTENT))
    end)

    it("knows the samplers of paths that it has learned", function()
      local long, longer = "/" .. ("p"):rep(119), "/" .. ("p"):rep(120)
      accounting.sample { number = 3, by_route = true }
      for number = 0, 2 do accounting.skip(number, 10) end
      for number, path in pairs { [0] = "/", "/a", long } do
        assert.equal(accounting.ENOENT, accounting.enter(with(path), CONTENT), path)
        accounting.learn(with(path), number)
        for _ = 1, number + 1 do assert.equal(0, accounting.enter(with(path), CONTENT), path) end
      end
      for _, path in ipairs { "", "/b", "/a\0", longer } do
        assert.equal(accounting.ENOENT, accounting.enter(with(path), CONTENT), path)
      end
      accounting.learn(with(longer), 1)
      assert.equal(accounting.ENOENT, accounting.enter(with(longer), CONTENT))
      accounting.learn(with(), 1) -- no path
      for number = 0, 2 do
        local left = 0
        while accounting.skipped(number) do left = left + 1 end
        assert.equal(10 - number - 1, left)
      end
      for i = 1, 1000 do -- more than there are places for
        accounting.learn(with("/many/" .. i), 1)
        accounting.skip(1, 1)
        assert.equal(0, accounting.enter(with("/many/" .. i), CONTENT))
      end
    end)
  end)

  it("accounts for thousands of requests at once, in any order", function()
    local n = 5000
    for i = 1, n do assert.equal(0, accounting.admit(address(i), i % 3 == 0 and -1 or 0, 0, 0)) end
    for i = n, 1, -1 do assert.equal(i % 3 == 0 and 0 or 1, accounting.enter(address(i), CONTENT)) end
    accounting.leave(address(1))
    assert.equal(n, accounting.known())
    for i = 1, n, 2 do accounting.finish(address(i)) end
    for i = 2, n, 2 do accounting.finish(address(i)) end
    assert.equal(0, accounting.known())
    assert.equal(n - math.floor(n / 3), accounting.requests(0))
    balanced()
  end)

  it("adds requests up by route", function()
    local r = address(14)
    accounting.admit(r, 0, 0, 0)
    assert.is_false(accounting.reroute(r, 7))
    assert.equal(1, accounting.route())
    assert.is_true(accounting.reroute(r, 1))
    assert.equal(1, accounting.finish(r))
    assert.equal(0, accounting.requests(0))
    assert.equal(1, accounting.requests(1))
    assert.is_true(accounting.admit(r, 9, 0, 0) ~= 0)
  end)

  it("counts nothing for a request outside of requests", function()
    local r = address(22)
    accounting.admit(r, 0, 0, 0)
    assert.is_nil(accounting.request(nil))
    assert.is_false(accounting.reroute(nil, 0))
    assert.equal(0, accounting.turn(nil))
    assert.equal(1, accounting.known())
  end)

  it("gives nil and accepts calls after it was closed", function()
    accounting.close()
    local r = address(15)
    for _, name in ipairs { "enter", "leave", "turn", "back", "exit" } do assert.equal(0, accounting[name](r, 1, 1)) end
    assert.is_nil(accounting.finish(r))
    assert.is_nil(accounting.request(r))
    accounting.close()
  end)
end)
