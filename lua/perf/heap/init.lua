-- Snapshots of all objects of the Lua state: what they are, what holds them, and how much memory each of them retains.
--
--     local perf = require "perf"
--     local before = perf.heap { collect = true }
--     serve()
--     local after = perf.heap { collect = true }
--     print(after)              -- by type, and the paths that retain most
--     print(after:diff(before)) -- what grew
--
-- The C core takes the snapshot and finds paths and dominators; lua/perf/heap/path.lua names them.
local argument = require "perf.base.argument"
local checks = require "perf.api.check"
local core = require "perf.core"
local diff = require "perf.heap.diff"
local file = require "perf.base.file"
local format = require "perf.base.format"
local html = require "perf.heap.html"
local json = require "perf.base.json"
local report = require "perf.heap.report"
local rows = require "perf.heap.rows"
local strict = require "perf.api.strict"

local M = {}

local check = checks.options "perf.heap"

--- A snapshot of all objects of a Lua state, from `perf.heap`; prints as the tables of types and paths.
-- @type Heap
local Heap = {}
Heap.__name = "perf.Heap"

local DEFAULT_ROWS = 20

-- Take the results of a snapshot that is ready.
local function fill(heap)
  local sums = heap.snapshot:sums()
  heap.sums, heap.total, heap.objects, heap.garbage = sums, sums.total, sums.objects, sums.dead
  heap.exact = not sums.parts.unknown
  return heap
end

-- Wait for the results. Returns true; or nil, message, code, after which the Heap is closed.
local function wait(heap, milliseconds)
  if rawget(heap, "sums") then return true end
  local ok, message, code = heap.snapshot:wait(milliseconds)
  if ok then
    fill(heap)
    return true
  end
  if code ~= "ETIMEDOUT" then heap.snapshot = nil end
  return ok, message, code
end

local missing = strict.missing "Heap"

local results = { sums = true, total = true, objects = true, garbage = true, exact = true }

-- The first use of a result waits for it.
function Heap.__index(heap, name)
  if results[name] and rawget(heap, "snapshot") then
    local ok, message = wait(heap, -1)
    if not ok then argument.raise(message, 0) end
    return rawget(heap, name)
  end
  local method = rawget(Heap, name)
  if method == nil then method = missing(heap, name, 1) end -- not a tail call, which would not count as a level
  return method
end

-- The snapshot, for a method; it raises if the Heap is closed.
local function open(heap, method)
  local snapshot = rawget(heap, "snapshot")
  if not snapshot then argument.raise_in_method(method, "the Heap is closed", 1) end
  return heap.sums and snapshot
end

local function check_rows(n, method, arg)
  local wrong = n ~= nil and checks.wrong({ "n", "integer", least = 1, most = 1e5 }, n)
  if wrong then argument.raise_in_method(method, wrong, arg) end
end

--- The objects by type, and the state's own parts. The row with most bytes is the first; all add up to `h.total`.
-- @treturn {table,...} `{type=, count=, bytes=}`; a part's type is in parentheses and its count nil. `(garbage)` are objects that
-- are dead, but not freed yet
function Heap:types() return rows.types(self.sums) end

--- The paths that lead to the most memory.
-- @tparam[opt] integer n the number of rows (default: 20)
-- @treturn {table,...} the largest first: `{path=, type=, what=, bytes=, retained=, shared=, object=}`; `bytes` are the object's
-- own, `retained` those that would be freed without it, `shared` those to which it leads and that something else holds too
function Heap:paths(n)
  check_rows(n, "paths", 2)
  local stream = rawget(self, "stream") -- of a page
  return rows.paths(open(self, "paths"), n or DEFAULT_ROWS, stream and stream.pause)
end

--- Find what holds an object. The object is found by its address. If it was made after the snapshot, at the address of an object
-- that has been freed since, the answer is about the freed object.
-- @tparam any obj a table, function, string, coroutine, userdata or cdata
-- @treturn table the fields of a row of `Heap:paths`, and `holders`, the paths of all objects that refer to it, at most 20
-- @fails "ENOENT": the snapshot does not have it, or only weak references led to it
-- @raise for nil
function Heap:who(obj)
  if obj == nil then argument.raise_in_method("who", "an object expected, got nil", 2) end
  local snapshot = open(self, "who")
  local i = snapshot:find(obj)
  if not i then
    local why = "the snapshot does not have this %s: it was made later, nothing held it, or it is not an object"
    return nil, ("who: " .. why):format(type(obj)), "ENOENT"
  end
  return rows.who(snapshot, i)
end

