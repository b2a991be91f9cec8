-- A flame graph as a single self-contained HTML file, with search, zoom, details, keys, support for phones, light and dark
-- colours, and the difference of two profiles.
--
-- The stacks are converted to a tree in arrays, since a profile may have a million nodes. It is written in preorder, the widest
-- child first. The page, whose files are in flamegraph/, does the rest.
local aligned = require "perf.profile.aligned"
local argument = require "perf.base.argument"
local file = require "perf.base.file"
local format = require "perf.base.format"
local memo = require "perf.base.memo"
local page = require "perf.base.page"
local sorted = require "perf.base.sorted"
local checks = require "perf.api.check"
local svg = require "perf.profile.report.flamegraph_svg"
local text = require "perf.profile.report.frame_names"
local time_order = require "perf.profile.report.time_order"

local encode = page.encode

local M = {}

local MANY = 64 -- children that are sorted in one piece

-- Numbers frames by their text: equal frames of two profiles get the same number.
local function interner()
  local list, by_key = {}, {}
  local function intern(name, kind, f)
    local key = table.concat({ name, kind or "", f.file or "", f.module or "" }, "\0")
    local id = by_key[key]
    if not id then
      id = #list
      by_key[key] = id
      list[id + 1] = { name = name, kind = kind, func = f.func and f.func ~= name and text.line(f.func) or nil,
        file = f.file and text.line(f.file), line = f.line, lastline = f.lastline, linedefined = f.linedefined,
        module = f.module and text.line(f.module) }
    end
    return id
  end
  return list, intern, memo(function(f) return intern(text.line(f.name), f.kind, f) end)
end

-- The tree of one profile, or two: node 1 is the root; each array is by node.
local function tree_of(profiles, pause)
  local frames, intern, ids = interner()
  local tree = { frame = { intern("all", "root", {}) }, parent = { 0 }, first = {}, next = {}, sums = { 0 }, frames = frames,
    ids = ids, intern = intern }
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
    if i % 64 == 0 then pause() end
  end
  tree.n = n
  return tree
end

