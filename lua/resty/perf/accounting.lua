-- Accounting of a worker's requests: csrc/core/resty/accounting.h through LuaJIT's FFI, and its sums as Counts.
--
-- A hook costs one call into C, and so does a function that may yield: C looks the request's address up, reads the counters and
-- adds the difference. While nothing is open, every function answers as if no request were known, so the wrappers of the host's
-- functions need not check.
local ffi = require "ffi"
local core = require "perf.core"
local counts = require "perf.counts"
local pairs_of = require "perf.base.pairs"

local M = {}

-- Phases, by their number in C. Those from NESTED on run within another phase of the request; AFTER comes when it has ended.
M.phases = { "server_rewrite", "rewrite", "access", "content", "log", "timer", "set", "ssl_client_hello", "ssl_certificate",
  "ssl_session_fetch", "ssl_session_store", "exit_worker", "balancer", "header_filter", "body_filter" }
M.BETWEEN = "between turns" -- phase 0, of a worker that blocks there
M.number = {}
for i, name in ipairs(M.phases) do M.number[name] = i end
local NESTED, AFTER = M.number.balancer, M.number.log

local signatures = {
  enter = "int (*)(void *, const void *, uint32_t)",
  exit = "int (*)(void *, const void *, uint32_t)",
  leave = "int (*)(void *, const void *)",
  back = "int (*)(void *, const void *, uint32_t, int, uint32_t, double)",
  admit = "int (*)(void *, const void *, const void *, int32_t, int, double)",
  main = "void *(*)(void *, const void *)",
  ["end"] = "void (*)(void *, const void *, void *)",
  see = "void (*)(void *, const void *)",
  learn = "void (*)(const void *, const void *, uint32_t)",
  report = "int (*)(void *, const void *)",
  route = "int (*)(void *)",
  merge = "void (*)(void *, uint32_t, uint32_t)",
  label = "void (*)(void *, uint32_t, const char *, size_t)",
  settle = "int (*)(void *, const void *)",
  ran = "int (*)(const void *, uint32_t, uint32_t, const uint64_t *)",
  histogram = "void (*)(const void *, uint32_t, uint32_t, double *, double *)",
  waits = "void *(*)(void *, uint32_t)",
  copy_waits = "void (*)(const void *, double *)",
}

M.ENOENT, M.EBUSY, M.ANEW, M.WATCHED = -2, -16, 256, 256

local open -- {set=, accounting=, layout=}: what is counted now
local series -- {kind=, first=}: what is counted now, and the number of the first accounting that has counted it without a change
local handle -- a pointer to the struct in C, whose first members can be read; or nil

local c = {}
local addresses, members, wait_types, wait_members, types
addresses, members, M.BUCKETS, wait_types, wait_members, types = core.accounting_functions()
for name, address in pairs_of(addresses) do c[name] = ffi.cast(signatures[name], address) end
local enter, exit, leave, back, admit, report = c.enter, c.exit, c.leave, c.back, c.admit, c.report
local state_type, pointer_type = ffi.typeof(members), ffi.typeof(members .. " *")
ffi.cdef(wait_types)
ffi.cdef(types)
local waits_type = ffi.typeof(wait_members .. " *")

local sampling = ffi.new "struct pf_accounting_sampling" -- for the core
local skip -- its array
local kept -- the other memory that it points to, so that this is not collected

