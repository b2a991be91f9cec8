--- perf.bench and perf.compare: a function's cost in events, with its uncertainty.
--
--     print(perf.bench(function() return json.decode(text) end))
--     print(perf.compare({ old = f, new = g }, { events = "task-clock,page-faults" }))
--
-- The function is called unchanged, without arguments, from a loop; its results are ignored and its error is raised unchanged. A
-- function that is shorter than `min_time` is called many times in a run. The cost of an empty function in the same loop,
-- measured in turns with it, is subtracted, so that an empty function comes to 0 (and a very short one may come out slightly
-- below 0). Garbage that a function makes is collected as usual, mostly in its own runs.
--
-- LuaJIT compiles the function as in a hot loop, but neither moves work out of the loop nor drops it as unused. Code that should
-- be compiled together with a loop around it must contain that loop inside the function.
--
-- The rule of `compare`: two candidates differ, "sure", if p < 0.01 in a signed-rank test over the rounds
-- (perf.bench.statistics), Holm-corrected for all comparisons (each event and the wall time, each candidate against the baseline,
-- if enough rounds differ at all), and if the difference is at least `least` (1 %: another address in memory alone can cause as
-- much). So of 100 comparisons of a function with itself, 99 or more show no difference in any of their rows. The interval beside
-- a ratio is the 95 % interval of this one ratio.
-- @module perf.bench
local late = require "perf.base.late"
local pairs_of = require "perf.base.pairs"
local argument = require "perf.base.argument"
local find = require "perf.counts".find
local json = require "perf.base.json"
local measure = require "perf.measure"
local checks = require "perf.api.check"
local printed = require "perf.base.printed"
local run = require "perf.bench.run"
local stats = require "perf.bench.statistics"
local text = require "perf.bench.report"

local M = {}

local CHANCE = 0.01 -- the permitted probability of a false "sure"

-- Arguments -----------------------------------------------------------------------------------------------------------

-- Check a list of events: returns the error as text, or nil.
local function event_list(v)
  if type(v) ~= "string" and type(v) ~= "table" then return "string or table of events expected, got " .. type(v) end
  if type(v) == "table" and next(v) == nil then return "the list has no event" end
end

local check_bench = checks.options("perf.bench", { events = event_list })
local check_compare = checks.options("perf.compare", { events = event_list })

-- The events of an argument, or else of the option `events`, which the other functions do not have.
-- @int at the position of the options
-- @return the list of events, the argument that it is, a prefix for messages about it
local function events_of(events, opts, at)
  if events ~= nil and opts.events ~= nil then argument.raise("option 'events': there is an argument with events", at) end
  if events ~= nil then return events, 1, "" end
  return opts.events, at, "option 'events': "
end

local function lookup(events, at, prefix)
  if prefix == "" then return measure.lookup(events) end
  return argument.call_as_argument(at, prefix, measure.lookup, events)
end

-- The number of rounds: fewer for slow functions, but at least `few`.
local function rounds_of(opts, few, seconds)
  return function(round_ns)
    if opts.repeats then return opts.repeats end
    return math.max(few, math.min(30, math.floor(seconds * 1e9 / math.max(round_ns, 1))))
  end
end

local function settings(opts, few, seconds)
  return { warmup = opts.warmup, min_ns = opts.min_time * 1e9, seed = opts.seed,
    rounds = rounds_of(opts, few, seconds) }
end

-- Results -------------------------------------------------------------------------------------------------------------

local function class(methods, name, tostring)
  return {
    __name = name, __tostring = tostring,
    __index = function(self, key)
      local method = methods[key]
      if method ~= nil or type(key) ~= "string" then return method end
      return find(self, key)
    end,
  }
end

local function plain(v)
  if type(v) ~= "table" then return v end
  local t = {}
  for k, x in pairs_of(v) do t[k] = plain(x) end
  return t
end

-- A row with the interval as an object, since JSON arrays cannot have names.
local function plain_row(row)
  local t = plain(row)
  if t.ci then t.ci = { lo = t.ci[1], hi = t.ci[2], level = t.ci.level } end
  if t.ratio_ci then t.ratio_ci = { lo = t.ratio_ci[1], hi = t.ratio_ci[2], level = t.ratio_ci.level } end
  return t
end

-- The statistics of one event's samples.
local function summarize(sample)
  local row = stats.summary(sample.known) or { n = 0 }
  row.label, row.unit, row.why, row.note = sample.label, sample.unit, sample.why, sample.note
  row.values = printed.table(sample.known)
  if row.ci then printed.table(row.ci) end
  if sample.share < 1 then row.share = sample.share end
  return printed.table(row)
