-- Records of the workers in a shared dictionary, each replaced as a whole once a second.
--
-- A record has all that its worker and the earlier owners of the record have counted. So a reader always finds sums of one
-- moment, a worker that is killed loses only what it counted since its last write, and if the dictionary refuses a record, a
-- later write loses nothing. When a worker ends, the next worker that starts takes over its record, so there are only as many
-- records as workers ran at the same time.
--
-- The records of one kind of counts have these keys, each with a prefix:
--
--   slots                the number of records, or more
--   slot N               "PID GENERATION LENGTH LENGTH\n", the kind of the counts, sections, zeros up to a multiple of GRAIN
--   claim N GENERATION   while a worker takes over record N, so that no other one can
--
-- A section is a name and an array of doubles. Its form: three doubles (length of the name, length of the array, doubles that
-- follow), the name with zeros up to 8 bytes, and the runs of the array without its zeros: first index, length, doubles.
local ffi = require "ffi"
local handover = require "resty.perf.handover"
local pairs_of = require "perf.base.pairs"

local M = {}

local GRAIN = 4096
local double = ffi.typeof "double[?]"

-- An array of n zeros; reuses an earlier array if one is given.
function M.array(n, used)
  if not used then return double(n) end
  ffi.fill(used, 8 * n)
  return used
end

local buffer, room = nil, 0

-- An array for n doubles, until the next call.
local function buffer_of(n)
  if n > room then buffer, room = double(2 * n), 2 * n end
  return buffer
end

