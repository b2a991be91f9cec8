-- The story: in `count() x = x / 1.01 / 0.99 count()`, a loop of three lines, 99 % of the time was shown in count, and half of
-- the page faults of another loop were shown in a function that touches no memory. When a loop stores to one variable twice, its
-- compiled copy has fewer exits, so a stretch of its code returns from a function and goes on in the caller.
-- Half of the system calls of `function f() x = n > 0 and call() or / call() end` were shown on its second line: the
-- second f() of `f() f()` begins in the stretch of the first one, where the jump was looked for that leads to the branch.
local page_fault = require "spec.support.page_fault"
local perf = require "perf"
local testkit = require "testkit"

-- The body of a function with the parameter n, from line 6 on. T stores to a new page, and L loads from one.
local SHAPES = {
  { "calls before and after", "for i = 1, n do\ncount()\nT\ncount()\nL\ncount()\nend" },
  { "a call between", "for i = 1, n do\nT\ncount()\nT\nend" },
  { "a function that returns its parameter", "for i = 1, n do\nL\nsame(i)\nT\nsame(i)\nend" },
  { "a value that is used", "for i = 1, n do\ncalls = calls + same(i)\nT\ncalls = calls + same(i)\nL\nend" },
  { "pages in functions", "for i = 1, n do\ntouch()\ncount()\nT\ntouch()\ncount()\nend" },
  { "functions in functions", "for i = 1, n do\nouter()\nT\nouter()\nL\nend" },
  { "a function that loads a page last", "for i = 1, n do\ncount()\ncalls = calls + load()\nT\ncount()\nend" },
  { "a field", "for i = 1, n do\no.n = o.n + 1\nT\nbump(o)\nL\nbump(o)\nend" },
  { "a method", "for i = 1, n do\no:add(1)\nT\no:add(2)\nT\nend" },
  { "a metamethod", "for i = 1, n do\ncalls = calls + -o\nT\ncalls = calls + -o\nL\nend" },
  { "an element", "for i = 1, n do\na[1] = a[1] + 1\nT\nset(a, 1)\nL\nset(a, 1)\nend" },
  { "C data", "for i = 1, n do\ncell[0] = cell[0] + 1\nT\ncells()\nL\ncells()\nend" },
  { "a vararg function", "for i = 1, n do\nany(i, n)\nT\nany(n)\nT\nend" },
  { "a tail call", "for i = 1, n do\ntail()\nT\ntail()\nL\nend" },
  { "pcall", "for i = 1, n do\npcall(count)\nT\npcall(count)\nL\nend" },
  { "a loop with while", "local i = 0\nwhile i < n do\ncount()\nT\ni = i + 1\ncount()\nL\nend" },
  { "a loop with repeat", "local i = 0\nrepeat\ncount()\nT\ni = i + 1\ncount()\nL\nuntil i >= n" },
  { "a loop in a loop", "for i = 1, n / 20 do\ncount()\nT\nfor j = 1, 20 do\ncount()\nL\ncount()\nend\nT\ncount()\nend" },
  { "ipairs", "for i = 1, n / 3 do\nfor _, v in ipairs(a) do\ncount()\nT\ncount()\nend\nL\nend" },
  { "branches", "for i = 1, n do\ncount()\nif i % 3 == 0 then\nT\nelse\ncount()\nL\nend\ncount()\nT\nend" },
  { "a side exit into functions", "for i = 1, n do\nif i % 2 == 0 then\ntouch()\ncount()\nend\nT\ncount()\nend" },
  { "a loop that breaks", "local i = 0\nwhile true do\ncount()\nT\ni = i + 1\nif i > n then break end\ncount()\nL\nend" },
  { "a branch in a function", "for i = 1, n do\nbranch()\nbranch()\nend" },
  { "a branch in functions", "for i = 1, n do\nbranches()\nbranches()\nend" },
  { "lines that are calls alone", "for i = 1, n do\ntouch() count()\ncount() touch()\ntouch()\nend" },
}