-- Returns a function that appends the children of a node to a list of n, the widest last, which is visited first; it returns the
-- new length.
local function children_of(tree, pause)
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
    several = sorted(several, before, #several > MANY and pause)
    for i = 1, #several do list[n + i] = several[i] end
    return n + #several
  end
end

-- A number of 0 or more in base 36, as the page's JavaScript reads it.
local function base36(v)
  local digits = ""
  repeat
    local digit = v % 36
    digits = ("0123456789abcdefghijklmnopqrstuvwxyz"):sub(digit + 1, digit + 1) .. digits
    v = (v - digit) / 36
  until v == 0
  return digits
end

-- Visit the nodes in preorder, the widest child first.
-- @param visit function(node, depth)
-- @param pause as in tree_of
local function each_node(tree, visit, pause)
  local todo, depth, top, children = { 1 }, { 0 }, 1, children_of(tree, pause)
  while top > 0 do
    local node, d = todo[top], depth[top]
    visit(node, d)
    local more = children(todo, top - 1, node)
    for i = top, more do depth[i] = d + 1 end
    top = more
    pause()
  end
end

-- Write the nodes as text in preorder. A node is `FRAME;`, or `FRAME:WEIGHT,COUNT;` if samples end there, followed by
-- `:WEIGHT,COUNT` of the other profile in a difference. It is a child of the node before it, or after `N<` of that node's N-th
-- ancestor. The numbers of frames and N are in base 36: most nodes need few bytes, since there may be millions.
local function write_nodes(put, pause, tree)
  local parts, k, before = {}, 0, -1
  local a, b, frame = tree[1], tree[2], tree.frame
  local plain = memo(function(id) return base36(id) .. ";" end)
  local up = memo(function(n) return base36(n) .. "<" end)
  local function weights(side, node) return (":%.0f,%.0f"):format(side.own[node] or 0, side.count[node] or 0) end
  each_node(tree, function(node, depth)
    if depth <= before then
      k = k + 1
      parts[k] = up[before - depth + 1]
    end
    before, k = depth, k + 1
    if a.count[node] or b and b.count[node] then
      parts[k] = base36(frame[node]) .. weights(a, node) .. (b and weights(b, node) or "") .. ";"
    else
      parts[k] = plain[frame[node]]
    end
    if k >= 1024 then
      put(table.concat(parts, "", 1, k))
      k = 0
    end
  end, pause)
  put(table.concat(parts, "", 1, k))
end

-- Write a tree in the order of time as write_nodes does; `:GAP,0` may follow the weights.
local function write_moments(put, pause, tree)
  local parts, k, before = {}, 0, -1
  local digits = memo(base36)
  for i = 1, tree.n do
    local depth, gap = tree.depth[i], tree.gap[i]
    local up = depth <= before and digits[before - depth + 1] .. "<" or ""
    before, k = depth, k + 1
    if tree.count[i] == 0 and gap == 0 then
      parts[k] = up .. digits[tree.frame[i]] .. ";"
    else
      parts[k] = ("%s%s:%.0f,%.0f%s;"):format(up, digits[tree.frame[i]], tree.own[i], tree.count[i],
        gap ~= 0 and (":%.0f,0"):format(gap) or "")
    end
    if k == 1024 then
      put(table.concat(parts, "", 1, k))
      k = 0
    end
    pause()
  end
  put(table.concat(parts, "", 1, k))
end

local function samples(n) return format.count(text.number(n), "sample") end

local function subtitle(prof, before)
  local parts = { text.amount(text.number(prof.total), prof.unit), samples(prof.sample_count) }
  if prof.duration_ns then parts[#parts + 1] = "in " .. format.ns(text.number(prof.duration_ns)) end
  if text.number(prof.lost) > 0 then parts[#parts + 1] = samples(prof.lost) .. " lost" end
  parts[#parts + 1] = text.why_empty(prof)
  if prof.started then parts[#parts + 1] = os.date("%Y-%m-%d %H:%M:%S", math.floor(prof.started)) end
  local line = table.concat(parts, " \194\183 ")
  return before and ("%s \194\183 before: %s"):format(line, text.amount(text.number(before.total), before.unit)) or line
end

-- The script that ran: the file whose main chunk is the outermost Lua function of most of the weight; nil for a server.
local function script_of(prof, pause)
  local weights, heaviest = {}, nil
  for _, sample in ipairs(prof:samples()) do
    local stack = sample.stack
    for i = #stack, 1, -1 do
      local f = stack[i]
      if f.file then
        if f.func == "main chunk" then
          local sum = (weights[f.file] or 0) + text.number(sample.weight)
          weights[f.file] = sum
          if not heaviest or sum > weights[heaviest] then heaviest = f.file end
        end
        break
      end
    end
    pause()
  end
  return heaviest
end

local function title_of(prof, title, pause)
  if title then return text.line(title) end
  local who = script_of(prof, pause) or prof.comm
  return text.line(("%s%s%s"):format(who and who .. ", " or "", prof.event, prof.pid and (" (%d)"):format(prof.pid) or ""))
end

local check = checks.options("Profile:flamegraph", { diff = function(v)
  if type(v.samples) ~= "function" then return "Profile expected, got table" end
end })

--- Write a profile as a flame graph: one HTML file, which needs no network; or a picture, if the name ends in ".svg".
-- @function Profile:flamegraph
-- @tparam[opt] string path the file; without it the page is returned
-- @tparam[opt] table options
-- @treturn string|boolean the page, or true @fails if the file cannot be written
function M.flamegraph(prof, path, opts)
  opts = check(opts, 3)
  local why = opts.diff and text.other_event(prof, opts.diff)
  if why then argument.raise_in_method("flamegraph", "option 'diff': " .. why, 3) end
  if type(path) == "string" and path:lower():find "%.svg$" then
    return file.deliver(path, "flamegraph", function(put, pause)
      local tree = tree_of({ prof, opts.diff }, pause)
      svg.write(put, pause, tree, each_node, prof, opts.diff, title_of(prof, opts.title, pause), subtitle(prof, opts.diff))
    end)
  end
  return file.deliver(path, "flamegraph", function(put, pause)
    local tree = tree_of({ prof, opts.diff and aligned(opts.diff, prof) }, pause)
    local title = title_of(prof, opts.title, pause)
    local moments
    if prof.moments and not opts.diff then
      local zones = memo(function(zone) return tree.intern(text.line(zone), "zone", {}) end)
      moments = time_order.tree(prof, function(f) return tree.ids[f] end, function(zone) return zones[zone] end, pause)
    end
    local function data()
      put(('{"title":%s,"subtitle":%s,"unit":%s,"diff":%s,"frames":'):format(encode(title),
        encode(subtitle(prof, opts.diff)), encode(prof.unit or ""), tostring(opts.diff ~= nil)))
      for i, f in ipairs(tree.frames) do
        put((i > 1 and "," or "[") .. encode(f))
        pause()
      end
      put '],"nodes":"'
      write_nodes(put, pause, tree)
      if moments then
        put(('","moments_lost":%.0f,"moments":"'):format(text.number(prof.timeline_lost or 0)))
        write_moments(put, pause, moments)
      end
      put '"}'
    end
    page.write(put, title, "perf/profile/report/flamegraph/", { "tree", "table", "script", "state" }, data)
  end, prof.stream)
end

return M
