-- Checks the sources against tools/components.txt: the dependencies that each component may have. Also checks that the files and
-- C functions which comments and pages name exist.
--
--     luajit tools/components.lua          prints what breaks the table; status 1 if anything does
--     luajit tools/components.lua -l       lists the dependencies between components, with the number of files
--
-- A file uses another when it includes it, requires it, or loads it by perf.base.late.
local function lines_of(command)
  local pipe, list = assert(io.popen(command)), {}
  for line in pipe:lines() do list[#list + 1] = line end
  pipe:close()
  return list
end

local problems = {}
local function problem(...) problems[#problems + 1] = (...):format(select(2, ...)) end

-- The table: may[component][other].
local may, order = {}, {}
for line in io.lines "tools/components.txt" do
  line = line:gsub("%s*#.*", "")
  local component, others = line:match "^([%w_]+):%s*(.*)$"
  if component then
    may[component], order[#order + 1] = { base = true, api = component ~= "base" or nil, [component] = true }, component
    for other in others:gmatch "%S+" do may[component][other] = true end
  elseif line ~= "" then
    problem("tools/components.txt: not understood: %s", line)
  end
end

-- The table has no cycle: each component can be placed after those that it uses.
local placed, count = {}, 0
repeat
  local before = count
  for _, component in ipairs(order) do
    local ready = not placed[component]
    for other in pairs(may[component]) do
      if not may[other] then problem("tools/components.txt: %s uses %s, which is no component", component, other) end
      ready = ready and (other == component or placed[other])
    end
    if ready then placed[component], count = true, count + 1 end
  end
until count == before
for _, component in ipairs(order) do
  if not placed[component] then problem("tools/components.txt: %s is part of a cycle", component) end
end

-- Files that belong to no component: they join the components.
local free = { ["csrc/binding/core.c"] = true, ["csrc/binding/web_files.c"] = true, ["csrc/binding/lua_files.c"] = true,
  ["csrc/binding/embed.h"] = true, ["lua/perf/init.lua"] = true,
  ["lua/perf/version.lua"] = true }
local component_of, files = {}, lines_of "find csrc lua -type f | sort"
local is_file = {}
for _, file in ipairs(files) do
  is_file[file] = true
  local component = file:match "^csrc/%w+/([%w_]+)/" or file:match "^lua/perf/([%w_]+)/"
    or file:match "^lua/resty/perf" and "resty" or file == "lua/perf/auto.lua" and "command" or nil
  if component and may[component] then
    component_of[file] = component
  elseif not free[file] then
    problem("%s: lies in no component of tools/components.txt", file)
  end
end

local uses = {} -- "component -> component" -> number of files

local function check_use(file, line, other)
  local from, to = component_of[file], component_of[other]
  if not from or not to or from == to then return end
  local pair = from .. " -> " .. to
  uses[pair] = (uses[pair] or 0) + 1
  if not may[from][to] then problem("%s:%d: %s may not use %s (%s)", file, line, from, to, other) end
end

local may_include = {
  core = { core = true }, binding = { core = true, binding = true }, ext = { core = true, binding = true, ext = true },
  bpf = { core = true, bpf = true },
}

for _, file in ipairs(files) do
  local layer, number = file:match "^csrc/(%w+)/", 0
  for line in io.lines(file) do
    number = number + 1
    if layer then
      local path = line:match '^%s*#%s*include%s*"([^"]+)"'
      local other_layer = path and path:match "^(%w+)/"
      if path and not is_file["csrc/" .. path] then
        problem('%s:%d: write "layer/component/file" instead of "%s"', file, number, path)
      elseif path and not may_include[layer][other_layer] then
        problem("%s:%d: %s may not include %s", file, number, layer, other_layer)
      elseif path then
        check_use(file, number, "csrc/" .. path)
      end
    else
      -- Matches a line of code, also after a comma (pcall) and in text that is run later. A line of a comment is an example.
      local code = (line:match "^%s*%-%-" and "" or line):gsub("%f[%w_]late%f[%s(,]", "require")
      for name in code:gmatch "require[%s(,]*\\?[\"']([%w_.]+)" do
        local path = "lua/" .. name:gsub("%.", "/")
        local other = is_file[path .. ".lua"] and path .. ".lua" or is_file[path .. "/init.lua"] and path .. "/init.lua"
        if other then
          check_use(file, number, other)
        elseif name:match "^perf%..*%w$" and name ~= "perf.core" and not name:match "^perf%.ext%." then
          problem("%s:%d: there is no module %s", file, number, name)
        end
      end
    end
  end
end

-- The names in comments and pages. A path begins with a directory of the tree, or with a component ("event/ring.c", in any
-- layer). A word in capitals stands for any name.
local roots, tails, words = {}, {}, {}
for root in ("csrc lua spec tools mk doc bench examples"):gmatch "%a+" do roots[root] = true end
local named = lines_of "find csrc lua spec tools mk doc bench examples *.md Makefile -type f | sort"
for _, file in ipairs(named) do
  tails[file], tails[file:match "[^/]*/[^/]*$" or file] = true, true
end

-- The part of a line that people read, not code.
local function comment(file, line)
  if file:find "%.md$" then return line end
  if file:find "%.lua$" then return line:match "%-%-(.*)" end
  if file:find "%.[ch]$" or file:find "%.def$" then return line:match "/%*(.*)" or line:match "^%s*%* (.*)" end
  if file:find "%.sh$" or file:find "%.mk$" or file == "Makefile" then return line:match "^%s*#(.*)" end
end

for _, file in ipairs(named) do
  for line in io.lines(file:find "%.[ch]$" and file or file:find "%.def$" and file or "/dev/null") do
    for word in (line:find "^%s*/?%* " and "" or line:gsub("/%*.*", "")):gmatch "p[bf]_[%w_]+" do words[word] = true end
  end
end
for _, file in ipairs(named) do
  local number = 0
  for line in io.lines(file) do
    number = number + 1
    local text = comment(file, line) or ""
    for path in text:gmatch "%f[%w_./~$-]%l[%l%d_-]*/[%l%d_./-]+%.%l+%f[^%w_]" do
      local first, rest = path:match "^(.-)/(.*)$"
      if (roots[first] or may[first] and not rest:find "/") and not tails[path] then
        problem("%s:%d: there is no file %s", file, number, path)
      end
    end
    for word in text:gmatch "%f[%w_]p[bf]_[%l%d_]+%f[^%w_]" do
      if not words[word] then problem("%s:%d: nothing is called %s", file, number, word) end
    end
  end
end

if arg[1] == "-l" then
  local list = {}
  for pair, n in pairs(uses) do list[#list + 1] = ("%-24s %d"):format(pair, n) end
  table.sort(list)
  print(table.concat(list, "\n"))
end
table.sort(problems)
for _, text in ipairs(problems) do io.stderr:write(text, "\n") end
os.exit(#problems == 0 and 0 or 1)