-- A section as text.
local function text_of(name, values, n)
  local words = math.ceil(#name / 8)
  local b, at, i = buffer_of(3 + words + 2 * n + 2), 3 + words, 0
  if words > 0 then b[2 + words] = 0 end
  ffi.copy(b + 3, name, #name)
  while i < n do
    if values[i] == 0 then
      i = i + 1
    else
      local head = at
      b[head], at = i, head + 2
      while i < n and values[i] ~= 0 do
        b[at] = values[i]
        at, i = at + 1, i + 1
      end
      b[head + 1] = at - head - 2
    end
  end
  b[0], b[1], b[2] = #name, n, at - 3 - words
  return ffi.string(b, 8 * at)
end

-- The texts of a group of sections are made as one text, so that a record of thousands of sections has few texts.
local GROUP = 1000 -- doubles

-- The text of a group of sections. It is made again if a section has changed or is gone.
local function text_of_group(group)
  local changed = not group.text
  for i = #group, 1, -1 do
    local section = group[i]
    changed = changed or section.changed or section.gone
    if section.gone then table.remove(group, i) end
  end
  if changed then
    local texts = {}
    for i, section in ipairs(group) do texts[i], section.changed = text_of(section.name, section.values, section.n), false end
    group.text = table.concat(texts)
  end
  return group.text
end

-- Put the sections that are in no group yet into groups.
local function add_to_groups(groups, sections)
  for _, section in pairs_of(sections) do
    if not section.grouped then
      local last = groups[#groups]
      if not last or last.n + section.n > GROUP then
        last = { n = 0 }
        groups[#groups + 1] = last
      end
      last[#last + 1], last.n, last.text, section.grouped = section, last.n + section.n, nil, true
    end
  end
end

-- n doubles of a text from a place on, until the next call.
local function doubles(text, place, n)
  local b = buffer_of(n)
  ffi.copy(b, ffi.cast("const char *", text) + place - 1, 8 * n)
  return b
end

-- Add the sections of a record to arrays.
-- @param start, bytes the place of the sections in the record's text
-- @param array_of function(name, n): the array of a section, or nil to leave it out
-- @param[opt] pause called between two sections
local function unpack_into(text, start, bytes, array_of, pause)
  local after = start + bytes
  while start + 24 <= after do
    local b = doubles(text, start, 3)
    local length, n, more = b[0], b[1], b[2]
    local from = math.ceil(length / 8)
    local to = from + more
    b = doubles(text, start + 24, to)
    local values = array_of(ffi.string(b, length), n)
    while values and from < to do
      local first, run = b[from], b[from + 1]
      for i = 0, run - 1 do values[first + i] = values[first + i] + b[from + 2 + i] end
      from = from + 2 + run
    end
    start = start + 24 + 8 * to
    if pause then pause() end
  end
end

-- The parts of a record: its owner's process id (0: none), its generation, the kind of its counts, the place of its sections in
-- the text and their length.
local function parse(text)
  local pid, generation, kind, bytes, at = (text or ""):match "^(%d+) (%d+) (%d+) (%d+)\n()"
  if not pid then return 0, 0, nil, 1, 0 end
  kind = tonumber(kind)
  return tonumber(pid), tonumber(generation), text:sub(at, at + kind - 1), at + kind, tonumber(bytes)
end

-- Claim a record whose worker has ended, or a new one. If this worker is killed before it writes the record, its claim stays: the
-- record is read, but no worker takes it.
-- @return {number=, generation=, claim=}, the record's text; or nil, the dictionary's error if there was one
local function claim(dict, prefix, n)
  local pid = ngx.worker.pid()
  local owner, generation = parse(dict:get(prefix .. "slot " .. n))
  if owner ~= 0 and owner ~= pid and handover.is_alive(owner) then return nil end
  local key = ("%sclaim %d %d"):format(prefix, n, generation)
  local ok, message = dict:safe_add(key, pid)
  if not ok then return nil, message end
  local text = dict:get(prefix .. "slot " .. n)
  if select(2, parse(text)) == generation then return { number = n, generation = generation + 1, claim = key }, text end
  dict:delete(key) -- another worker has taken the record meanwhile
end

-- Write a record, and give up the claim. Returns nil or the dictionary's error.
-- @param texts of the sections, from index 2 on; all their bytes
local function write(dict, prefix, slot, owner, kind, texts, bytes)
  texts[1] = ("%d %d %d %d\n"):format(owner, slot.generation, #kind, bytes) .. kind
  texts[#texts + 1] = ("\0"):rep(-(#texts[1] + bytes) % GRAIN)
  local ok, message = dict:safe_set(prefix .. "slot " .. slot.number, table.concat(texts))
  if not ok then return message end
  if slot.claim then dict:delete(slot.claim) end
  slot.claim = nil
end

-- This worker's record.
-- @param dict ngx.shared.DICT
-- @param kind text: records of another kind have other counts
-- @param[opt] prefix of the keys
-- @return {number=, take=, adopt=, write=}:
--   number() is nil until take(array_of) has found a record, and has added the counts of its earlier owners to arrays.
--   adopt(array_of) adds the counts of ended workers of another master, and returns whether there were any.
--   write(sections, over, go_on, complete) replaces the record by sections, {name=, values=, n=, changed=, gone=}, and returns
--     nil or the dictionary's error. `over` leaves the record to another worker. go_on() is called at times; if it returns false,
--     nothing is written. Sections may change meanwhile (`changed`), or be removed from the table (`gone`). complete(go_on), if
--     it is given, is called when the texts are made: true: write them; false: it has changed sections, so make their texts
--     again; nil: write nothing.
function M.record(dict, kind, prefix)
  prefix = prefix or ""
  local slot
  local tag = prefix .. kind
  local record, groups = {}, {}

  function record.number() return slot and slot.number end

  function record.take(array_of)
    local n, text = 0
    repeat
      n = n + 1
      slot, text = claim(dict, prefix, n)
    until slot or text == "no memory"
    local _, _, its_kind, start, bytes = parse(text)
    if slot and its_kind == kind then unpack_into(text, start, bytes, array_of) end
  end

  function record.adopt(array_of)
    local texts = handover.take(tag)
    for _, text in ipairs(texts) do unpack_into(text, 1, #text, array_of) end
    return #texts > 0
  end

  -- Give records that no worker of this master will take to the other master's workers.
  local function give_rest()
    for n = 1, dict:get(prefix .. "slots") or 0 do
      local rest, text = claim(dict, prefix, n)
      if rest then
        local _, _, its_kind, start, bytes = parse(text)
        if bytes == 0 or handover.give(prefix .. (its_kind or ""), text:sub(start, start + bytes - 1)) then
          write(dict, prefix, rest, 0, "", { "" }, 0)
        else
          dict:delete(rest.claim)
        end
      end
    end
  end

  -- Make the texts beforehand. Returns whether to go on.
  local function prepare(sections, go_on)
    add_to_groups(groups, sections)
    for i = 1, #groups do
      text_of_group(groups[i])
      if not go_on() then return false end
    end
    return true
  end

  function record.write(sections, over, go_on, complete)
    repeat
      if go_on and not prepare(sections, go_on) then return end
      local is_complete = not complete or complete(go_on)
      if is_complete == nil then return end
    until is_complete
    add_to_groups(groups, sections)
    local texts, bytes = { "" }, 0
    for i, group in ipairs(groups) do
      texts[i + 1] = text_of_group(group)
      bytes = bytes + #group.text
    end
    local refused = write(dict, prefix, slot, over and 0 or ngx.worker.pid(), kind, texts, bytes)
    if refused then return refused end
    dict:safe_add(prefix .. "slots", 0)
    local more = slot.number - (dict:get(prefix .. "slots") or 0)
    if more > 0 then dict:incr(prefix .. "slots", more) end -- too many if another worker does the same, which does no harm
    if over and handover.is_upgrade() then give_rest() end
  end

  return record
end

-- Add the records of this kind to arrays.
-- @param array_of function(name, n): the array of a section, or nil to leave it out
-- @param[opt] except number of a record that is left out
-- @param[opt] pause called between two sections
-- @param[opt] prefix of the keys
function M.read(dict, kind, array_of, except, pause, prefix)
  prefix = prefix or ""
  for n = 1, dict:get(prefix .. "slots") or 0 do
    if n ~= except then
      local text = dict:get(prefix .. "slot " .. n)
      local _, _, its_kind, start, bytes = parse(text)
      if pause then pause() end
      if its_kind == kind then unpack_into(text, start, bytes, array_of, pause) end
    end
  end
end

return M