end

-- The indexes of a list's events; index 0 is the wall time.
local function places(candidate)
  local first, list = candidate.counts[1], { "wall" }
  while first[#list] do list[#list + 1] = #list end
  return list, first.source
end

--- The result of `perf.bench`: an array with a row for each event in the requested order, also by label: `stats["page-faults"]`.
-- A row is `{label=, unit=, median=, mean=, stddev=, mad=, min=, max=, ci={lo, hi, level=}, n=, values=}`: per call, in `unit`
-- ("ns" for times), without `overhead`; `ci` is the 95 % interval of the median (`level` is its exact coverage), `values` the
-- values of the runs. An event that shared its counter has `share` (its part of the time, at least), and an event that was never
-- counted has `why` instead of statistics; `note` names what was left out of the counts (the kernel's part, for lack of
-- permission). It prints as a table.
-- @type Stats
local Stats = {}
local Stats_class = class(Stats, "perf.Stats", text.bench)

--- Everything as plain tables.
-- @treturn table `{n=, batch=, source=, wall=, events={...}, overhead={[label]=}}`; a row has the fields of `Stats`' rows, with
-- `ci={lo=, hi=, level=}`
function Stats:totable()
  local t = { n = self.n, batch = self.batch, source = self.source, wall = plain_row(self.wall), events = {},
    overhead = plain(self.overhead) }
  for i, row in ipairs(self) do t.events[i] = plain_row(row) end
  return t
end

--- The table of `totable` as JSON text.
-- @treturn string
function Stats:json() return json.encode(self:totable()) end

--- Write the distribution of each event as one HTML file. It needs no network.
-- @function Stats:html
-- @tparam[opt] string path the file; without it the page is returned
-- @tparam[opt] table options
-- @treturn string|boolean the page, or true @fails if the file cannot be written
function Stats:html(path, opts) return late "perf.bench.page".write("Stats", self, path, opts) end

--- Write it into a file: a name that ends in .html or .json selects the format. They are what `html` and `json` return.
-- @tparam string path
-- @treturn boolean true @fails if the file cannot be written
-- @raise for an unknown ending
function Stats:save(path) return late "perf.bench.page".save(self, path) end

argument.check_methods(Stats, "Stats", "totable json html save", Stats_class)

--- Run a function repeatedly; return the cost of one call, with its spread.
-- @function perf.bench
-- @tparam[opt] string|table events as in `perf.measure`; without it the best events of the machine
-- @tparam function fn called without arguments; its error is raised unchanged
-- @tparam[opt] table options
-- @treturn Stats @fails when the machine refuses an event
-- @raise for unknown events and options, and for values out of range
function M.bench(...)
  local events, fn, opts = ...
  argument.check_dot(events)
  local at = (events ~= nil or fn ~= nil) and 2 or 1
  if argument.is_callable(events) and not argument.is_callable(fn) then
    events, fn, opts, at = nil, events, fn, 1
  end
  local wrong = events ~= nil and event_list(events)
  if wrong then argument.raise(wrong, 1) end
  checks.check_no_options(events, "perf.bench", 1)
  argument.check_callable(fn, at)
  opts = check_bench(opts, at + 1)
  local set, message, code = lookup(events_of(events, opts, at + 1))
  if not set then return nil, message, code end

  local candidates, rounds = run.rounds(set, { fn }, settings(opts, 7, 3))
  local candidate = candidates[1]
  local list, source = places(candidate)
  local result = { n = rounds, batch = candidate.batch, source = source, overhead = printed.table {} }
  for i, place in ipairs(list) do
    local sample = run.samples(candidate, place)
    result.overhead[sample.label] = sample.overhead
    if i == 1 then result.wall = summarize(sample) else result[i - 1] = summarize(sample) end
  end
  return setmetatable(result, Stats_class)
end

-- compare -------------------------------------------------------------------------------------------------------------

local BASELINES = { "baseline", "base", "old", "before" }

-- Whether a name comes before another one: "f2" comes before "f10".
local function before(a, b)
  local function key(name) return (name:gsub("%d+", function(digits) return ("0"):rep(20 - #digits) .. digits end)) end
  local x, y = key(a), key(b)
  return x < y or x == y and a < b
end

-- Check the candidates: their names and functions in order, the baseline first.
local function check_list(list, at)
  if type(list) ~= "table" then argument.raise("table of candidates expected, got " .. type(list), at) end
end

-- Whether the first argument of `compare` is events rather than candidates, which are functions, or arrays with one.
local function names_events(v)
  if type(v) ~= "table" then return type(v) == "string" end
  local first = v[1]
  return type(first) == "string" or type(first) == "table" and not argument.is_callable(first) and first[1] == nil
    or first == nil and (type(v.event) == "string" or v.type ~= nil and not argument.is_callable(v.type))
end

local function check_candidates(list, baseline, at)
  local names, fns = {}, {}
  local function add(name, fn)
    if type(name) ~= "string" then argument.raise("a candidate's name: string expected, got " .. type(name), at) end
    if not argument.is_callable(fn) then
      argument.raise(("candidate '%s': function expected, got %s"):format(name, type(fn)), at)
    end
    if fns[name] then argument.raise(("two candidates are named '%s'"):format(name), at) end
    names[#names + 1], fns[name] = name, fn
  end
  for i, pair in ipairs(list) do
    if type(pair) ~= "table" then
      argument.raise(("candidate %d: {name, function} expected, got %s"):format(i, type(pair)), at)
    end
    add(pair[1], pair[2])
  end
  local ordered = #names > 0
  for name, fn in pairs_of(list) do
    if not ordered then
      add(name, fn)
    elseif type(name) ~= "number" then
      argument.raise(("unknown field '%s' in an array of candidates"):format(tostring(name)), at)
    end
  end
  if #names < 2 then argument.raise("a comparison needs two candidates", at) end
  if not ordered then table.sort(names, before) end
  if baseline and not fns[baseline] then
    argument.raise(("option 'baseline': no candidate is named '%s'"):format(baseline), at + 1)
  end
  if not baseline and not ordered then
    for _, name in ipairs(BASELINES) do baseline = baseline or (fns[name] and name) end
  end
  for i, name in ipairs(names) do
    if name == baseline then table.insert(names, 1, table.remove(names, i)) end
  end
  return names, fns
end

-- The values of the rounds in which both were counted.
local function counted_in_both(a, b)
  local x, y = {}, {}
  for i, v in ipairs(a) do
    if v and b[i] then x[#x + 1], y[#y + 1] = v, b[i] end
  end
  return x, y
end

local function words(v, unit)
  local more, less = "more", "fewer"
  if unit == "ns" then more, less = "slower", "faster" elseif unit then less = "less" end
  local ratio, difference = v.ratio, v.difference[1]
  if ratio and ratio > 0 and ratio < 1e6 then
    local by = ratio < 1 and 1 / ratio or ratio
    return ("%.2fx %s, sure"):format(by, ratio < 1 and less or more)
  end
  return ("%s %s, sure"):format(text.quantity(math.abs(difference), unit), difference < 0 and less or more)
end

-- Judge the differences, once all p values of the table are known.
local function judge(found, least)
  local tested, ps = {}, {}
  for _, v in ipairs(found) do
    -- If too few rounds differ for any result of the test, do not test: each test makes the correction of the others stricter.
    if stats.least_p(v.differing) < CHANCE then
      tested[#tested + 1] = v
      ps[#tested] = v.p
    else
      v.p_adjusted = 1
    end
  end
  for i, adjusted in ipairs(stats.holm(ps)) do tested[i].p_adjusted = adjusted end
  for _, v in ipairs(found) do
    v.real = false
    if v.p_adjusted < CHANCE then
      if v.ratio and math.abs(v.ratio - 1) < least then
        v.verdict = ("within %g %%"):format(100 * least)
      else
        v.real, v.verdict = true, words(v, v.unit)
      end
    elseif v.differing == 0 or stats.least_p(v.pairs) * math.max(1, #tested) < CHANCE then
      v.verdict = "no difference seen"
    else
      v.verdict = "too few rounds to tell"
    end
  end
  return #tested
end

--- The result of `perf.compare`: an array with a row for each event in the requested order, also by label. A row is `{label=,
-- unit=, candidates={[name]=}}`. Each candidate has the fields of the rows of `Stats`; candidates other than the baseline also
-- have `ratio` to it (the median of the rounds' ratios; nil if the baseline's median is not above 0) with `ratio_ci={lo, hi,
-- level=}`, `difference={middle, lo, hi, level=}`, `p` and `p_adjusted`, `real` (whether the difference is real) and `verdict`
-- ("1.32x slower, sure", "no difference seen", "within 1 %", "too few rounds to tell", "not counted"). It prints as a table.
-- @type Comparison
local Comparison = {}
local Comparison_class = class(Comparison, "perf.Comparison", text.compare)

--- The rule that decides which differences are real, in one line.
-- @treturn string
function Comparison:rule()
  local rule = ("sure: at least %g %%, and p < %g, Holm-corrected for the table"):format(100 * self.least, CHANCE)
  local enough = 1
  while stats.least_p(enough) * math.max(1, self.comparisons) >= CHANCE do enough = enough + 1 end
  if enough > self.n then rule = rule .. ("; at least %d rounds are needed"):format(enough) end
  return rule
end

--- Everything as plain tables.
-- @treturn table `{n=, names=, baseline=, batch={[name]=}, source=, least=, comparisons=, wall=, events={...}}`
function Comparison:totable()
  local t = { n = self.n, names = plain(self.names), baseline = self.baseline, batch = plain(self.batch),
    source = self.source, least = self.least, comparisons = self.comparisons, events = {} }
  for i = 0, #self do
    local row = plain(i == 0 and self.wall or self[i])
    for name, v in pairs_of(row.candidates) do row.candidates[name] = plain_row(v) end
    if i == 0 then t.wall = row else t.events[i] = row end
  end
  return t
end

--- The table of `totable` as JSON text.
-- @treturn string
function Comparison:json() return json.encode(self:totable()) end

--- Write the distributions of all candidates as one HTML file. It needs no network. Each event has one scale, and real
-- differences are marked.
-- @function Comparison:html
-- @tparam[opt] string path the file; without it the page is returned
-- @tparam[opt] table options
-- @treturn string|boolean the page, or true @fails if the file cannot be written
function Comparison:html(path, opts) return late "perf.bench.page".write("Comparison", self, path, opts) end

--- Write it into a file: a name that ends in .html or .json selects the format. They are what `html` and `json` return.
-- @tparam string path
-- @treturn boolean true @fails if the file cannot be written
-- @raise for an unknown ending
function Comparison:save(path) return late "perf.bench.page".save(self, path) end

argument.check_methods(Comparison, "Comparison", "rule totable json html save", Comparison_class)

-- One row: the statistics of every candidate, and its comparison with the baseline.
local function row_from(names, samples, differences)
  local first = samples[names[1]]
  local row = printed.table { label = first.label, unit = first.unit, note = first.note, candidates = printed.table {} }
  for i, name in ipairs(names) do
    local sample = samples[name]
    local v = summarize(sample)
    v.label, v.note, v.overhead = nil, nil, sample.overhead
    if sample.share < (row.share or 1) then row.share = sample.share end
    row.candidates[name] = v
    if i > 1 then
      local found = stats.paired(counted_in_both(first.values, sample.values))
      if found then
        local ratio = found.ratio
        v.pairs, v.differing, v.p, v.difference = found.n, found.differing, found.p, found.difference
        if ratio then v.ratio, v.ratio_ci = ratio[1], printed.table { ratio[2], ratio[3], level = ratio.level } end
        differences[#differences + 1] = v
      else
        v.verdict, v.real = "not counted", false
      end
    end
  end
  return row
end

--- Run functions in turns; return a Comparison: which differences are real.
-- @tparam[opt] string|table events as in `perf.measure`; without it the best events of the machine
-- @tparam table candidates `{name = function, ...}`, or an array of `{name, function}` to keep its order; two or more
-- @tparam[opt] table options
-- @treturn Comparison @fails when the machine refuses an event
-- @raise for unknown events and options, and for values out of range; a candidate's error is raised unchanged
function M.compare(...)
  local events, candidates, opts = ...
  argument.check_dot(events)
  local at = 2
  if type(candidates) ~= "table" or not names_events(events) then
    events, candidates, opts, at = nil, events, candidates, 1
  end
  check_list(candidates, at)
  opts = check_compare(opts, at + 1)
  local names, fns = check_candidates(candidates, opts.baseline, at)
  local set, message, code = lookup(events_of(events, opts, at + 1))
  if not set then return nil, message, code end

  local list = {}
  for i, name in ipairs(names) do list[i] = fns[name] end
  local ran, rounds = run.rounds(set, list, settings(opts, 12, 6))
  local order, source = places(ran[1])
  local result = { names = printed.table(names), baseline = names[1], n = rounds, batch = printed.table {}, source = source,
    least = opts.least }
  for i, name in ipairs(names) do result.batch[name] = ran[i].batch end

  local differences = {}
  for i, place in ipairs(order) do
    local samples = {}
    for k, name in ipairs(names) do samples[name] = run.samples(ran[k], place) end
    local row = row_from(names, samples, differences)
    if i == 1 then result.wall = row else result[i - 1] = row end
  end
  result.comparisons = judge(differences, result.least)
  return setmetatable(result, Comparison_class)
end

return M
