-- The route of a request: the name under which its counts are summed up.
--
--   "/cart"           that path alone
--   "/static/*"       everything below it
--   "/users/:id"      any one segment at :id
--   {"search", pattern = "^/s/"}   a name and a Lua pattern
--   a function(uri)   that returns the name
--
-- The first rule that matches decides; a path that no rule matches is "(other)". More paths in the list do not make the search
-- longer, but each Lua pattern before the rule that matches is tried. Without a list, the path is the name, and segments that
-- look like keys become ":id". Clients can send any path. So names are short, they are valid UTF-8 (Prometheus refuses a page
-- with other bytes), and their number is bounded (resty.perf.route_names).
local argument = require "perf.base.argument"
local pairs_of = require "perf.base.pairs"
local utf8 = require "perf.base.utf8"

local M = {}

M.OTHER = "(other)"
local CACHED, LONGEST_CACHED = 1000, 1000
local LONGEST = 200

-- The paths of a list form a tree. A path's segments lead from the root to a node, which has these fields:
--   here       the number of the first rule whose path ends at the node
--   below      the number of the first rule whose path has "/*" after the node, and so matches all paths below it
--   children   the nodes to which the next segment leads, by segment
--   any        the node to which any next segment leads (":id")
local function node() return { children = {} } end

local function plant(tree, path, number)
  for segment in path:gmatch "/([^/]*)" do
    if segment == "*" then
      tree.below = tree.below or number
      return
    elseif segment:sub(1, 1) == ":" then
      tree.any = tree.any or node()
      tree = tree.any
    else
      tree.children[segment] = tree.children[segment] or node()
      tree = tree.children[segment]
    end
  end
  tree.here = tree.here or number
end

-- The least number of the rules at and below a node that match a path, or `best` if that is less. The part of the path before
-- index i has led to the node.
local function least(tree, path, i, best)
  if i > #path then return math.min(best, tree.here or best) end
  best = math.min(best, tree.below or best)
  local next = path:find("/", i + 1, true) or #path + 1
  local segment = path:sub(i + 1, next - 1)
  local child = tree.children[segment]
  if child then best = least(child, path, next, best) end
  if tree.any and segment ~= "" then best = least(tree.any, path, next, best) end
  return best
end

-- The end of a set "[...]" of a pattern, which begins at i; nil if there is none.
local function end_of_set(p, i)
  i = p:sub(i + 1, i + 1) == "^" and i + 2 or i + 1
  repeat
    if i > #p then return nil end
    i = i + (p:sub(i, i) == "%" and 2 or 1)
  until p:sub(i, i) == "]"
  return i
end

-- Whether a text is a Lua pattern. string.find raises an error for a malformed one only if it matches that far, which depends on
-- the subject.
local function is_pattern(p)
  local MOST, open, closed, i = 32, {}, {}, 1
  while i and i <= #p do
    local c, next = p:sub(i, i), p:sub(i + 1, i + 1)
    if c == "(" then
      closed[#closed + 1] = false
      open[#open + 1] = #closed
      if #closed > MOST then return false end
      i = i + 1
    elseif c == ")" then
      local n = table.remove(open)
      if not n then return false end
      closed[n], i = true, i + 1
    elseif c == "%" and next == "b" then
      if i + 3 > #p then return false end
      i = i + 4
    elseif c == "%" and next == "f" then
      i = p:sub(i + 2, i + 2) == "[" and end_of_set(p, i + 2)
      i = i and i + 1
    elseif c == "%" and next:find "^%d" then
      if not closed[tonumber(next)] then return false end
      i = i + 2
    else
      if c == "%" then i = next ~= "" and i + 1 or nil elseif c == "[" then i = end_of_set(p, i) end
      i = i and i + (p:find("^[*+?-]", i + 1) and 2 or 1)
    end
  end
  return i and #open == 0
end

local function bad(why, ...) argument.raisef("routes: " .. why, ...) end

local function compile(list)
  local names, patterns, tree, last = {}, {}, node(), #list
  for k in pairs_of(list) do
    if type(k) ~= "number" or k < 1 or k > last then bad("unknown field '%s' in a list", tostring(k)) end
  end
  for i = 1, last do
    local rule = list[i]
    local name, pattern = rule, nil
    if type(rule) == "table" then
      name, pattern = rule[1], rule.pattern
      for k in pairs_of(rule) do
        if k ~= 1 and k ~= "pattern" then bad("rule %d: unknown field '%s'", i, tostring(k)) end
      end
      if type(pattern) ~= "string" or not is_pattern(pattern) then bad("rule %d: not a Lua pattern", i) end
    end
    if type(name) ~= "string" then bad("rule %d: name expected, got %s", i, type(name)) end
    names[i] = name
    if pattern then
      patterns[#patterns + 1] = { number = i, pattern = pattern }
    else
      if name:sub(1, 1) ~= "/" then bad("'%s': a path begins with '/'", name) end
      if name:find("/*/", 1, true) then bad("'%s': '*' stands at the end", name) end
      plant(tree, name, i)
    end
  end
  return function(uri)
    local best = uri:sub(1, 1) == "/" and least(tree, uri, 1, math.huge) or math.huge
    for i = 1, #patterns do
      local rule = patterns[i]
      if rule.number > best then break end
      if uri:find(rule.pattern) then return names[rule.number] end
    end
    return names[best]
  end
end

-- 12, 4f1c..., and UUIDs are keys; "v2" and "cafe" are words.
local function is_key(segment)
  return segment:find "^%d+$" or #segment >= 8 and segment:find "^[%x-]+$" and segment:find "%d"
end

local function by_path(uri)
  return (uri:gsub("[^/]+", function(segment) return is_key(segment) and ":id" or nil end))
end

-- A name that may be shown and stored: short, in UTF-8, and without control characters, since a zero byte separates the parts of
-- a key, and the others end lines or reach terminals. "(other)" for names that are too long.
function M.valid(name)
  if type(name) ~= "string" or name == "" or #name > LONGEST then return M.OTHER end
  name = utf8.valid(name):gsub("%c", "\239\191\189")
  return #name <= LONGEST and name or M.OTHER
end

-- A function of a text that remembers its results. Long texts come from clients that make them up, and would fill the memory.
local function remembering(f)
  local cache, cached = {}, 0
  return function(text)
    local result = cache[text]
    if not result then
      result = f(text)
      if #text > LONGEST_CACHED then return result end
      if cached >= CACHED then cache, cached = {}, 0 end
      cache[text], cached = result, cached + 1
    end
    return result
  end
end

-- The same for the name of a peer, which may be empty.
M.peer = remembering(function(name) return name == "" and "" or M.valid(name) end)

-- The function that finds routes.
-- @param[opt] routes list or function
-- @param[opt] failed called with the first error of the function, or of a pattern that is too complex for a path: such requests
-- are those of "(other)"
-- @return find(uri), which returns a name; the set of the names in the list. Raises for an invalid list.
function M.new(routes, failed)
  local rule, configured = routes, {}
  if routes == nil then
    rule = by_path
  elseif type(routes) == "table" then
    rule = compile(routes)
    for _, name in ipairs(routes) do configured[M.valid(type(name) == "table" and name[1] or name)] = true end
  elseif type(routes) ~= "function" then
    bad("list or function expected, got %s", type(routes))
  end

  return remembering(function(uri)
    local ok, name = pcall(rule, uri)
    if not ok and failed then
      failed(tostring(name))
      failed = nil
    end
    return M.valid(ok and name)
  end), configured
end

return M
