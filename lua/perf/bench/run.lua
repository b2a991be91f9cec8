-- The runs behind perf.bench and perf.compare.
--
-- A run is one measurement of a batch of calls; the size of the batch is found by trying. Candidates take turns, in a new random
-- order each round, together with an empty function in batches of the same size: its cost is that of measuring, the loop and a
-- call, and is subtracted. Drift and disturbances affect all candidates alike.
--
-- The loop must not let the work be optimized away. Plain Lua does no such optimization. LuaJIT would inline the function, move
-- invariant code out of the loop and drop unused results; so there every result goes to a C function, which ends the trace: the
-- function is compiled as in a hot loop, but each call of it does its work. A loop with its compilation off would not do: side
-- traces of the function that return to it could not be compiled. Each function gets a separate loop, or the first one to be
-- compiled would be the fastest.
local argument = require "perf.base.argument"
local core = require "perf.core"
local counts_read = require "perf.counts.read"
local measure = require "perf.measure"
local stats = require "perf.bench.statistics"

local M = {}

local begin, finish = counts_read.begin, counts_read.finish
local compiled = rawget(_G, "jit") ~= nil

local LOOP = compiled
  and "local keep = ... return function(fn, n) for _ = 1, n do keep(fn()) end end"
  or "return function(fn, n) for _ = 1, n do fn() end end"
local load_text = rawget(_G, "loadstring") or load

-- A C function that the compiler does not know, and that does almost nothing.
local keep = core.thread_token

local function new_loop()
  local chunk, message = load_text(LOOP, "=(perf.bench)")
  if not chunk then error(message, 0) end -- no memory for it
  return chunk(keep)
end

-- A benchmark cannot continue in the child of a fork: the results so far are copies of the parent's.
local function check_process(set)
  if core.fork_generation() ~= set.process then argument.raise(core.inherited "The benchmark", 0) end
end

local function measured(set, loop, fn, n)
  check_process(set)
  local meter = set.meter
  return finish(meter, begin(meter, set.layout, set.words), loop(fn, n))
end
-- Measuring must cost the same in the last run as in the first.
if compiled then jit.off(measured) end

-- Calibration ---------------------------------------------------------------------------------------------------------

local MOST_CALLS = 2 ^ 30

-- The number of calls that takes min_ns, from the candidate's present number on.
local function calibrate(candidate, min_ns)
  local n = candidate.batch
  while true do
    local from = core.wall_ns()
    candidate.loop(candidate.fn, n)
    local t = tonumber(core.wall_ns() - from)
    candidate.run_ns = t
    if t >= min_ns or n >= MOST_CALLS then break end
    -- The first calls are slower than later ones, so do not extrapolate far from a few.
    n = math.min(MOST_CALLS, math.max(2 * n, math.min(16 * n, math.ceil(1.1 * n * min_ns / math.max(t, 1)))))
  end
  candidate.batch = n
end

-- In pieces first, so that the compiler has finished its work at the loop's end.
local function warm_up(set, candidate, runs)
  local batch = candidate.batch
  if runs > 0 and batch >= 32 then
    local piece = math.ceil(batch / 32)
    for _ = 1, 32 do measured(set, candidate.loop, candidate.fn, piece) end
  end
  for _ = 1, runs do measured(set, candidate.loop, candidate.fn, batch) end
end

-- Candidates of similar speed get batches of one size, so that only the functions differ.
local function equalize(candidates, min_ns)
  local sorted = {}
  for i, c in ipairs(candidates) do sorted[i] = c end
  table.sort(sorted, function(a, b) return a.batch > b.batch end)
  local size = sorted[1].batch
  for _, c in ipairs(sorted) do
    local longer = c.run_ns * size / c.batch
    if longer > math.max(8 * min_ns, c.run_ns) then size, longer = c.batch, c.run_ns end
    c.run_ns, c.batch = longer, size
  end
end