-- Begin to count these events. They replace the present ones, which stay open if this fails.
-- @param set returned by perf.measure.open_list
-- @param[opt] host the host's functions and clock {add_end=, get_status=, get_method=, get_variable=, beat=}: see
-- csrc/core/resty/accounting.h
-- @param[opt] closing called before the present ones are closed
-- @return true; or nil, message, code
function M.open(set, host, closing)
  local accounting, address, code = core.accounting(set.meter, #M.phases, NESTED, AFTER)
  if not accounting then return nil, address, code end
  local now = { set = set, accounting = accounting, layout = counts.describe(set.layout) }
  local pointer = ffi.cast(pointer_type, address)
  for name, f in pairs_of(host or {}) do pointer[name] = ffi.cast("void *", f) end
  if closing then closing() end
  M.close()
  open, handle = now, pointer -- set together: memory may run out before
  handle.sampling = sampling
  return true
end

-- Stop counting and close the events. The counts of open requests are lost.
function M.close()
  if not open then return end
  handle, M.waits = nil, nil
  open.accounting:close()
  for _, group in ipairs(open.set.groups) do group:close() end
  open = nil
end

-- Turns: see csrc/core/resty/accounting.h. r is the request's address.
function M.enter(r, phase) return handle and enter(handle, r, phase) or 0 end
function M.exit(r, outer) return handle and exit(handle, r, outer) or 0 end
function M.turn(r) return handle and handle.owner == r and handle.phase or 0 end
function M.nested() return handle and handle.outer ~= 0 end
function M.serial() return handle and handle.serial or 0 end
function M.leave(r) return handle and leave(handle, r) or 0 end
function M.back(r, phase, keep, site, from) return handle and back(handle, r, phase, keep, site or 0, from or 0) or 0 end
function M.admit(r, route, ended, start) return handle and admit(handle, r, nil, route, ended, start) or 0 end
function M.alias(r, known) return handle and admit(handle, r, known, -1, 0, 0) or 0 end
-- The main request of a request, or nil if it is unknown.
function M.main(r)
  local main = handle and r ~= nil and c.main(handle, r)
  return main and main ~= nil and main or nil
end
function M.reroute(r, route) return handle and r ~= nil and admit(handle, r, r, route, 0, 0) == 1 end
function M.ended(r) if handle then c["end"](handle, r, nil) end end

-- Forget a request in its log phase. Returns the number of the route that it was counted for; false if it was not counted but is
-- slow; nil if it is neither, or unknown.
function M.finish(r)
  local route = handle and report(handle, r) or -1
  if route >= 0 then return route > 0 and route - 1 end
end

-- Requests that take this many seconds are slow.
function M.set_slow(seconds) if handle then handle.slow = seconds end end

-- A new route's number, or nil when there is no memory.
function M.route()
  local n = c.route(handle)
  if n >= 0 then return n end
end

-- Count waits too: from now on `waits` is a pointer to the members of struct pf_waits (csrc/core/resty/waits.h); it is nil while
-- they are not counted. Returns whether there was memory.
function M.count_waits()
  local cpu = 0
  for _, row in ipairs(open.layout.rows) do
    if row.label:find "^task%-clock" and #row.slots == 1 then cpu = row.slots[1][2] + 1 end
  end
  local p = c.waits(handle, cpu)
  if p ~= nil then M.waits = ffi.cast(waits_type, p) end
  return M.waits ~= nil
end

-- Copy the rows of waits into an array of five doubles for each: see pf_waits_copy.
function M.copy_waits(to) c.copy_waits(M.waits, to) end

-- Start a thread that watches for turns longer than this many ns. Returns true; or nil, message, code.
-- @param tells whether it writes a line to standard error about a turn that does not end
function M.watch(ns, tells)
  local ok, message, code = open.accounting:watch(ns, tells)
  if not ok then return nil, message, code end
  open.accounting:name("phase", 0, M.BETWEEN)
  for i, name in ipairs(M.phases) do open.accounting:name("phase", i, name) end
  return true
end

-- The name of a route, for profilers in other processes.
function M.label_route(n, name) c.label(handle, n, name, #name) end

-- The name of a route, for these lines.
function M.name_route(n, name) open.accounting:name("route", n, name) end

-- The zones of turns by their routes, in an array of uint32_t that the caller keeps; nil: none.
function M.set_zones(zones, n)
  if not handle then return end
  handle.zone_of, handle.zones = zones, n
end

-- Words as Counts -----------------------------------------------------------------------------------------------------

local function exact(v)
  local n = tonumber(v)
  return n < 2 ^ 53 and n or v
end

-- Counts from sums, less those in `before`, an array that is then updated.
local function difference(words, before)
  local layout, list = open.layout, {}
  local first = 1 + 2 * math.max(layout.ngroups, 1)
  local function word(i) return before and words[i] - before[i] or words[i] end
  for i, row in ipairs(layout.rows) do
    local raw, enabled, running = 0ULL, 0ULL, 0ULL
    for _, slot in ipairs(row.slots) do
      raw, running = raw + word(first + slot[2]), running + word(2 + 2 * slot[1])
      local en = word(1 + 2 * slot[1])
      if en > enabled then enabled = en end
    end
    list[i] = counts.entry(row, exact(raw), exact(enabled), exact(running))
    if enabled == 0 and not row.why then list[i].value, list[i].why = 0, nil end -- too short to be counted
  end
  local wall = exact(word(0))
  if before then ffi.copy(before, words, 8 * handle.words) end
  return counts.plain(list, wall, layout.source)
end

-- The events: rows of {label=, unit=, scale=, why=}; and their source.
function M.events() return open.layout.rows, open.layout.source end

-- The counts of a request so far; nil when it is not counted.
function M.request(r)
  if not handle or r == nil or c.settle(handle, r) ~= 1 then return nil end
  return difference(handle.last)
end

-- The counts of the request that finished last, and its start, as it was given to admit.
function M.finished() return difference(handle.last) end
function M.finished_start() return handle.last_start end

-- The next turn that was too long and has ended: {route=, phase=, wall_ns=, seen_ns=, uri=, call=, stack=} of
-- csrc/binding/resty/watch.h; and its Counts, if it was counted in one piece. Nil if there is none.
function M.blocked()
  if not open then return nil end
  local turn, words = open.accounting:blocked()
  return turn, words and difference(ffi.cast("uint64_t *", words))
end

-- An array in which `difference` remembers sums.
local function zeros() return ffi.new("uint64_t[?]", handle.words) end
M.zeros = zeros

-- Not a closure, since LuaJIT does not compile the making of one.
local function word(words, before, i)
  local n = tonumber(before and words[i] - before[i] or words[i]) -- a function that returns tonumber() is not compiled either
  return n
end

-- Add the values of sums to an array of doubles: wall time, then each row of `events`.
-- @param words the sums, less those in `before` (from `zeros`), which is then updated; nil: none
-- @param to the array, from index `at` on
function M.add_values(words, before, to, at)
  local layout = open.layout
  local first = 1 + 2 * math.max(layout.ngroups, 1)
  local wall = word(words, before, 0)
  if wall == 0 then return end -- no time has passed, so nothing was counted
  to[at] = to[at] + wall
  for i, row in ipairs(layout.rows) do
    local raw, enabled, running = 0, 0, 0
    for _, slot in ipairs(row.slots) do
      raw, running = raw + word(words, before, first + slot[2]), running + word(words, before, 2 + 2 * slot[1])
      enabled = math.max(enabled, word(words, before, 1 + 2 * slot[1]))
    end
    if running ~= enabled and running > 0 and not row.bound then raw = raw / running * enabled end
    to[at + i] = to[at + i] + raw * (row.scale or 1)
  end
  if before then ffi.copy(before, words, 8 * handle.words) end
end

-- The sums of a route's finished requests in a phase.
function M.route_words(route, phase) return handle.route_sums + (route * handle.phases + phase - 1) * handle.words end

-- The wall time of the routes' finished requests at this moment: function(route, phase), in ns.
function M.walls()
  local phases, words = handle.phases, handle.words
  local n = handle.routes * phases * words
  local sums = ffi.new("uint64_t[?]", n)
  ffi.copy(sums, handle.route_sums, 8 * n)
  return function(route, phase) return tonumber(sums[(route * phases + phase - 1) * words]) end
end

-- Copy the routes' sums. The functions below take the copy as `from`, so they can read it route by route while requests go on.
-- @param[opt] used an earlier copy, whose memory is used again
function M.freeze(used)
  local n, frozen = handle.routes, used
  local sizes = { route_sums = n * handle.phases * handle.words, histogram = n * handle.values * M.BUCKETS, requests = n }
  if not frozen or frozen.routes < n then frozen = { routes = n, state = state_type() } end
  ffi.copy(frozen.state, handle, ffi.sizeof(state_type))
  for name, size in pairs_of(sizes) do
    frozen[name] = frozen[name] or ffi.new("uint64_t[?]", size)
    ffi.copy(frozen[name], handle[name], 8 * size)
    frozen.state[name] = frozen[name]
  end
  return frozen
end

-- Iterate over the phases of a route whose wall times differ from those in the array `walls`, and update the array.
function M.ran(from, route, walls)
  local phase, state = 0, from.state
  return function()
    phase = c.ran(state, route, phase, walls)
    if phase == 0 then return nil end
    local words = state.route_sums + (route * state.phases + phase - 1) * state.words
    walls[phase - 1] = words[0]
    return phase, words
  end
end

-- The sums of the worker at this moment: {whole=, unattributed=, last=}; `last` is that of unfinished requests.
function M.settle()
  c.settle(handle, nil)
  return handle
end

-- Add a route to another one, with its unfinished requests. Its number can be used again.
function M.merge(route, other) c.merge(handle, route, other) end

-- The counts of a route's finished requests in a phase since the last call with the same `before`; nil if there are none.
function M.phase_counts(route, phase, before)
  local words = M.route_words(route, phase)
  if words[0] == before[0] then return nil end
  return difference(words, before)
end

-- The whole, unattributed and pending counts at this moment. The whole
-- is the sum of unattributed, pending and all routes, exactly, in every event.
function M.balance()
  c.settle(handle, nil)
  return difference(handle.whole), difference(handle.unattributed), difference(handle.last)
end

-- The number of a route's finished requests, in a copy of the sums or now; of turns that were found open; of known addresses.
function M.requests(route, from) return exact((from or handle).requests[route]) end
function M.abandoned() return exact(handle.abandoned) end
function M.known() return handle.known end

-- The sums of earlier accountings of the same kind, a text, go on in those of this one. (After another kind, sums begin anew.)
function M.go_on(kind)
  if not series or series.kind ~= kind then series = { kind = kind, first = handle.number } end
  handle.first = series.first
end

-- Note a request, counted or not, unless the sums have it already; seen() is the number of those that were noted.
function M.see(r) if handle then c.see(handle, r) end end
function M.seen() return handle.seen end

-- Sample requests from now on. The core makes known by itself those that are not counted, as far as it can: see
-- csrc/core/resty/accounting.h.
-- @param[opt] sampler {number=, header=, by_route=}: of resty.perf.sampling; by default one sampler without a header
function M.sample(sampler)
  sampler = sampler or { number = 1 }
  local numbers, header = ffi.new("double[?]", sampler.number), sampler.header
  local paths = sampler.by_route and ffi.new "struct pf_accounting_path[PF_ACCOUNTING_PATHS]" or nil
  skip, kept = numbers, { header = header, paths = paths } -- set together: memory may run out before
  sampling.skip, sampling.header, sampling.paths = skip, kept.header, kept.paths
  sampling.header_size = header and #header or 0
end
M.sample()

-- The next n requests of a sampler are not to be counted. For each that comes to Lua, call skipped(), which returns whether it is
-- one of these n.
function M.skip(sampler, n) skip[sampler] = n end
function M.skipped(sampler)
  local is_one = skip[sampler] >= 1
  if is_one then skip[sampler] = skip[sampler] - 1 end
  return is_one
end

-- Tell the core that requests with this one's path have this sampler, so that it need not ask again.
function M.learn(r, sampler) if handle then c.learn(handle, r, sampler) end end

-- Add the histogram of a row of `events`, or of wall time for row 0, to an array of doubles, from index `at` on, less what is in
-- `before`, an array for all rows that is then updated. An event that several counters add up to has none.
function M.add_histogram(from, route, row, before, to, at)
  local slots = row > 0 and open.layout.rows[row].slots
  if slots and #slots ~= 1 then return end
  c.histogram(from.state, route, slots and 1 + slots[1][2] or 0, before + row * M.BUCKETS, to + at)
end

return M
