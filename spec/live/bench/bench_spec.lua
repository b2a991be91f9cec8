-- perf.bench and perf.compare, on functions whose exact counts are known.
local core = require "perf.core"
local json = require "perf.base.json"
local kit = require "testkit"
local perf = require "perf"
local util = require "spec.support.util"

local function touch(n) return function() kit.touch_pages(n) end end

-- Quick settings: these counts do not depend on the time for which they are measured.
local QUICK = { repeats = 12, min_time = 0.0005 }

describe("perf.bench", function()
  before_each(function() requires { perf_open = true } end)

  it("counts the events of a call exactly", function()
    local s = util.settled(function()
      local stats = perf.bench("page-faults", touch(64), QUICK)
      assert.same({ 64, 64 }, { stats["page-faults"].min, stats["page-faults"].max })
      return stats
    end)
    local row = s["page-faults"]
    for _, field in ipairs { "median", "mean" } do assert.equal(64, row[field], field) end
    assert.same({ 64, 64 }, { row.ci[1], row.ci[2] })
    assert.equal(0, row.stddev)
    assert.equal(0, row.mad)
    assert.equal(12, row.n)
    assert.equal(12, #row.values)
    assert.equal(12, s.n)
    assert.equal(0, s.overhead["page-faults"])
  end)

  it("divides the counts of a batch by its number of calls", function()
    requires{nostress = true} -- the collector's own work outweighs the call's
    local calls, wall_ns = 0, core.wall_ns
    finally(function() core.wall_ns = wall_ns end)
    core.wall_ns = function() return calls * 250000 end -- a call lasts 0.25 ms, also if another task runs meanwhile
    local s = perf.bench("page-faults", function()
      calls = calls + 1
      kit.touch_pages(4)
    end, { repeats = 7, min_time = 0.002 })
    assert.equal(9, s.batch) -- a tenth more than it would take
    assert.equal(4, s["page-faults"].median)
    assert.is_true(calls >= 7 * s.batch)
  end)

  it("subtracts the cost of the loop and of measuring", function()
    requires { tracefs = true, nostress = true }
    util.settled(function()
      local s = perf.bench("raw_syscalls:sys_enter", function() kit.syscalls(10) end, { repeats = 7, min_time = 0 })
      assert.equal(1, s.batch)
      assert.equal(10, s[1].median)
      assert.equal(0, s.overhead["raw_syscalls:sys_enter"])
      s = perf.bench("raw_syscalls:sys_enter", function() kit.syscalls(10) end, QUICK)
      assert.equal(10, s[1].median)
    end)
  end)

  it("calls the function without arguments, once for each run if min_time is 0", function()
    local calls, most = 0, 0
    local s = perf.bench("dummy", function(...)
      calls, most = calls + 1, math.max(most, select("#", ...))
    end, { repeats = 9, min_time = 0, warmup = 3 })
    assert.equal(1, s.batch)
    assert.equal(0, most)
    assert.equal(2 + 3 + 9, calls) -- two to find the batch, before and after warming up
  end)

  it("accepts a callable table as a function", function()
    local calls = 0
    local f = setmetatable({}, { __call = function() calls = calls + 1 end })
    assert.equal(7, perf.bench("dummy", f, { repeats = 7, min_time = 0 }).n)
    assert.equal(7, perf.bench(f, { repeats = 7, min_time = 0 }).n)
    assert.is_true(calls >= 14)
  end)

  it("measures the machine's best events if no list is given", function()
    local s = perf.bench(touch(8), QUICK)
    assert.equal(8, s["page-faults"].median)
    assert.equal(perf.measure(function() end).source, s.source)
    assert.equal(#perf.measure(function() end):totable().events, #s)
    assert.equal("ns", s["task-clock"].unit)
    assert.is_true(s.wall.median > 0)
    assert.equal("ns", s.wall.unit)
    assert.equal("wall", s.wall.label)
  end)

  it("keeps the order of the list, and finds rows by their labels", function()
    local s = perf.bench({ "page-faults:u", "task-clock", "minor-faults" }, touch(2), QUICK)
    local labels = {}
    for i, row in ipairs(s) do labels[i] = row.label end
    assert.same({ "page-faults:u", "task-clock", "minor-faults" }, labels)
    assert.equal(s[1], s["page-faults:u"])
    assert.equal(s[1], s["page-faults"])
    assert.is_nil(s["cycles"])
    s = perf.bench("page-faults:u,page-faults:k", touch(2), QUICK)
    assert.is_nil(s["page-faults"])
  end)

  it("gives the reason why an event was never counted", function()
    local s = perf.bench("context-switches:u,page-faults", touch(1), QUICK)
    local row = s["context-switches:u"]
    assert.is_nil(row.median)
    assert.equal(0, row.n)
    assert.matches("happen in the kernel", row.why)
    assert.equal(1, s["page-faults"].median)
    assert.matches("\ncontext%-switches:u +%-\n", tostring(s))
    assert.matches("context%-switches:u: not counted: context switches happen in the kernel", tostring(s))
  end)

  it("runs a function that yields", function()
    local co = coroutine.wrap(function()
      return perf.bench("page-faults", function()
        coroutine.yield "away"
        kit.touch_pages(3)
      end, { repeats = 5, min_time = 0 })
    end)
    local got
    repeat got = co() until got ~= "away"
    assert.equal(3, got["page-faults"].median)
  end)

  it("raises the function's errors unchanged", function()
    local thrown = {}
    local ok, err = pcall(perf.bench, "dummy", function() error(thrown) end)
    assert.is_false(ok)
    assert.equal(thrown, err)
    -- the error comes late, in the middle of a run
    local calls = 0
    ok, err = pcall(perf.bench, function()
      calls = calls + 1
      if calls == 1000 then error("late", 0) end
    end)
    assert.is_false(ok)
    assert.equal("late", err)
    assert.equal(64, perf.bench("page-faults", touch(64), QUICK)["page-faults"].median)
  end)

  it("prints a table", function()
    local s = perf.bench("page-faults,task-clock", touch(64), QUICK)
    local lines = {}
    for line in tostring(s):gmatch "[^\n]+" do lines[#lines + 1] = line end
    assert.matches("^12 runs of [%d,]+ calls?; per call, less the %S+ %ws of the loop and of measuring$", lines[1])
    assert.matches("^ +median +95 %% interval +mean +spread +min +max$", lines[2])
    assert.matches("^wall time +[%d.]+ %ws ", lines[3])
    -- More in one run, if the kernel has taken pages of the program away.
    assert.matches("^page%-faults +64 +64 %.%. 6[%d.]+ +6[%d.]+ +[%d.]+ ?%%? +64 +6[%d.]+$", lines[4])
    assert.matches("^task%-clock +[%d.]+ %ws ", lines[5])
    for i = 6, #lines do -- the distributions of those that vary
      assert.is_true(lines[i]:find "^wall time  " ~= nil or lines[i]:find "^task%-clock  " ~= nil or
        lines[i]:find "^page%-faults  " ~= nil, lines[i])
    end
  end)

  it("prints that a few runs are not enough for an interval", function()
    assert.matches("\n3 runs are too few for 95 %%: the interval is from the smallest to the largest value$",
      tostring(perf.bench("dummy", touch(1), { repeats = 3, min_time = 0 })))
    assert.matches("^1 run of 1 call;", tostring(perf.bench("dummy", touch(1), { repeats = 1, min_time = 0 })))
  end)

  it("gives plain tables and JSON", function()
    local s = perf.bench("page-faults", touch(64), QUICK)
    local t = s:totable()
    assert.is_nil(getmetatable(t))
    assert.equal(64, t.events[1].median)
    assert.same({ lo = 64, hi = 64, level = s[1].ci.level }, t.events[1].ci)
    assert.equal(json.encode(t), s:json())
    assert.matches('"label":"page%-faults"', s:json())
  end)

  it("is saved as a page and as JSON", function()
    local s = perf.bench("page-faults", touch(64), QUICK)
    local c = perf.compare({ a = touch(64), b = touch(32) }, { events = "page-faults", repeats = 12, min_time = 0.0005 })
    for _, result in ipairs { s, c } do
      util.with_directory(function(dir)
        assert.is_true(result:save(dir .. "/x.html"))
        assert.is_true(result:save(dir .. "/x.JSON"))
        assert.equal(result:html(), util.read_file(dir .. "/x.html"))
        assert.equal(result:json(), util.read_file(dir .. "/x.JSON"))
        assert.is_true(result:html(dir .. "/y", { title = "mine" }))
        assert.matches("<title>mine</title>", util.read_file(dir .. "/y"))
        local ok, message, code = result:html(dir .. "/none/x.html")
        assert.same({ n = 3, nil, dir .. "/none/x.html: No such file or directory", "ENOENT" }, { n = 3, ok, message, code })
      end)
      util.check_mistakes {
        ["bad argument #1 to 'save' (x.svg: unknown ending; .html and .json are known)"] = function() result:save "x.svg" end,
        ["bad argument #1 to 'save' (string expected, got nil)"] = function() result:save() end,
        ["bad argument #2 to 'html' (unknown option 'titel'; did you mean 'title'?)"] =
          function() result:html(nil, { titel = "" }) end,
      }
    end
  end)

  it("counts by the kernel's accounting if perf_event_open is refused", function()
    requires { seccomp = true }
    local text = require "spec.support.util".in_child(function()
      kit.refuse("perf_event_open", 1)
      local s = perf.bench(touch(64), QUICK)
      return s.source .. " " .. s["page-faults"].median .. " " .. tostring(s["cpu-migrations"].why ~= nil)
    end)
    assert.equal("rusage 64 true", (text:gsub("%.0", "")))
  end)

  it("returns nil, message and code if the machine refuses", function()
    local made = require "perf.measure"
    if made._release then made._release() end
    core.fault("perf_event_open", "EMFILE", 0)
    local s, message, code = perf.bench("alignment-faults:k", touch(1), QUICK)
    core.fault()
    assert.is_nil(s)
    assert.equal("EMFILE", code)
    assert.matches("^alignment%-faults:k: ", message)
    assert.not_matches("%[EMFILE%]", message)
  end)

  it("raises an error for a mistake, with the caller's line", function()
    local f = function() end
    for _, case in ipairs {
      { "bad argument #1 to 'bench' %(function expected, got nil%)" },
      { "bad argument #2 to 'bench' %(function expected, got nil%)", "dummy" },
      { "bad argument #2 to 'bench' %(function expected, got number%)", "dummy", 7 },
      { "bad argument #1 to 'bench' %(string or table of events expected, got number%)", 7, f },
      { "bad argument #1 to 'bench' %(the list has no event%)", {}, f },
      { "bad argument #1 to '%a+' %(no%-such%-event: unknown event", "no-such-event", f },
      { "bad argument #2 to 'bench' %(table of options expected, got number%)", f, 10 },
      { "bad argument #2 to 'bench' %(unknown option 'repeat'; did you mean 'repeats'%?%)", f, { ["repeat"] = 3 } },
      { "bad argument #3 to 'bench' %(option 'events': there is an argument with events%)", "dummy", f, { events = "dummy" } },
      { "bad argument #3 to 'bench' %(option 'repeats': positive integer expected, got %-1%)", "dummy", f,
        { repeats = -1 } },
      { "option 'repeats': positive integer expected, got 0", "dummy", f, { repeats = 0 } },
      { "option 'repeats': positive integer expected, got 2.5", "dummy", f, { repeats = 2.5 } },
      { "option 'repeats': number expected, got string", "dummy", f, { repeats = "5" } },
      { "option 'warmup': whole number of at least 0 expected, got %-1", "dummy", f, { warmup = -1 } },
      { "option 'min_time': number of at least 0 expected, got %-0.5", "dummy", f, { min_time = -0.5 } },
      { "option 'min_time': number of at least 0, at most 2^53, expected, got inf", "dummy", f, { min_time = math.huge } },
      { "option 'min_time': number of at least 0 expected, got %-?nan", "dummy", f, { min_time = 0 / 0 } },
    } do
      local ok, err = pcall(function()
        local s = perf.bench(case[2], case[3], case[4])
        return s
      end)
      assert.is_false(ok, case[1])
      assert.matches(case[1], err)
      assert.matches("^%S*bench_spec%.lua:%d+: ", err)
    end
  end)
end)

describe("the loop of perf.bench", function()
  -- LuaJIT moves work out of a loop's trace; traces that end at a call of C repeat all of it.
  it("does not become a trace that repeats itself, on LuaJIT", function()
    requires { jit = true, perf_open = "user" }
    local jit_util = require "jit.util"
    local home, kinds, x = {}, {}, 1.5
    local function watch(what, trace, fn, pc)
      if what == "start" then
        home[trace] = jit_util.funcinfo(fn, pc).source
      elseif what == "stop" and home[trace] == "=(perf.bench)" then
        kinds[jit_util.traceinfo(trace).linktype] = true
      end
    end
    jit.attach(watch, "trace")
    perf.bench("dummy", function() return math.sin(x) end, { repeats = 3 })
    jit.attach(watch)
    assert.is_true(kinds.stitch)
    assert.is_nil(kinds.loop)
  end)
end)

describe("perf.compare", function()
  before_each(function() requires { perf_open = true } end)

  it("shows which functions differ, and by how much", function()
    local c = perf.compare({ old = touch(64), new = touch(128) }, { events = "page-faults", repeats = 12, min_time = 0.0005 })
    local new = c["page-faults"].candidates.new
    assert.equal("old", c.baseline)
    assert.same({ "old", "new" }, c.names)
    assert.equal(64, c[1].candidates.old.median)
    assert.equal(128, new.median)
    assert.equal(2, new.ratio)
    assert.same({ 2, 2 }, { new.ratio_ci[1], new.ratio_ci[2] })
    assert.same({ 64, 64, 64 }, { new.difference[1], new.difference[2], new.difference[3] })
    assert.is_true(new.real)
    assert.equal("2.00x more, sure", new.verdict)
    assert.matches("\npage%-faults +64 +128 +2%.00x +2%.00 %.%. 2%.00 +2%.00x more, sure\n", tostring(c))
  end)

  it("reports functions that do not differ", function()
    local c = perf.compare({ { "a", touch(64) }, { "b", touch(64) } },
      { events = "page-faults,dummy", repeats = 12, min_time = 0.0005 })
    local b = c["page-faults"].candidates.b
    assert.equal(1, b.ratio)
    assert.equal(1, b.p_adjusted)
    assert.is_false(b.real)
    assert.equal("no difference seen", b.verdict)
    -- if both counts are 0, there is no ratio
    b = c.dummy.candidates.b
    assert.is_nil(b.ratio)
    assert.equal("no difference seen", b.verdict)
  end)

  it("has texts for fewer, for a rise from zero, and for a difference that is too small to matter", function()
    local opts = { events = "page-faults", repeats = 12, min_time = 0 }
    local function verdict(a, b)
      return perf.compare({ { "a", touch(a) }, { "b", touch(b) } }, opts)[1].candidates.b.verdict
    end
    assert.equal("4.00x fewer, sure", verdict(128, 32))
    assert.equal("32 more, sure", verdict(0, 32))
    assert.equal("32 fewer, sure", verdict(32, 0))
    assert.equal("within 1 %", verdict(1000, 1001))
    opts.least = 0
    assert.equal("1.00x more, sure", verdict(1000, 1001))
  end)

  it("says that there are too few rounds, and how many are enough", function()
    local c = perf.compare({ old = touch(1), new = touch(2) }, { events = "page-faults", repeats = 5, min_time = 0 })
    assert.equal("too few rounds to tell", c[1].candidates.new.verdict)
    assert.is_false(c[1].candidates.new.real)
    assert.matches("at least 8 rounds are needed$", tostring(c))
  end)

  it("compares several functions, and keeps their order", function()
    local c = perf.compare({ { "one", touch(10) }, { "two", touch(20) }, { "three", touch(30) } },
      { events = "page-faults", repeats = 12, min_time = 0.0005, baseline = "two" })
    assert.same({ "two", "one", "three" }, c.names)
    assert.equal(0.5, c[1].candidates.one.ratio)
    assert.equal(1.5, c[1].candidates.three.ratio)
    assert.matches("\n +two +one +to two +three +to two\n", tostring(c))
    assert.matches("\npage%-faults +20 +10  2%.00x fewer, sure +30  1%.50x more, sure\n", tostring(c))
  end)

  it("chooses the baseline of a table of names", function()
    local function baseline(...)
      local list = {}
      for _, name in ipairs { ... } do list[name] = touch(1) end
      return perf.compare(list, { events = "dummy", repeats = 1, min_time = 0 }).baseline
    end
    assert.equal("old", baseline("new", "old"))
    assert.equal("before", baseline("after", "before"))
    assert.equal("baseline", baseline("a", "old", "baseline"))
    assert.equal("a", baseline("b", "a", "c"))
  end)

  it("runs each function equally often, in a random order that is the same each time", function()
    local function order(seed)
      local seen = {}
      local function note(name) return function() seen[#seen + 1] = name end end
      perf.compare({ { "a", note "a" }, { "b", note "b" } },
        { events = "dummy", repeats = 20, min_time = 0, warmup = 0, seed = seed })
      return table.concat(seen)
    end
    local first = order(1)
    assert.equal(first, order(1))
    assert.not_equal(first, order(2))
    local _, a = first:gsub("a", "")
    local _, b = first:gsub("b", "")
    assert.equal(a, b)
    for at = #first - 39, #first, 2 do -- a round is one of each
      assert.not_equal(first:sub(at, at), first:sub(at + 1, at + 1))
    end
  end)

  it("leaves out events that were not counted", function()
    local c = perf.compare({ old = touch(1), new = touch(1) }, { events = "context-switches:u", repeats = 12, min_time = 0 })
    assert.equal("not counted", c[1].candidates.new.verdict)
    assert.matches("\ncontext%-switches:u +%- +%- +not counted\n", tostring(c))
    assert.matches("context%-switches:u: not counted: context switches happen in the kernel", tostring(c))
  end)

  it("gives plain tables and JSON", function()
    local c = perf.compare({ old = touch(64), new = touch(128) }, { events = "page-faults", repeats = 12, min_time = 0 })
    local t = c:totable()
    assert.is_nil(getmetatable(t))
    assert.equal(2, t.events[1].candidates.new.ratio)
    assert.same({ lo = 2, hi = 2, level = t.events[1].candidates.new.ratio_ci.level }, t.events[1].candidates.new.ratio_ci)
    assert.equal(json.encode(t), c:json())
  end)

  it("raises the functions' errors unchanged, and an error for a mistake with the caller's line", function()
    local f, thrown = function() end, {}
    local ok, err = pcall(perf.compare, { a = f, b = function() error(thrown) end })
    assert.is_false(ok)
    assert.equal(thrown, err)
    for _, case in ipairs {
      { "bad argument #1 to 'compare' %(table of candidates expected, got nil%)" },
      { "bad argument #2 to 'compare' %(a comparison needs two candidates%)", "page-faults", { a = print } },
      { "bad argument #1 to 'compare' %(a comparison needs two candidates%)", { a = f } },
      { "candidate 'b': function expected, got number", { a = f, b = 7 } },
      { "candidate 2: {name, function} expected, got function", { { "a", f }, f } },
      { "a candidate's name: string expected, got function", { { f, "a" } } },
      { "two candidates are named 'a'", { { "a", f }, { "a", f } } },
      { "unknown field 'c' in an array of candidates", { { "a", f }, { "b", f }, c = f } },
      { "bad argument #2 to 'compare' %(option 'baseline': no candidate is named 'c'%)", { a = f, b = f }, { baseline = "c" } },
      { "bad argument #2 to 'compare' %(unknown option 'event'; did you mean 'events'%?%)",
        { a = f, b = f }, { event = "dummy" } },
      { "option 'events': string or table of events expected, got number", { a = f, b = f }, { events = 5 } },
      { "option 'least': number of at least 0 expected, got %-1", { a = f, b = f }, { least = -1 } },
      { "bad argument #2 to 'compare' %(option 'events': no%-such%-event: unknown event", { a = f, b = f },
        { events = "no-such-event" } },
    } do
      ok, err = pcall(function()
        local c = perf.compare(case[2], case[3])
        return c
      end)
      assert.is_false(ok, case[1])
      assert.matches(case[1], err)
      assert.matches("^%S*bench_spec%.lua:%d+: ", err)
    end
  end)
end)
