-- A flame graph as a single self-contained HTML file, with search, zoom, details, keys, support for phones, light and dark
-- colours, and the difference of two profiles.
--
-- The stacks are converted to a tree in arrays, since a profile may have a million nodes. It is written in preorder, the widest
-- child first. The page, whose files are in flamegraph/, does the rest.
local argument = require "perf.base.argument"
local core = require "perf.core"
local file = require "perf.base.file"
local format = require "perf.base.format"
local json = require "perf.base.json"
local memo = require "perf.base.memo"
local checks = require "perf.api.check"
local text = require "perf.profile.report.frame_names"

local M = {}

local FILES = "perf/profile/report/flamegraph/" -- built in

-- Numbers frames by their text: equal frames of two profiles get the same number.
local function interner()
  local list, by_key = {}, {}
  local function intern(name, kind, f)
    local key = table.concat({ name, kind or "", f.file or "", f.module or "" }, "\0")
    local id = by_key[key]
    if not id then
      id = #list
      by_key[key] = id
      list[id + 1] = { name = name, kind = kind, func = f.func ~= name and f.func or nil, file = f.file, line = f.line,
        module = f.module }
    end
    return id
  end
  return list, intern, memo(function(f) return intern(text.line(f.name), f.kind, f) end)
end

-- The tree of one profile, or two: node 1 is the root; each array is by node.
local function tree_of(profiles, pause)
  local frames, intern, ids = interner()
  local tree = { frame = { intern("all", "root", {}) }, parent = { 0 }, first = {}, next = {}, sums = { 0 }, frames = frames }
  local n = 1
  local child, frame, parent, first, next_of = memo(function() return {} end), tree.frame, tree.parent, tree.first, tree.next
  local function step(node, id)
    local under = child[id]
    local to = under[node]
    if not to then
      n = n + 1
      to = n
      under[node], frame[to], parent[to] = to, id, node
      next_of[to], first[node] = first[node], to
    end
    return to
  end
  for side, prof in ipairs(profiles) do
    local own, count = {}, {}
    tree[side] = { own = own, count = count }
    -- The path to the previous sample; most samples share the beginning of it.
    local way, nodes, deep, zone, root = {}, {}, 0, nil, 1
    for _, sample in ipairs(prof:samples()) do
      if sample.zone ~= zone then
        zone, deep = sample.zone, 0
        root = zone and step(1, intern(text.line(zone), "zone", {})) or 1
      end
      local node, stack, depth, known = root, sample.stack, 0, true
      for i = #stack, 1, -1 do
        local f = stack[i]
        depth = depth + 1
        known = known and depth <= deep and way[depth] == f
        if known then
          node = nodes[depth]
        else
          node = step(node, ids[f])
          way[depth], nodes[depth] = f, node
        end
      end
      deep = depth
      own[node] = (own[node] or 0) + text.number(sample.weight)
      count[node] = (count[node] or 0) + text.number(sample.count or 1)
      pause()
    end
  end
  -- From the last node to the first, since a node comes after its parent.
  local sums = tree.sums
  for i = n, 1, -1 do
    sums[i] = (sums[i] or 0) + (tree[1].own[i] or 0)
    local p = parent[i]
    if p > 0 then sums[p] = (sums[p] or 0) + sums[i] end
    if i % 512 == 0 then pause() end
  end
  tree.n = n
  return tree
end