local HEAD = [[local p, size, run = ...
local at, calls, o, a, cell = 0, 0, { n = 0 }, { 1, 2, 3 }, require("ffi").new("double[1]")
local setmetatable, ipairs, pcall = setmetatable, ipairs, pcall
local function count() calls = calls + 1 end
local function same(i) calls = calls + 1 return i end
local function touch() T end
local function outer() count() touch() count() end
local function load() calls = calls + 1 at = at + size return p[at] end
local function bump(t) t.n = t.n + 1 end
local function set(t, i) t[i] = t[i] + 1 end
local function cells() cell[0] = cell[0] + 1 end
local function any(...) calls = calls + 1 T return ... end
local function tail() return count() end
local function branch()
if calls >= 0 then T else
L end
calls = calls + 1 end
local function branches() branch() branch() end
function o.add(t, k) t.n = t.n + k end
setmetatable(o, { __unm = function() calls = calls + 1 return calls % 3 end })
return run(function(n)
]]
local N, PAGES_MOST = 200, 2000

local function load_program(body)
  local text = (HEAD .. body .. "\nend)"):gsub("%f[%w]T%f[%W]", "at = at + size p[at] = 1")
  return assert(loadstring(text:gsub("%f[%w]L%f[%W]", "at = at + size calls = calls + p[at]"), "=program"))
end

-- The frames that touch each page, from a run with a table for the pages; and how many pages are touched first, if it runs twice.
local function truth_of(body, size, twice)
  local truth, first = {}, 0
  local function note(_, at)
    truth[at / size] = page_fault.frames()
    return 0
  end
  load_program(body)(setmetatable({}, { __index = note, __newindex = note }), size, function(work)
    work(N)
    if not twice then return end
    first = #truth
    work(N)
  end)
  return truth, first
end

local function holds(frame, truth)
  return frame.linedefined == truth.linedefined and frame.line <= truth.line and truth.line <= (frame.lastline or frame.line)
end

-- Returns how many events are on their line, in a range of lines with it, in a caller at lines with the call, and elsewhere.
local function compare(prof, truth, from, size)
  local exact, range, caller, wrong = 0, 0, 0, {}
  for sample in prof:timeline() do
    local expected = truth[math.floor((sample.addr - from) / size)]
    if expected then
      local got
      for _, frame in ipairs(sample.stack) do
        if not got and frame.file == "program" then got = frame end
      end
      local level
      for i, frame in ipairs(expected) do
        level = level or (got and holds(got, frame) and i)
      end
      if not level then
        wrong[#wrong + 1] = ("%d, not %s"):format(expected[1].line, got and got.name or "in the program")
      elseif level > 1 then
        caller = caller + 1
      elseif got.lastline then
        range = range + 1
      else
        exact = exact + 1
      end
    end
  end
  return exact, range, caller, wrong
end

describe("a compiled loop with merged snapshots", function()
  local ffi, pages, size

  before_each(function()
    requires { lua = "luajit", registers = true, perf_open = true }
    ffi = require "ffi"
    pcall(ffi.cdef, [[
      void *mmap(void *, size_t, int, int, int, long); int munmap(void *, size_t); int madvise(void *, size_t, int);]])
    size = testkit.page_size()
    pages = ffi.cast("char *", ffi.C.mmap(nil, PAGES_MOST * size, 3, 0x22, -1, 0))
    ffi.C.madvise(pages, PAGES_MOST * size, 15) -- no huge pages
  end)
  after_each(function()
    if pages then ffi.C.munmap(pages, PAGES_MOST * size) end
    pages = nil
  end)

  for _, shape in ipairs(SHAPES) do
    local title, body = shape[1], shape[2]

    local function check(twice)
      local truth, first = truth_of(body, size, twice)
      local n = #truth - first
      assert(n > 0 and #truth < PAGES_MOST, #truth)
      local prof = load_program(body)(pages, size, function(work)
        if twice then work(N) end
        return perf.profile({ event = "page-faults", period = 1, timeline = 2 * PAGES_MOST }, work, N)
      end)
      local exact, range, caller, wrong = compare(prof, truth, tonumber(ffi.cast("intptr_t", pages)), size)
      assert.equal(0, #wrong, wrong[1])
      assert.is_true(exact + range + caller > n / 2)
    end

    it("has its lines: " .. title, function()
      check(false)
    end)

    it("has its lines in code from before the profiler's start: " .. title, function()
      check(true)
    end)
  end
end)
