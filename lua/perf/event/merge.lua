-- One reader for the rings of several events, in time order.
--
-- The records of one ring are in order, but a record may already be in one ring while an earlier one is still being written into
-- another. So the rings are read in rounds. A round takes the records of every ring, and returns those that are no later than the
-- latest record of the previous round, because all earlier records have been written by now. When a round finds no new records,
-- all records that are held are returned. Their number is bounded: a round takes at most `ahead` records of each ring. If a ring
-- has more, no record later than the last one taken from it is returned before the others are read.
--
-- A ring in overwrite mode gives its latest record first. After its earliest one it gives those that were written meanwhile,
-- again from the latest back. So a round ends for this ring at a record that is later than those before it, or after `ahead`
-- records that have no time. What the ring has left is later than all that earlier rounds took from it, so this round returns
-- nothing later than that.
--
-- One case cannot be detected: if the host stops a virtual CPU between taking a record's time and writing the record, for longer
-- than two rounds, the record comes too late, and is returned out of order. perf's own ordering has the same limit.
--
-- Order needs a time in every record: "time" in sample_type and sample_id_all. A record without a time follows the record before
-- it in its ring.
local argument = require "perf.base.argument"
local core = require "perf.core"
local printed = require "perf.base.printed"

local M = {}

local limits = require "perf.record.limits"

local Reader = {}
Reader.__index = Reader

-- Entries are {record, key, n}: key is the Record whose time is used (nil: before all others), n the order of reading.
local function before(a, b)
  local ka, kb = a[2], b[2]
  if ka ~= kb then
    if not (ka and kb) then return kb ~= nil end
    if core.earlier(ka, kb) then return true end
    if core.earlier(kb, ka) then return false end
  end
  return a[3] < b[3]
end

local function push(heap, entry)
  local i = #heap + 1
  while i > 1 do
    local up = (i - i % 2) / 2
    if not before(entry, heap[up]) then break end
    heap[i] = heap[up]
    i = up
  end
  heap[i] = entry
end

local function pop(heap)
  local first, n = heap[1], #heap
  local last = heap[n]
  heap[n] = nil
  n = n - 1
  if n == 0 then return first end
  local i = 1
  while true do
    local down = 2 * i
    if down > n then break end
    if down < n and before(heap[down + 1], heap[down]) then down = down + 1 end
    if not before(heap[down], last) then break end
    heap[i] = heap[down]
    i = down
  end
  heap[i] = last
  return first
end

local function later_of(a, b) return a and core.earlier(b, a) and a or b end

-- Add a record, or the message and code of a damaged one.
function Reader:add(i, rec, message, code)
  if not rec then
    self.bad = { message, code }
    return
  end
  if rec.time ~= nil then self.key[i] = rec end
  self.n = self.n + 1
  local key = self.key[i]
  push(self.heap, { rec, key, self.n })
  if key then self.latest = later_of(self.latest, key) end
end

-- Take records from a ring.
-- @return how many; whether it may have more; up to which time records may be returned if it has, nil: of none
function Reader:take(i)
  local ev, backward, top = self.events[i], self.backward[i], nil
  local mapped = ev:is_open() and ev:is_mapped()
  local taken, counted, full = 0, 0, false
  while mapped and not full and ev:has_record() do
    local rec, message, code = ev:read_record(0)
    if not rec and code ~= "EBADMSG" then
      if code ~= "ETIMEDOUT" and code ~= "EPIPE" then self.failed = { message, code } end
      break
    end
    taken = taken + 1
    self:add(i, rec, message, code)
    if backward and rec and rec.time ~= nil then
      full = top ~= nil and core.earlier(top, rec)
      top = later_of(top, rec)
    else
      counted = counted + 1
    end
    full = full or counted == self.ahead
  end
  local key = self.key[i]
  if backward then
    key = self.top[i]
    self.top[i] = top and later_of(key, top) or key
  end
  return taken, full, key
end

-- Take records from the rings, and set up to which time records may be returned: that of the latest record seen before this
-- round, or the earliest one of those that rings which have more set.
function Reader:round()
  local bound, found, whole = self.latest, false, true
  for i in ipairs(self.events) do
    local taken, full, key = self:take(i)
    found = found or taken > 0
    if full then
      whole = false
      if bound and (key and core.earlier(key, bound) or not key and self.backward[i] and self.key[i]) then bound = key end
    end
  end
  self.bound = bound
  self.flush = whole and not found
  return found
end

