-- The worker's ledger: csrc/core/resty/accounting.h through LuaJIT's FFI, and its words as Counts.
--
-- A hook costs one call into C, and so does what may yield: the look-up by the request's address, the reading and the
-- booking are all there. Every function answers as if nothing were known while the ledger is closed, so what wraps the host's
-- functions need not ask.
local ffi = require "ffi"
local core = require "perf.core"
local counts = require "perf.counts"
local every = require "perf.base.pairs"

local M = {}

-- Phases; the number is the ledger's. Those from REPEATS on run within another phase of the request; AFTER comes when it has
-- ended.
M.phases = { "server_rewrite", "rewrite", "access", "content", "log", "timer", "balancer", "header_filter", "body_filter" }
M.number = {}
for i, name in ipairs(M.phases) do M.number[name] = i end
local REPEATS, AFTER = M.number.balancer, M.number.log

local signatures = {
  enter = "int (*)(void *, const void *, uint32_t)",
  exit = "int (*)(void *, const void *, uint32_t)",
  turn = "int (*)(const void *, const void *)",
  serial = "uint32_t (*)(const void *)",
  leave = "int (*)(void *, const void *)",
  back = "int (*)(void *, const void *, uint32_t, int)",
  admit = "int (*)(void *, const void *, int32_t, int, double)",
  alias = "int (*)(void *, const void *, const void *)",
  ["end"] = "void (*)(void *, const void *)",
  host = "void (*)(void *, void *)",
  reroute = "int (*)(void *, const void *, uint32_t)",
  finish = "int (*)(void *, const void *)",
  peek = "int (*)(void *, const void *)",
  last_start = "double (*)(const void *)",
  last = "const uint64_t *(*)(const void *)",
  words = "uint32_t (*)(const void *)",
  route = "int (*)(void *)",
  sums = "const uint64_t *(*)(const void *, uint32_t, uint32_t)",
  requests = "uint64_t (*)(const void *, uint32_t)",
  histogram = "const uint64_t *(*)(const void *, uint32_t, uint32_t)",
  settle = "int (*)(void *)",
  whole = "const uint64_t *(*)(void *)",
  nobody = "const uint64_t *(*)(const void *)",
  pending = "void (*)(void *)",
  abandoned = "uint64_t (*)(const void *)",
  known = "uint32_t (*)(const void *)",
}

M.ENOENT = -2
M.BUCKETS = 65

local open -- {set=, ledger=, layout=}: what is counted now
local handle -- the struct, or nil

local c = {}
for name, address in every(core.ledger_functions()) do c[name] = ffi.cast(signatures[name], address) end
local enter, exit, turn, leave, back, finish = c.enter, c.exit, c.turn, c.leave, c.back, c.finish

-- Begin to count, in the place of what is counted now: that goes on when this fails.
-- @param set what perf.measure.open_list opens
-- @param[opt] add_end the host's function that a request's end is asked for with: see csrc/core/resty/accounting.h
-- @return true; or nil, message, code
function M.open(set, add_end)
  local ledger, message, code = core.ledger(set.meter, #M.phases, REPEATS, AFTER)
  if not ledger then return nil, message, code end
  local now, pointer = { set = set, ledger = ledger, layout = counts.describe(set.layout) }, ffi.cast("void *", ledger:pointer())
  if add_end then c.host(pointer, ffi.cast("void *", add_end)) end
  M.close()
  open, handle = now, pointer -- at once: memory may run out before
  return true
end

-- End it and close the events. What requests had open is lost.
function M.close()
  if not open then return end
  handle = nil
  open.ledger:close()
  for _, group in ipairs(open.set.groups) do group:close() end
  open = nil
end

-- Turns: see csrc/core/resty/accounting.h. r is the request's address.
function M.enter(r, phase) return handle and enter(handle, r, phase) or 0 end
function M.exit(r, outer) return handle and exit(handle, r, outer) or 0 end
function M.turn(r) return handle and turn(handle, r) or 0 end
function M.serial() return handle and c.serial(handle) or 0 end
function M.leave(r) return handle and leave(handle, r) or 0 end
function M.back(r, phase, keep) return handle and back(handle, r, phase, keep) or 0 end
function M.admit(r, route, ended, start) return handle and c.admit(handle, r, route, ended, start) or 0 end
function M.alias(r, known) return handle and c.alias(handle, r, known) or 0 end
function M.ended(r) if handle then c["end"](handle, r) end end
function M.reroute(r, route) return handle and c.reroute(handle, r, route) == 1 end

-- Forget a request: the number of the route that it was counted for, or nil.
function M.finish(r)
  local route = handle and finish(handle, r) or 0
  if route > 0 then return route - 1 end
end

-- A new route's number, or nil when there is no memory.
function M.route()
  local n = c.route(handle)
  if n >= 0 then return n end
end

---------------------------------------------------------------------------------------------------------------------
-- Words as Counts

local function exact(v)
  local n = tonumber(v)
  return n < 2 ^ 53 and n or v
end

-- Counts of a place's words, less those of `before`, an array that is brought up to date.
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
    if enabled == 0 and not row.why then list[i].value, list[i].why = 0, nil end -- a moment too short for any
  end
  local wall = exact(word(0))
  if before then ffi.copy(before, words, 8 * c.words(handle)) end
  return counts.plain(list, wall, layout.source)
end

-- What the events are: rows of {label=, unit=, scale=, why=}, and their source.
function M.events() return open.layout.rows, open.layout.source end

-- The counts of a request so far; nil when it is not counted.
function M.request(r)
  if not handle or c.peek(handle, r) ~= 1 then return nil end
  return difference(c.last(handle))
end

-- The counts of the request that `finish` was told of last, and what it was admitted with.
function M.finished() return difference(c.last(handle)) end
function M.finished_start() return c.last_start(handle) end

-- An array for `difference` to remember words in.
local function zeros() return ffi.new("uint64_t[?]", c.words(handle)) end
M.zeros = zeros

-- What a route's finished requests counted in a phase since the last call with the same `before`; nil for nothing.
function M.phase_counts(route, phase, before)
  local words = c.sums(handle, route, phase)
  if words[0] == before[0] then return nil end
  return difference(words, before)
end

-- Whole, unattributed and pending counts at this moment; what was counted since the last call with the same befores for
-- the first two. Whole is unattributed, pending and all routes together, in every event exactly.
-- @param[opt] befores {whole=, nobody=}
function M.balance(befores)
  c.settle(handle)
  local whole, nobody = c.whole(handle), c.nobody(handle)
  c.pending(handle)
  return difference(whole, befores and befores.whole), difference(nobody, befores and befores.nobody),
    difference(c.last(handle))
end

-- Requests of a route that are finished; turns that nobody ended; requests that are known.
function M.requests(route) return exact(c.requests(handle, route)) end
function M.abandoned() return exact(c.abandoned(handle)) end
function M.known() return c.known(handle) end

-- The histogram of a row of `events`, or of wall time for row 0: 65 numbers counted from 0; nil for an event that several
-- counters add up to.
function M.histogram(route, row)
  if row == 0 then return c.histogram(handle, route, 0) end
  local slots = open.layout.rows[row].slots
  if #slots == 1 then return c.histogram(handle, route, 1 + slots[1][2]) end
end

return M
