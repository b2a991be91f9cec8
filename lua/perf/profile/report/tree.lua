-- Call trees: all stacks from their outermost frames, or the callers and the callees of one function.
--
-- In the text, a node's only child is below it at the same depth, so that long chains of calls stay readable; of several
-- children each has a mark, and its own children are further to the right.
local argument = require "perf.base.argument"
local brief = require "perf.base.brief"
local checks = require "perf.api.check"
local format = require "perf.base.format"
local memo = require "perf.base.memo"
local pairs_of = require "perf.base.pairs"
local suggest = require "perf.base.suggest"
local text = require "perf.profile.report.frame_names"
local top = require "perf.profile.report.top"

local M = {}

local SHOWN = 50 -- rows of the text, if no number is given

local Tree = {}
Tree.__index = Tree

local labels = { ["function"] = top.function_of, line = function(f) return f.name end }

-- A tree with an empty root.
local function grow(name)
  local under = {} -- {[node] = {[name] = child}}
  local function node_of(label, f)
    local node = { name = label, self = 0, total = 0, count = 0, kind = f.kind, file = f.file, func = f.func,
      line = f.linedefined, children = {} }
    under[node] = {}
    return node
  end
  local root = node_of(name, {})
  return root, function(node, label, f)
    local child = under[node][label]
    if not child then
      child = node_of(label, f)
      under[node][label], node.children[#node.children + 1] = child, child
    end
    return child
  end
end

local function before(a, b)
  if a.total ~= b.total then return a.total > b.total end
  return a.name < b.name
end

-- Sort all children, and return the nodes in the order of their weight, each after its parent, with their depths.
local function sorted(root)
  local list, depth = { root }, { [root] = 0 }
  for _, node in ipairs(list) do -- the list grows meanwhile
    table.sort(node.children, before)
    for _, child in ipairs(node.children) do list[#list + 1], depth[child] = child, depth[node] + 1 end
  end
  local place = {}
  for i, node in ipairs(list) do place[node] = i end
  table.sort(list, function(a, b)
    if a.total ~= b.total then return a.total > b.total end
    return place[a] < place[b]
  end)
  return list
end

local function finish(prof, root, sum, fields, opts)
  local tree = top.whole(prof, sum)
  for name, v in pairs_of(fields) do tree[name] = v end
  tree.root, tree.n = root, opts.n
  tree.nodes = sorted(root)
  return setmetatable(tree, Tree)
end

-- Add the weight of stack[from..to], in steps of 1 or -1, to a tree.
local function add(root, child_of, label, sample, from, to, step)
  local weight, count, stack = text.number(sample.weight), text.number(sample.count or 1), sample.stack
  local node = root
  root.total = root.total + weight
  for i = from, to, step do
    local f = stack[i]
    node = child_of(node, label(f), f)
    node.total = node.total + weight
  end
  node.self, node.count = node.self + weight, node.count + count
end

local check_tree = checks.options "Profile:tree"

--- The stacks as a tree of calls, from the outermost functions.
-- @function Profile:tree
-- @tparam[opt] table options
-- @treturn table `{root=, total=, unit=, event=}`, which prints as a tree. `root` is a node `{name=, self=, total=, count=,
-- kind=, file=, func=, line=, children=}`: `total` the weight of the stacks with this way from the root, `self` of those that end
-- there, `count` the samples of these, `line` where the function begins, `children` an array of nodes, the heaviest first
-- @since 0.2.0
function M.tree(prof, opts)
  opts = check_tree(opts, 2)
  local root, child_of = grow "all"
  local sum = 0
  for _, sample in ipairs(prof:samples()) do
    local weight, at = text.number(sample.weight), root
    sum = sum + weight
    if sample.zone then
      at = child_of(root, sample.zone, { kind = "zone" })
      root.total = root.total + weight
    end
    add(at, child_of, labels[opts.by], sample, #sample.stack, 1, -1)
  end
  return finish(prof, root, sum, {}, opts)
end

-- A function that tells whether a frame is of a function: the name that tables show, the function's own, or "file:line".
local function matcher(name)
  return function(f)
    return f.func == name or top.function_of(f) == name or f.name == name
      or f.file ~= nil and ("%s:%d"):format(f.file, f.linedefined or 0) == name
  end
end

local function names_in(prof)
  local names, seen = {}, {}
  for _, sample in ipairs(prof:samples()) do
    for _, f in ipairs(sample.stack) do
      if f.func and not seen[f.func] then seen[f.func], names[#names + 1] = true, f.func end
    end
  end
  return names
end

-- The tree from the outermost frame of a function in each stack to one end of the stack: each sample counts once.
local function from_function(prof, method, name, opts)
  if type(name) ~= "string" then argument.raise_in_method(method, "string expected, got " .. type(name), 2) end
  local is = memo(matcher(name))
  local root, child_of = grow(name)
  local sum, self, matched, seen = 0, 0, {}, {}
  for _, sample in ipairs(prof:samples()) do
    local stack, at = sample.stack, nil
    sum = sum + text.number(sample.weight)
    for i = #stack, 1, -1 do
      if is[stack[i]] then
        at = i
        break
      end
    end
    if at then
      local label = top.function_of(stack[at])
      if not seen[label] then seen[label], matched[#matched + 1] = true, label end
      if is[stack[1]] then self = self + text.number(sample.weight) end
      if method == "callers" then
        add(root, child_of, labels[opts.by], sample, at + 1, #stack, 1)
      else
        add(root, child_of, labels[opts.by], sample, at - 1, 1, -1)
      end
    end
  end
  if #matched == 0 then
    return nil, brief(("no function is called '%s'%s"):format(name, suggest.hint(name, names_in(prof)))), "ENOENT"
  end
  table.sort(matched)
  root.name = table.concat(matched, ", ")
  return finish(prof, root, sum, { functions = matched, self = self, of = method }, opts)
end

local check_callers, check_callees = checks.options "Profile:callers", checks.options "Profile:callees"

--- The callers of a function, as a tree. Its root is the function, and the children of a node are its callers.
-- @function Profile:callers
-- @tparam string name the function: its name (`parse`), its name in the tables (`parse app.lua:10`), or where it begins
-- (`app.lua:10`)
-- @tparam[opt] table options
-- @treturn table as of `tree`, with `functions`, the names of the functions that are meant, and `self`, their own weight. A stack
-- in which the function called itself counts once, from the outermost call @fails "ENOENT": there is no such function
-- @since 0.2.0
function M.callers(prof, name, opts)
  opts = check_callers(opts, 3)
  return from_function(prof, "callers", name, opts)
end

--- The callees of a function, as a tree: the functions that it calls. Its root is the function.
-- @function Profile:callees
-- @tparam string name as for `callers`
-- @tparam[opt] table options
-- @treturn table as of `callers` @fails "ENOENT": there is no such function
-- @since 0.2.0
function M.callees(prof, name, opts)
  opts = check_callees(opts, 3)
  return from_function(prof, "callees", name, opts)
end

-- The rows of the heaviest nodes, from the root on.
local function rows_of(tree, shown)
  local is_shown, rows = {}, {}
  for i = 1, shown do is_shown[tree.nodes[i]] = true end
  local todo = { { tree.root, "", "" } }
  while #todo > 0 do
    local node, mark, indent = (table.unpack or unpack)(table.remove(todo))
    local cells = { text.amount(node.total, tree.unit), text.percent(node.total, tree.whole) }
    if tree.of ~= "callers" then
      local self = node == tree.root and tree.self or node.self
      cells[3], cells[4] = text.amount(self, tree.unit), text.percent(self, tree.whole)
    end
    cells[#cells + 1] = mark .. text.line(node.name)
    rows[#rows + 1] = cells
    local children = {}
    for _, child in ipairs(node.children) do
      if is_shown[child] then children[#children + 1] = child end
    end
    for i = #children, 1, -1 do
      local last = i == #children
      if #children == 1 then
        todo[#todo + 1] = { children[i], indent, indent }
      else
        todo[#todo + 1] = { children[i], indent .. (last and "`- " or "|- "), indent .. (last and "   " or "|  ") }
      end
    end
  end
  return rows
end

function Tree.__tostring(tree)
  local shown = math.min(tree.n or SHOWN, #tree.nodes)
  local rows = rows_of(tree, shown)
  if tree.of == "callers" then
    table.insert(rows, 1, { "total", "%", "callers" })
  else
    table.insert(rows, 1, { "total", "%", "self", "%", tree.of or "function" })
  end
  local left, width = #tree.nodes - shown, #rows[1]
  if left > 0 then
    rows[#rows + 1] = {}
    for i = 1, width do rows[#rows][i] = i < width and "" or ("... and %d lighter ones"):format(left) end
  end
  local table_text = format.align(rows, { true, true, width > 3, width > 3 },
    width > 3 and { { 5, 30 }, { 3, 0 }, { 1, 0 }, { 4, 0 }, { 5, 8 } } or { { 3, 24 }, { 1, 0 }, { 3, 8 } })
  return tree.of and table_text or top.title(tree) .. "\n\n" .. table_text
end

return M