-- The earliest record that may be returned, or nil.
function Reader:ripe()
  local first = self.heap[1]
  if not first then return nil end
  local key, bound = first[2], self.bound
  if self.flush or not key or (bound and not core.earlier(bound, key)) then return pop(self.heap)[1] end
end

-- The events that have a ring: some members of a group may only count.
function Reader:mapped(method)
  local list = {}
  for _, ev in ipairs(self.events) do
    if not ev:is_open() then argument.raise_in_method(method, "its events are closed", 1) end
    if ev:is_mapped() then list[#list + 1] = ev end
  end
  if not list[1] then argument.raise_in_method(method, "no event is mapped: call map() first", 1) end
  return list
end

-- Check a timeout, with the same messages as Event's methods.
function M.check_timeout(timeout, method)
  if timeout ~= nil and not (type(timeout) == "number" and timeout >= 0) then
    argument.raise_in_method(method, "a timeout is 0 or more seconds, got "
      .. (type(timeout) == "number" and timeout or type(timeout)), 2)
  end
end

-- Whether a record can be read without waiting. method: the name for error messages.
function Reader:ready(method)
  if self.heap[1] then return true end
  for _, ev in ipairs(self:mapped(method)) do
    if ev:has_record() then return true end
  end
  return false
end

-- Whether a record can be read without waiting.
function Reader:has_record() return self:ready "has_record" end

-- Wait for a record.
-- @param[opt=0] timeout seconds
-- @return true; or nil, message, "ETIMEDOUT", "ECANCELED" if it is woken, or "EPIPE" if every watched process has ended
function Reader:poll(timeout)
  if self:ready "poll" then return true end
  return core.wait(self:mapped "poll", timeout)
end

-- The event that is used to wake the reader of all rings.
local function waker(self, method)
  local ev = self.waker
  if not (ev and ev:is_open()) then
    ev = self:mapped(method)[1]
    self.waker = ev
  end
  return ev
end

-- End the waiting read, or else the next one: see Event:wake.
function Reader:wake() waker(self, "wake"):wake() end

-- A descriptor; writing a byte to it does the same: see Event:wake_fd.
function Reader:wake_fd() return waker(self, "wake_fd"):wake_fd() end

-- The next record of all rings, in time order.
-- @param[opt=0] timeout seconds to wait for one
-- @return Record; or nil, message, code: "ETIMEDOUT", "EPIPE" if every watched process has ended, "ECANCELED" if it is woken,
-- "EBADMSG" for a damaged record, which the next call skips
function Reader:read_record(timeout)
  while true do
    if self.waker and self.waker:woken() then return nil, "the reader was woken", "ECANCELED" end
    local rec = self:ripe()
    if rec then return rec end
    local found = self:round()
    local bad = self.bad or self.failed
    if bad then
      self.bad, self.failed = nil, nil
      return nil, bad[1], bad[2]
    end
    if not found and not self.heap[1] then
      local ok, message, code = core.wait(self:mapped "read_record", timeout)
      if not ok then return nil, message, code end
    end
  end
end

-- Iterate over the records.
-- @param[opt] opts `timeout`: end after this many seconds without a record (0); `max`: end after this many records; `duration`:
-- end after this many seconds, even if records keep coming
-- @return iterator. It also ends when every watched process has ended or the reader is woken.
function Reader:records(opts)
  opts = limits.check(opts, 2)
  self:mapped "records"
  return limits.records(opts, self.read_record, self)
end

-- The sum of the losses of several events. Each event counts only its own records, also in a ring that several write into.
-- @return the number; {at_least=: true if it is a lower bound}
function M.lost(events)
  local sum, at_least = 0, nil
  for _, ev in ipairs(events) do
    local n, detail = ev:lost()
    sum, at_least = sum + n, at_least or detail.at_least
  end
  return sum, printed.table { at_least = at_least }
end

-- A reader of several events.
-- @param events array of Events; those without a ring at the time of reading are skipped
-- @param[opt] opts `ahead`: the number of records of one ring that may be held, 512; in overwrite mode, of those without a time
-- @return reader with `read_record`, `records`, `poll`, `has_record`
function M.reader(events, opts)
  local backward = {}
  for i, ev in ipairs(events) do
    local attr = ev:info().attr
    backward[i] = attr ~= nil and attr.write_backward or false
  end
  return setmetatable({ events = events, ahead = opts and opts.ahead or 512, backward = backward, top = {}, heap = {}, key = {},
    n = 0 }, Reader)
end

return M