--- Compare with an earlier snapshot, path by path. If the earlier snapshot does not have the path of an object, the object is
-- searched by its address. It may then be compared with an object of the same type that was freed and had this address.
-- @tparam Heap old the earlier one
-- @tparam[opt] integer n the number of paths (default: 20)
-- @treturn HeapDifference what grew and what shrank
function Heap:diff(old, n)
  if getmetatable(old) ~= Heap then argument.raise_in_method("diff", ("Heap expected, got %s"):format(type(old)), 2) end
  check_rows(n, "diff", 3)
  open(self, "diff")
  if not (rawget(old, "snapshot") and old.sums) then argument.raise_in_method("diff", "the earlier Heap is closed", 2) end
  return diff.new(self, old, n or DEFAULT_ROWS)
end

local check_html = checks.options("Heap:html", { diff = function(v)
  if getmetatable(v) ~= Heap then return ("Heap expected, got %s"):format(type(v)) end
end })

--- Write the snapshot as one HTML page, which needs no network: the types, the tree of what each object retains, the paths, a
-- search, and for each object what holds it and what it holds. It has the 20,000 objects that retain the most, and says how much
-- it leaves out.
-- @tparam[opt] string path the file; without it the page is returned
-- @tparam[opt] table options
-- @treturn string|boolean the page, or true @fails if the file cannot be written
-- @since 0.2.0
function Heap:html(path, options)
  options = check_html(options, 3)
  open(self, "html")
  local old = options.diff
  if old and not (rawget(old, "snapshot") and old.sums) then
    argument.raise_in_method("html", "option 'diff': the earlier Heap is closed", 3)
  end
  return html.write(self, path, old)
end

--- The sums and tables as plain tables.
-- @treturn table `total`, `objects`, `garbage`, `exact`, and the rows of `types` and `paths`
-- @since 0.2.0
function Heap:totable()
  open(self, "totable")
  return { total = self.total, objects = self.objects, garbage = self.garbage, exact = self.exact, types = self:types(),
    paths = self:paths() }
end

--- The table of totable as JSON text.
-- @treturn string
-- @since 0.2.0
function Heap:json()
  open(self, "json")
  return json.encode(self:totable())
end

local function saves(text)
  return function(heap, path) return file.write(path, function(put) put(text(heap) .. "\n") end) end
end
local save = { html = Heap.html, htm = Heap.html, json = saves(Heap.json),
  txt = saves(function(heap) return format.text_for(false, tostring, heap) end) }

--- Write the snapshot into a file; the ending of its name selects the format. ".html" is the page, ".json" the sums and tables,
-- ".txt" the printed tables.
-- @tparam string path
-- @treturn boolean true @fails if the file cannot be written
-- @raise for an unknown ending
-- @since 0.2.0
function Heap:save(path)
  argument.check_path(path, "save", 2)
  local write = save[path:lower():match "%.(%w+)$" or ""]
  if not write then argument.raise_in_method("save", path .. ": unknown ending; .html, .json and .txt are known", 2) end
  open(self, "save")
  return write(self, path)
end

--- Free the memory of the snapshot. Idempotent. The sums and `Heap:types` remain available.
function Heap:close()
  if rawget(self, "snapshot") then self.snapshot:close() end
  self.snapshot = nil
end

--- Wait until the snapshot is ready. The first use of a result waits too, and raises the errors that this returns. Without `fork`
-- the snapshot is always ready.
-- @tparam[opt] number timeout seconds; 0 does not wait (default: no limit)
-- @treturn boolean true @fails "ETIMEDOUT"; "ECHILD" if the process that takes the snapshot was killed; as `perf.heap` fails
function Heap:wait(timeout)
  argument.check_timeout(timeout)
  if not rawget(self, "snapshot") then argument.raise_in_method("wait", "the Heap is closed", 1) end
  return wait(self, timeout and math.max(0, math.min(math.ceil(timeout * 1e3), 2 ^ 31 - 1)) or -1)
end

function Heap:__tostring() return report.heap(self) end

Heap.__close = Heap.close
argument.check_methods(Heap, "Heap", "types paths who diff html totable json save wait close")

local function finish(forked, snapshot, message, code)
  if not snapshot then return nil, message, code end
  local heap = setmetatable({ snapshot = snapshot, method = "structures" }, Heap)
  return forked and heap or fill(heap)
end

--- Take a snapshot of all objects of the Lua state; return a Heap. Its `total` is `collectgarbage "count"` at that moment, in
-- bytes: nothing is allocated in the state before that.
-- @tparam[opt] table options
-- @treturn Heap @fails "EOPNOTSUPP" if the structures of this interpreter are not recognized; "ENOMEM"
function M.heap(options)
  if options ~= nil then check(options, 1) end
  if options and options.collect then
    collectgarbage()
    collectgarbage()
  end
  local forked = options and options.fork or false
  return finish(forked, core.heap_take(forked))
end

return M