-- Returns a function that appends the children of a node to a list of n, the widest last, which is visited first; it returns the
-- new length.
local function children_of(tree)
  local sums, frames, frame, next_of = tree.sums, tree.frames, tree.frame, tree.next
  local function before(a, b)
    if sums[a] ~= sums[b] then return sums[a] < sums[b] end
    local x, y = frames[frame[a] + 1].name, frames[frame[b] + 1].name
    if x ~= y then return x > y end
    return a > b
  end
  return function(list, n, node)
    local at = tree.first[node]
    local several = at and next_of[at] and {}
    while at do
      if several then several[#several + 1] = at else list[n + 1] = at end
      at = next_of[at]
    end
    if not several then return tree.first[node] and n + 1 or n end
    table.sort(several, before)
    for i = 1, #several do list[n + i] = several[i] end
    return n + #several
  end
end

-- A number to be written as an integer; as a number rather than a string, if possible.
local function whole(v)
  if v % 1 == 0 and v < 2 ^ 46 then return v end
  return ("%.0f"):format(v)
end

-- Write the nodes as numbers: frame, depth, own weight, own count [, those of the other profile].
local function write_nodes(put, pause, tree)
  local parts, k = {}, 0
  local todo, depth, top = { 1 }, { 0 }, 1
  local a, b, frame, children = tree[1], tree[2], tree.frame, children_of(tree)
  local first = true
  while top > 0 do
    local node, d = todo[top], depth[top]
    top = top - 1
    parts[k + 1], parts[k + 2] = frame[node], d
    parts[k + 3], parts[k + 4] = whole(a.own[node] or 0), whole(a.count[node] or 0)
    k = k + 4
    if b then
      parts[k + 1], parts[k + 2] = whole(b.own[node] or 0), whole(b.count[node] or 0)
      k = k + 2
    end
    local more = children(todo, top, node)
    for i = top + 1, more do depth[i] = d + 1 end
    top = more
    if k >= 1024 or top == 0 then
      put((first and "" or ",") .. table.concat(parts, ",", 1, k))
      first, k = false, 0
      pause()
    end
  end
end

-- JSON within an HTML element: it must not contain anything that looks like a tag.
local function encode(v)
  return (json.encode(v):gsub("<", "\\u003c"))
end

local function html(s)
  return (s:gsub("[&<>\"]", { ["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ['"'] = "&quot;" }))
end

local function samples(n) return format.count(text.number(n), "sample") end

local function subtitle(prof, before)
  local parts = { text.amount(text.number(prof.total), prof.unit), samples(prof.sample_count) }
  if prof.duration_ns then parts[#parts + 1] = "in " .. format.ns(text.number(prof.duration_ns)) end
  if text.number(prof.lost) > 0 then parts[#parts + 1] = samples(prof.lost) .. " lost" end
  if prof.started then parts[#parts + 1] = os.date("%Y-%m-%d %H:%M:%S", math.floor(prof.started)) end
  local line = table.concat(parts, " \194\183 ")
  return before and ("%s \194\183 before: %s"):format(line, text.amount(text.number(before.total), before.unit)) or line
end

local check = checks.options("Profile:flamegraph", { diff = function(v)
  if type(v.samples) ~= "function" then return "Profile expected, got table" end
end })

--- Write a profile as a flame graph: one HTML file, which needs no network.
-- @function Profile:flamegraph
-- @tparam[opt] string path the file; without it the page is returned
-- @tparam[opt] table options
-- @treturn string|boolean the page, or true @fails if the file cannot be written
function M.flamegraph(prof, path, opts)
  opts = check(opts, 3)
  local why = opts.diff and text.other_event(prof, opts.diff)
  if why then argument.raise_in_method("flamegraph", "option 'diff': " .. why, 3) end
  local title = text.line(opts.title or ("%s%s%s"):format(prof.event, prof.comm and ", " .. prof.comm or "",
    prof.pid and (" (%d)"):format(prof.pid) or ""))
  return file.deliver(path, "flamegraph", function(put, pause)
    local tree = tree_of({ prof, opts.diff }, pause)
    local fill = {}
    function fill.TITLE() put(html(title)) end
    function fill.STYLE() put(core.web_file(FILES .. "style.css")) end
    function fill.SCRIPT() put(core.web_file(FILES .. "script.js")) end
    function fill.DATA()
      put(('{"title":%s,"subtitle":%s,"unit":%s,"diff":%s,"frames":'):format(encode(title),
        encode(subtitle(prof, opts.diff)), encode(prof.unit or ""), tostring(opts.diff ~= nil)))
      for i, f in ipairs(tree.frames) do
        for _, key in ipairs { "func", "file", "module" } do f[key] = f[key] and text.line(f[key]) end
        put((i > 1 and "," or "[") .. encode(f))
        pause()
      end
      put '],"nodes":['
      write_nodes(put, pause, tree)
      put "]}"
    end
    local page, from = core.web_file(FILES .. "page.html"), 1
    for before, name, after in page:gmatch "()@(%u+)@()" do
      put(page:sub(from, before - 1))
      fill[name]()
      from = after
    end
    put(page:sub(from))
  end, prof.stream)
end

return M