-- Rounds --------------------------------------------------------------------------------------------------------------

-- Run candidates against each other.
-- @tparam table opened the result of measure.lookup
-- @tparam {function,...} fns
-- @tparam table opts warmup (runs), min_ns, seed, rounds(ns): the number of rounds, from the duration of one
-- @treturn table candidates, an array of {batch=, counts={Counts, ...}, idle={Counts, ...}} in the order of fns; idle are the
-- runs of the empty function in batches of the same size
-- @treturn int the number of rounds
function M.rounds(opened, fns, opts)
  local random = stats.rng(opts.seed)
  local set = { meter = opened.meter, layout = opened.layout, words = opened.words, process = core.fork_generation() }
  local candidates, all, idle = {}, {}, {}
  measure.hold(opened, candidates) -- also while the candidates run without being measured
  for i, fn in ipairs(fns) do
    candidates[i] = { fn = fn, loop = new_loop(), batch = 1, counts = {} }
    all[i] = candidates[i]
  end
  collectgarbage()
  for _, c in ipairs(candidates) do calibrate(c, opts.min_ns) end
  for _, c in ipairs(candidates) do
    warm_up(set, c, opts.warmup)
    calibrate(c, opts.min_ns)
  end
  equalize(candidates, opts.min_ns)

  local round_ns = 0
  for _, c in ipairs(candidates) do
    round_ns = round_ns + c.run_ns
    local empty = idle[c.batch]
    if not empty then
      empty = { fn = function() end, loop = new_loop(), batch = c.batch, counts = {} }
      warm_up(set, empty, math.max(1, opts.warmup))
      idle[c.batch] = empty
      all[#all + 1] = empty
    end
    c.idle = empty.counts
  end

  local rounds = opts.rounds(round_ns)
  for round = 1, rounds do
    for _, c in ipairs(stats.shuffle(all, random)) do
      c.counts[round] = measured(set, c.loop, c.fn, c.batch)
    end
  end
  measure.drop(opened, candidates)
  check_process(set)
  return candidates, rounds
end

-- From runs to values per call ----------------------------------------------------------------------------------------

-- The values of one event, or of the wall time, per call in every run; false if it was not counted.
local function column(counts, row, batch)
  local values, entry, share = {}, nil, 1
  for i, c in ipairs(counts) do
    if row == "wall" then
      values[i] = tonumber(c.wall_ns) / batch
    else
      local e = c[row]
      values[i] = e.value ~= nil and tonumber(e.value) / batch or false
      if not entry or e.value == nil then entry = e end
      local enabled, running = tonumber(e.enabled_ns or 0), tonumber(e.running_ns or 0)
      if enabled ~= 0 then share = math.min(share, running / enabled) end
    end
  end
  return values, entry, share
end

local function counted(values)
  local t = {}
  for _, v in ipairs(values) do
    if v then t[#t + 1] = v end
  end
  return t
end

-- The samples of one event of a candidate.
-- @tparam table candidate of `rounds`
-- @tparam int|string row the event's index in the list, or "wall"
-- @treturn table label, unit, values (one for each round, per call, without the overhead; false if not counted), known (the same
-- without the false), overhead (per call), share (the least part of a run for which it was counted), why (if it was never
-- counted), note (a remark on its counts)
function M.samples(candidate, row)
  local batch = candidate.batch
  local values, entry, share = column(candidate.counts, row, batch)
  local idle = counted((column(candidate.idle, row, batch)))
  local overhead = #idle > 0 and stats.median(idle) or 0
  for i, v in ipairs(values) do values[i] = v and v - overhead end
  local known = counted(values)
  return {
    label = entry and entry.label or "wall", unit = entry and entry.unit or (row == "wall" and "ns" or nil),
    values = values, known = known, overhead = overhead, share = share,
    why = #known == 0 and entry.why or nil,
    note = entry and entry.value ~= nil and entry.why or nil,
  }
end

return M
