--- Counts records by the values of some fields, in C, without an object for each record.
--
--     local hits = perf.tally { by = "ip" }
--     while busy() do
--       ev:poll(0.1)
--       hits:take(ev)
--     end
--     print(hits)                                   -- the most frequent first
--
-- A tally takes records from Events, Groups, Sets and perf.data files. Its memory is bounded: when it has `max` keys, records
-- with a new key are added up as `other`. `totals().lost` is the number of records that the rings have lost from which it took
-- records. So the counted and the lost records are all that were produced.
-- @classmod Tally
local argument = require "perf.base.argument"
local printed = require "perf.base.printed"
local strict = require "perf.api.strict"
local core = require "perf.core"
local format = require "perf.base.format"
local checks = require "perf.api.check"

local M = {}

local Tally = {}
Tally.__index = Tally
Tally.__name = "perf.Tally"

local check = checks.options("perf.tally", { by = function(by)
  if type(by) ~= "string" and (type(by) ~= "table" or #by < 1 or #by > 4) then return "one to four names of fields expected" end
end })

--- Make a Tally, which counts records by fields such as ip or tid.
-- @tparam table options
-- @treturn Tally @fails
-- @raise for an unknown field, type or option
function M.tally(opts)
  opts = check(opts, 1)
  local by = opts.by
  if type(by) == "string" then by = { by } end
  local raw, message, code = argument.call_as_argument(1, "", core.tally, by, opts.max, opts.weight, opts.type)
  if not raw then return nil, message, code end
  local fields = {}
  for i, name in ipairs(by) do fields[i] = name end
  -- _losses: one for each ring and file that records were taken from, {now=, base=}; _of: the same by Event or file. now()
  -- returns how many records the source has lost so far and whether that is a lower bound, also when the source has been
  -- collected. base is what it returned at the last `clear`.
  local self = { _raw = raw, fields = fields, weight = opts.weight }
  self._losses, self._of = {}, setmetatable({}, { __mode = "k" })
  return setmetatable(self, Tally)
end

local function file_loss(file)
  local alive, lost, at_least = setmetatable({ file }, { __mode = "v" }), nil, nil
  return function()
    if alive[1] then lost, at_least = alive[1]:lost() end
    return lost, at_least
  end
end

local function note(self, source, now)
  local loss = { now = now, base = 0 }
  self._of[source], self._losses[#self._losses + 1] = loss, loss
  return loss
end

-- Call the C method for the public method `name`. Errors blame the caller of that method.
local function raw(self, name, method, ...) return argument.call_as_method(name, self._raw[method], self._raw, ...) end

-- The loss is only read when it is needed, since that is a system call.
local function take_ring(self, ev)
  local n, message, code = argument.call_as_argument(1, "", core.tally_event, self._raw, ev)
  if not n then return nil, message, code end
  if not self._of[ev] then note(self, ev, ev:ring_loss()) end
  return n
end

local function take_file(self, file, data)
  local n, message, code = argument.call_as_argument(1, "", core.tally_data, self._raw, data)
  local loss = self._of[file] or note(self, file, file_loss(file))
  loss.now() -- keep its number, since the file may be collected
  if n then return n end
  return nil, message, code
end

--- Count the available records: those that are in a ring now, a file to its end.
-- @tparam Event|Group|Set|DataFile source
-- @treturn integer the number counted @fails
function Tally:take(source)
  if type(source) == "userdata" and getmetatable(source) == core.Event then
    return take_ring(self, source)
  end
  local data = type(source) == "table" and rawget(source, "_data")
  if data then return take_file(self, source, data) end
  local events = type(source) == "userdata" and getmetatable(source) == core.Group and source:members() or source
  if type(events) ~= "table" or not events[1] then
    argument.raise(("Event, Group, Set or perf.data file expected, got %s"):format(type(source)), 1, "take")
  end
  local sum, any = 0, false
  for i, ev in ipairs(events) do
    if getmetatable(ev) ~= core.Event then
      argument.raise(("Event expected at [%d], got %s"):format(i, type(ev)), 1, "take")
    end
    if argument.call_as_argument(1, "", ev.is_mapped, ev) then
      local n, message, code = take_ring(self, ev)
      if not n then return nil, message, code end
      sum, any = sum + n, true
    end
  end
  if not any then argument.raise("no event is mapped: call map() first", 0) end
  return sum
end

--- The count of a key.
-- @tparam integer key the value of the first field of `by`
-- @tparam any ... those of the others
-- @treturn integer 0 for an unknown key
function Tally:count(...) return raw(self, "count", "count", ...) end

local function step(self, i, count, ...)
  if not i then return nil end
  self.at = i
  return count, ...
end

--- Iterate over the keys, in no order.
-- @treturn function iterator of the count, and the fields in the order of `by`
-- @usage for count, ip, tid in hits:each() do ... end
function Tally:each()
  local place = { at = 0 }
  return function() return step(place, raw(self, "each", "next", place.at)) end
end

--- The keys with the highest counts.
-- @tparam[opt=10] integer n the largest number of keys
-- @treturn {table,...} `{count=, share=, FIELD=value ...}`, the highest first; `share` is 0 to 1, of `total`
function Tally:top(n)
  if n ~= nil then
    argument.check_type(n, "number", 1, "top")
    local wrong = n ~= math.huge and checks.wrong_number({ "n", "integer", least = 0 }, n)
    if wrong then argument.raise(wrong, 1, "top") end
  end
  local total = tonumber((raw(self, "top", "totals")))
  local list = {}
  for count, a, b, c, d in self:each() do
    local e = { count = count, share = tonumber(count) / total }
    local key = { a, b, c, d }
    for i, name in ipairs(self.fields) do e[name] = key[i] end
    list[#list + 1] = e
  end
  local fields = self.fields
  table.sort(list, function(a, b)
    if a.count ~= b.count then return a.count > b.count end
    for _, name in ipairs(fields) do
      local x, y = core.hex(a[name]), core.hex(b[name])
      if x ~= y then return #x ~= #y and #x < #y or #x == #y and x < y end
    end
    return false
  end)
  for i = #list, (n or 10) + 1, -1 do list[i] = nil end
  return printed.rows(list)
end

--- The sums of the counted and the lost records.
-- @treturn table `{total=, other=, keys=, without=, lost=, at_least=}`: `other` is the part of `total` of keys beyond `max`,
-- `keys` the number of keys, `without` the number of records that lack a field; `lost` (since 0.2.0) the records of any type that
-- the rings lost, or that a file reports as lost, since `clear`; `at_least` is true if `lost` is a lower bound: see `Event:lost`
function Tally:totals()
  local total, other, keys, without = raw(self, "totals", "totals")
  local lost, at_least = 0, nil
  for _, loss in ipairs(self._losses) do
    local its, is_least = loss.now()
    lost, at_least = lost + its - loss.base, at_least or is_least or nil
  end
  return printed.table { total = total, other = other, keys = keys, without = without, lost = lost, at_least = at_least }
end

--- Remove all keys and counts.
function Tally:clear()
  raw(self, "clear", "clear")
  for _, loss in ipairs(self._losses) do loss.base = loss.now() end
end

--- Free the memory at once, without waiting for the garbage collector.
function Tally:close()
  self._closed = true
  self._raw:close()
end

argument.check_methods(Tally, "Tally", "take count each top totals clear close")
Tally.__close = Tally.close

local hexadecimal = { ip = true, addr = true, phys_addr = true }

function Tally:__tostring()
  if self._closed then return ("Tally(%s, closed)"):format(table.concat(self.fields, ", ")) end
  local rows, totals = {}, self:totals()
  for i, e in ipairs(self:top(20)) do
    local row = { format.commas(e.count), ("%.1f %%"):format(100 * e.share) }
    for _, name in ipairs(self.fields) do
      row[#row + 1] = name .. " " .. (hexadecimal[name] and core.hex(e[name]) or tostring(e[name]))
    end
    rows[i] = row
  end
  local tail = ("%s in all, %s of them in %s keys"):format(format.commas(totals.total),
    format.commas(totals.total - totals.other), format.commas(totals.keys))
  if totals.lost > 0 then
    tail = ("%s, and %s%s lost"):format(tail, totals.at_least and "at least " or "", format.commas(totals.lost))
  end
  if #rows == 0 then return totals.lost > 0 and tail or "Tally: nothing was counted" end
  return format.align(rows, { true, true }) .. "\n" .. tail
end

strict.class(Tally, "Tally")

return M
