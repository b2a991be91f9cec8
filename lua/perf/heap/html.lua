-- A Heap as one HTML page, which needs no network: the types, a tree of what each object retains, the paths, what changed since
-- an earlier snapshot, a search, and of each object what holds it and what it holds.
--
-- The page has the objects that retain most. An object's owner retains more than it does, so the tree of them has no gaps; of
-- each object the page says how many smaller ones were left out, and their bytes. The page's size is limited by their number.
local diff = require "perf.heap.diff"
local file = require "perf.base.file"
local format = require "perf.base.format"
local json = require "perf.base.json"
local page_of = require "perf.base.page"
local path = require "perf.heap.path"
local rows = require "perf.heap.rows"

local encode = page_of.encode

local M = {}

local OBJECTS = 20000
local REFERENCES, ALL_REFERENCES = 100, 200000 -- of one object, and in the page
local PATHS, CHANGES = 500, 500
local LONGEST = 400 -- bytes of a path that is written in full

local function list_of(t) return #t > 0 and t or json.empty_array end

local function shortened(text)
  if #text <= LONGEST then return text end
  return text:sub(1, LONGEST / 2) .. " ... " .. text:sub(-LONGEST / 2)
end

-- The objects as rows: owner, type, bytes, retained, shared, holder on the path, step from there, whether it follows without a
-- mark, description if the type does not say it, number of references to it, number of objects that it owns, references to
-- objects of the page, the number of those to others, and if the holder was left out, its path. Objects are places in the page;
-- 0 is the root.
local function write_objects(put, pause, snapshot, picked, choice)
  local place, left = { [0] = 0 }, ALL_REFERENCES
  for k, i in ipairs(picked) do
    place[i] = k
    pause()
  end
  for k = 0, #picked do
    pause()
    local i = picked[k] or 0
    local kind, bytes, retained, shared, owner, edge = snapshot:object(i)
    local list, others, holders, owned, from = snapshot:references(i, choice, math.min(REFERENCES, left))
    while from do
      local more
      pause()
      list, more, holders, owned, from = snapshot:references(i, choice, math.min(REFERENCES, left), from, list)
      others = others + more
    end
    local references, step, follows, holder = {}, "", true, 0
    for n = 1, #list, 2 do
      local name, mark = path.step(snapshot, list[n], picked[list[n + 1]])
      local at = #references
      references[at + 1], references[at + 2], references[at + 3] = list[n + 1], shortened(name), mark and 1 or 0
      pause()
    end
    left = left - #list / 2
    if i ~= 0 then
      step, follows = path.step(snapshot, edge, i)
      holder = snapshot:edge(edge)
    end
    local what = i ~= 0 and path.what(snapshot, i) or kind
    put((k > 0 and ",\n" or "[") .. encode { i ~= 0 and place[owner] or -1, kind, bytes, retained, shared, place[holder] or -1,
      shortened(step), follows and 1 or 0, what ~= kind and shortened(what) or 0, holders, owned, list_of(references), others,
      not place[holder] and shortened((path.of(snapshot, holder))) or 0 })
  end
  put "]"
end

local function short_paths(list)
  for _, row in ipairs(list) do row.path = shortened(row.path) end
  return list
end

local function write_paths(put, pause, list)
  for k, row in ipairs(list) do
    put((k > 1 and "," or "[") .. encode(row))
    pause()
  end
  put(#list > 0 and "]" or "[]")
end

local function changes(heap, old)
  if not old then return nil end
  local found = diff.new(heap, old, CHANGES)
  return { total = found.total, types = list_of(found.types), paths = list_of(short_paths(found.paths)) }
end

-- Write the page.
-- @param heap Heap
-- @param old an earlier Heap, or nil
function M.write(heap, name, old)
  local snapshot = heap.snapshot
  return file.deliver(name, "html", function(put, pause)
    local choice = snapshot:choose(OBJECTS, true)
    local picked = rows.chosen(snapshot, choice, pause)
    local title = ("Lua heap, %s bytes"):format(format.commas(heap.total))
    local subtitle = ("%s \194\183 %s"):format(format.count(heap.objects, "object"), os.date "%Y-%m-%d %H:%M:%S")
    if old then subtitle = ("%s \194\183 before: %s bytes"):format(subtitle, format.commas(old.total)) end
    page_of.write(put, title, "perf/heap/page/", { "script" }, function()
      local fields = encode { title = title, subtitle = subtitle, total = heap.total, garbage = heap.garbage,
        types = heap:types(), changes = changes(heap, old) }
      put(fields:sub(1, -2) .. ',"paths":')
      write_paths(put, pause, short_paths(rows.paths(snapshot, PATHS, pause)))
      put ',"objects":'
      write_objects(put, pause, snapshot, picked, choice)
      put "}"
    end)
  end, rawget(heap, "stream"))
end

return M
