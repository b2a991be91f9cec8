-- Opens the lists of events that a program passes to perf.measure.
local copy = require "perf.base.copy"
local errors = require "perf.base.errors"
local lists = require "perf.measure.open_list"
local late = require "perf.base.late"
local pairs_of = require "perf.base.pairs"
local resolve_plain = require "perf.names.plain"
require "perf.counts" -- loaded now, so that no measurement of allocations or system calls counts its loading

local M = {}

local weak_keys = { __mode = "k" }

local function bad_list(why) errors.raise(why, 1) end

-- The resolved events of an array. perf.names is not loaded if all of them are the kernel's own names.
-- @return array; or nil, message, code. Raises for an unknown event
local function resolve(list)
  local specs = {}
  for i, event in ipairs(list) do
    specs[i] = resolve_plain(event)
    if not specs[i] then
      local names = late "perf.names"
      return names.resolve_list(list, names.resolve_counted)
    end
  end
  return specs
end

-- Open a list.
-- @param key the key by which perf.measure keeps the list
-- @param list array of names and attr tables
-- @param note function(key, set): keep the set
-- @return the set; or nil, message, code. Raises for an unknown event
function M.open(key, list, note)
  if #list == 0 then bad_list "the list has no event" end
  if #list > 256 then bad_list(("%d events; a list has at most 256"):format(#list)) end
  local specs, message, code = resolve(list)
  if not specs then return nil, message, code end
  local set
  set, message, code = lists.open(specs)
  if not set then return nil, message, code end
  return note(key, set)
end

-- Open the list that a text names. If the text has no groups, terms or mistakes, it is split here.
-- @return as `open`
function M.of_text(text, note)
  local list = {}
  if text:find "[^%w_:., -]" or ("," .. text .. ","):find ", *," then
    list = late "perf.event.group".events_of(text)
  else
    for name in (text .. ","):gmatch " *(.-) *," do list[#list + 1] = name end
  end
  return M.open(text, list, note)
end

-- Whether one event's attr is unchanged.
local function same_fields(a, b)
  for k, v in pairs_of(a) do
    if b[k] ~= v then return false end
  end
  for k in pairs_of(b) do
    if a[k] == nil then return false end
  end
  return true
end

-- The set of a table, if the table has not changed since its first use. (A changed field of an attr within an array is not
-- noticed: the caller must replace the attr by another table.)
-- @param sets the open lists of this thread
-- @param open_again function(key): open a list that was opened before, without resolving its names; returns nil if it cannot
-- @param note as for `open`
function M.of_table(list, sets, open_again, note)
  local known = sets[list]
  if known and known.fields and same_fields(known.fields, list) then return known end
  local kept, items, plain = copy(list), {}, #list > 0
  for i = 1, #list do
    items[i] = list[i]
    plain = plain and type(list[i]) == "string"
  end
  local one = #list == 0 and next(list) ~= nil
  if one then items[1] = kept end
  local wrong = not one and late "perf.names.lists".wrong(list)
  if wrong then bad_list(wrong) end
  local key = plain and table.concat(items, ",") or kept
  local set, message, code = sets[key] or open_again(key)
  if not set then set, message, code = M.open(key, items, note) end
  if not set then return nil, message, code end
  local mine = copy(set)
  if one then mine.fields = kept else mine.items = items end
  set.lists = set.lists or setmetatable({}, weak_keys)
  set.lists[list] = true
  sets[list] = mine
  return mine
end

return M
