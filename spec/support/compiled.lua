--- Code that LuaJIT compiles, for the specs of profilers.
local compiled = {}

-- The numbers are not integers. LuaJIT compiles integers in another way on some machines, and c would not stay an integer in all
-- rounds. Then the exits would depend on the round in which the trace is recorded.
local TEXT = [[
local a, b, c = 1.5, 2.5, 3.5
for i = 1, 1000 do
  a = a + i
  b = b + a
  c = c + b
end
return c]]

--- Calls a function, and returns how often the compiler reported each kind of event ("start", "flush", ...) meanwhile.
function compiled.events(fn, ...)
  local counts = {}
  local function count(what) counts[what] = (counts[what] or 0) + 1 end
  jit.attach(count, "trace")
  local ok, err = pcall(fn, ...)
  jit.attach(count)
  if not ok then error(err, 0) end
  return counts
end

--- Calls a function with the compiler's default options, also under PERF_JITSTRESS, and returns its first result. The options
-- decide where a trace begins, and so which exits it has. Setting them also resets the counters of loops.
function compiled.by_default(fn, ...)
  jit.opt.start("hotloop=56", "hotexit=10")
  local result = fn(...)
  if os.getenv "PERF_JITSTRESS" then jit.opt.start("hotloop=1", "hotexit=1") end
  return result
end

--- Calls a function. Compiled code runs in it, but nothing more is compiled: a compilation needs more rounds of a loop, or more
-- exits of a trace, than the function has. For specs of allocations, since the compiler's memory is counted as Lua's too.
function compiled.no_more(fn, ...)
  jit.opt.start("hotloop=30000", "hotexit=300") -- these counters have 16 and 8 bits
  local ok, err = pcall(fn, ...)
  compiled.by_default(function() end)
  if not ok then error(err, 0) end
end

--- Calls a function, whose loop is new, until the loop is compiled. Returns the number of its trace, or nil. Loops share 64
-- counters and their penalties, so a new loop may have to run up to 60,000 times before it is compiled.
function compiled.trace(run, ...)
  local trace
  local function note(what, number, func)
    if what == "start" and func == run then trace = number end
    if what == "abort" and number == trace then trace = nil end
  end
  jit.attach(note, "trace")
  compiled.by_default(function(...)
    local calls = 0
    repeat
      run(...)
      calls = calls + 1
    until trace or calls == 200
  end, ...)
  jit.attach(note)
  return trace
end

--- Compiles a new loop of four lines. Returns its function and the number of its trace.
function compiled.loop()
  local run = assert(loadstring(TEXT, "=loop"))
  return run, assert(compiled.trace(run), "the loop was not compiled")
end

--- The number of exits of a new loop's trace: one of each line, if the compiler marks them.
function compiled.exits()
  local _, trace = compiled.loop()
  return require("jit.util").traceinfo(trace).nexit
end

return compiled
