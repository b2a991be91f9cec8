-- The reference: collects the public docstrings of the sources, and checks them against the table of the API.
--
--     luajit tools/reference.lua           prints the errors in docstrings, and public names that make faults does not call;
--                                          status 1 if there are any
--     luajit tools/reference.lua -c        counts the documented names
--     luajit tools/reference.lua DIR       also writes LDoc's input into DIR: a file for each component, and config.ld
--
-- A docstring begins with three dashes in Lua, with a slash and three stars in C. Its text begins with the summary of the API's
-- table. Only public functions, methods and classes have one; all other comments begin with two dashes. The tags are LDoc's,
-- with types: @tparam, @treturn, @raise, @usage, @see, @since. There is also "@fails TEXT": returns nil, a message and the
-- errno's name. Without @since, it was in 0.1.0.
--
-- The code that follows a docstring gives the name, or @function does, with commas between several names (a C function l_NAME is
-- the method NAME of the file's class). "@classmod CLASS" in the header of a file and "@type CLASS" before the table of its
-- methods begin a class. "@module NAME" in the header of a file adds the text above it to the introduction of the component's
-- page.
package.path = ("lua/?.lua;lua/?/init.lua;%slua/?.lua;"):format(arg[0]:match "^(.*)tools/" or "") .. package.path

local problems, items, classes, intros = {}, {}, {}, {}
local function problem(at, ...) problems[#problems + 1] = at .. ": " .. (...):format(select(2, ...)) end

local tags = {}
for tag in ("module classmod type function tparam treturn fails raise usage see since"):gmatch "%S+" do
  tags[tag] = true
end

-- The prefix of a module's functions, by file: rows of the API table.
local api, declared, home = require "perf.api", require "perf.api.options", {}
local checks = require "perf.api.check"
for _, group in ipairs(api) do
  local path = "lua/perf/" .. group.module:gsub("%.", "/")
  local prefix = group.name and "perf." .. group.name or "perf"
  home[path .. ".lua"], home[path .. "/init.lua"] = prefix, prefix
end
home["lua/resty/perf.lua"] = "resty.perf"

-- A docstring: its text, and its tags, an array of {name=, mods=, text=}.
local function parse(lines, at)
  local doc, last = { text = {}, at = at }, nil
  for _, line in ipairs(lines) do
    line = line:gsub("%s@(%a+)", function(tag) return tags[tag] and "\n@" .. tag or nil end)
    for part in (line .. "\n"):gmatch "(.-)\n" do
      local tag, mods, text = part:match "^%s*@(%a+)(%b[])%s*(.*)$"
      if not tag then tag, text = part:match "^%s*@(%a+)%s*(.*)$" end
      if tag then
        if not tags[tag] then problem(at, "the tag @%s is not known here", tag) end
        last = { name = tag, mods = mods or "", text = text }
        doc[#doc + 1] = last
        doc[tag] = doc[tag] or last
      elseif last then
        last.text = last.text .. (last.name == "usage" and "\n" .. part or " " .. part:match "^%s*(.-)%s*$")
      else
        doc.text[#doc.text + 1] = part
      end
    end
  end
  return doc
end

-- The docstrings of a file, each with the line of code that follows it.
local function docstrings(path)
  local list, lines, at, in_c = {}, nil, nil, path:match "%.c$"
  local number, waiting = 0, nil
  for line in io.lines(path) do
    number = number + 1
    if waiting and line:match "^[%a#]" then waiting.code, waiting = line, nil end
    local done
    if in_c then
      local first = line:match "^%s*/%*%*%*%s?(.*)$"
      if first then lines, at = {}, number end
      if lines then
        local text = first or line:match "^%s*%*%s(.*)$" or line:match "^%s*%*?(.*)$"
        done = text:find("*/", 1, true)
        text = text:gsub("%s*%*/.*", "")
        lines[#lines + 1] = text
      end
    else
      local first = not lines and (line:match "^%s*%-%-%-$" or line:match "^%s*%-%-%-([^%-].*)$")
      if first then
        lines, at = { (first:gsub("^%-*%s?", "")) }, number
      elseif lines and line:match "^%s*%-%-" then
        lines[#lines + 1] = line:match "^%s*%-%-%s?(.*)$"
      elseif lines then
        done = true
      end
    end
    if done then
      local doc = parse(lines, path .. ":" .. at)
      list[#list + 1], lines = doc, nil
      if in_c then waiting = doc else doc.code = line end
    end
  end
  return list
end

local function component_of(path)
  return path:match "^csrc/%w+/([%w_]+)/" or path:match "^lua/perf/([%w_]+)/" or path:match "^lua/resty/" and "resty"
    or path == "lua/perf/auto.lua" and "command" or "base"
end

local function add_class(name, component, doc)
  if classes[name] then problem(doc.at, "the class %s is already at %s", name, classes[name].at) end
  classes[name], doc.component, doc.class_name = doc, component, name
end

-- First the classes of all files, then their members.
local files = {}
for path in io.popen("find lua csrc/binding csrc/ext -name '*.lua' -o -name '*.c' | sort"):lines() do
  local list = docstrings(path)
  local file = { path = path, list = list, types = {}, component = component_of(path) }
  for _, doc in ipairs(list) do
    local class = doc.classmod or doc.type
    if class then
      class = class.text:match "%S+"
      if doc.classmod then file.class = class else file.types[doc.code:match "^%s*local%s+([%w_]+)" or class] = class end
      if doc.text[1] then add_class(class, file.component, doc) end
    elseif doc.module then
      local page = path == "lua/perf/init.lua" and "index" or file.component
      local intro = intros[page] or {}
      intros[page] = intro
      table.insert(intro, path:match "/init%.lua$" and 1 or #intro + 1, doc)
    end
  end
  files[#files + 1] = file
end

-- The name of a parameter that is a table of options, or whose last value may be one.
local function options_of(tag)
  return tag.name == "tparam" and (tag.text:match "^%S+%s+(opt%l+)" or tag.text:match "a table of (options)$")
end

-- The options of a function with such a parameter are rows of perf.api.options, and no others are.
local function check_options(doc)
  local found
  for _, tag in ipairs(doc) do
    local name = options_of(tag)
    found = found or name
    if name and not declared[doc.key] then problem(doc.at, "%s has no options in perf.api.options", doc.key) end
    if name and tag.text:find(name .. ".", 1, true) then problem(doc.at, "%s: options belong in perf.api.options", doc.key) end
  end
  if declared[doc.key] and not found then problem(doc.at, "%s has options in perf.api.options, but no parameter", doc.key) end
end

local function add_item(file, doc)
  local code, name, class = doc.code or "", doc["function"] and doc["function"].text:match "[^%s,]+", nil
  local others = name and doc["function"].text:match ",%s*(.*)"
  local owner, sep, method = code:match "^%s*function ([%w_]+)([.:])([%w_]+)%("
  if not owner then owner, sep, method = code:match "^%s*([%w_]+)(%.)([%w_]+) = " end
  if name then
    class = name:match "^(%u%w+):"
    if not class and not name:find(".", 1, true) then class = file.class end
    name = name:match ":(.*)" or name
  elseif file.path:match "%.c$" then
    name, class = code:match "%f[%w_]l_([%w_]+)%(lua_State", file.class
  elseif owner then
    name = method
    class = file.types[owner] or classes[owner] and owner or (sep == ":" or owner == "methods") and file.class or nil
    if not class and not home[file.path] then
      return problem(doc.at, "%s.%s is not public: begin its comment with two dashes", owner, method)
    end
    if not class then name = home[file.path] .. "." .. name end
  end
  if not name or not class and not name:find(".", 1, true) then
    return problem(doc.at, "the subject of this docstring is unknown: add @function, or begin it with two dashes")
  end
  if class and not classes[class] then return problem(doc.at, "the class %s has no docstring", class) end
  local key = class and class .. ":" .. name or name
  if items[key] then problem(doc.at, "%s is already at %s", key, items[key].at) end
  doc.key, doc.name, doc.of, doc.component = key, name, class, class and classes[class].component or file.component
  items[key], items[#items + 1] = doc, doc
  check_options(doc)
  if others then
    local copy = {}
    for k, v in pairs(doc) do copy[k] = v end
    copy["function"] = { name = "function", text = others }
    add_item(file, copy)
  end
end

for _, file in ipairs(files) do
  for _, doc in ipairs(file.list) do
    if not (doc.classmod or doc.type or doc.module) then add_item(file, doc) end
  end
end

-- Options are checked by their declarations alone, and every declaration is that of a check. So no option lacks a page, and no
-- page has an option that does not exist.
local is_checked = {}
for _, file in ipairs(files) do
  local number = 0
  for code in io.lines(file.component == "api" and "/dev/null" or file.path) do
    number = number + 1
    for name in code:gmatch 'checks%.%a+[%( ]*"([%w_.:]+)"' do
      if not declared[name] then problem(file.path .. ":" .. number, "%s is not in perf.api.options", name) end
    end
    for name in code:gmatch '"([%w_.:]+)"' do is_checked[declared[name] or name] = true end
    if code:find "[\"']unknown option" and file.component ~= "command" then
      problem(file.path .. ":" .. number, "declare options in perf.api.options, and check them by perf.api.check")
    end
  end
end
for name, rows in pairs(declared) do
  if not is_checked[rows] then problem("lua/perf/api/options.lua", "nothing checks the options of %s", name) end
end

-- Every entry of the API table must be documented, and nothing else. The functions of resty.perf are those in its guide.
local public, summaries, public_class, fields_of = {}, {}, {}, {}
local function publish(key, row) public[key], summaries[key] = row[2], row[3] end
for _, group in ipairs(api) do
  for _, row in ipairs(group) do publish((group.name and "perf." .. group.name or "perf") .. "." .. row[1], row) end
end
local guide = assert(io.open "doc/openresty.md"):read "*a"
local methods, previous = guide:match "\nMethods\n(.*)" or "", nil
local described = guide:match "\nOptions\n(.*)" or methods
for name, rows in pairs(declared) do
  for _, row in ipairs(name:find "^resty" and rows or {}) do
    if not described:find("%f[%w_]" .. row[1] .. "%f[^%w_]") then
      problem("doc/openresty.md", "the option '%s' of %s is not mentioned", row[1], name)
    end
  end
end
for line in methods:gmatch "[^\n]+" do
  for name in (line:find "^%-%-%-" and previous or ""):gmatch "[%w_]+" do public["resty.perf." .. name] = true end
  previous = line
end
for _, rows in ipairs(require "perf.api.classes") do
  local class = rows.class
  public_class[class], fields_of[class] = true, rows.fields
  if classes[class] then
    for _, row in ipairs(rows) do
      local name = row[1]
      if name:match "^[%a_][%w_]*$" then publish(class .. ":" .. name, row) end
    end
  else
    problem("lua/perf/api/classes.lua", "the class %s has no docstring", class)
  end
end
for name, doc in pairs(classes) do
  if not public_class[name] then problem(doc.at, "the class %s is not in perf.api.classes", name) end
end
for key in pairs(public) do
  if not items[key] then problem("lua/perf/api", "%s has no docstring", key) end
end
for key in pairs(declared) do
  if not public[key] then problem("lua/perf/api/options.lua", "%s is not in perf.api", key) end
end
-- The arguments of a row, such as "([events,] fn, ...)" or "(name or object)", and of a docstring: [ stands before optional ones.
local function arguments_of_row(text)
  local list = {}
  for bracket, name in text:gmatch "(%[?)([%w_.]+)[%w_ ]*" do list[#list + 1] = bracket .. name end
  return table.concat(list, ", ")
end
local function arguments_of(doc)
  local list = {}
  for _, tag in ipairs(doc) do
    local name = tag.name == "tparam" and tag.text:match "^%S+%s+([%w_.]+)"
    if name and (name == "..." or not name:find(".", 1, true)) then
      list[#list + 1] = (tag.mods:find "opt" and "[" or "") .. name
    end
  end
  return table.concat(list, ", ")
end
-- Whether a docstring begins with the summary that perf.help shows.
local function begins_with(doc, summary)
  local text, stem = table.concat(doc.text, " "):gsub("`", ""):gsub("%s+", " "), summary:gsub("%.$", "")
  return text:sub(1, #stem) == stem and not text:find("^%w", #stem + 1)
end
for _, doc in ipairs(items) do
  local row = public[doc.key]
  if summaries[doc.key] and not begins_with(doc, summaries[doc.key]) then
    problem(doc.at, "%s does not begin with its summary in perf.api: %s", doc.key, summaries[doc.key])
  end
  if not row then
    problem(doc.at, "%s is not in %s", doc.key, doc.key:find "^resty" and "doc/openresty.md" or "perf.api")
  elseif row ~= true and arguments_of(doc) ~= arguments_of_row(row) then
    problem(doc.at, "%s has the arguments (%s), but (%s) in perf.api", doc.key, arguments_of(doc), arguments_of_row(row))
  end
end

-- Every entry has a row by which `make faults` calls it. The rows are read without what they use, so that this needs no build; a
-- tree without specs has none.
local nothing = setmetatable({}, { __index = function(t) return t end, __call = function(t) return t end })
local function fault_rows()
  table.insert(rawget(package, "searchers") or rawget(package, "loaders"), 2, function(name)
    return not name:find "^spec%.fault" and function() return nothing end or nil
  end)
  package.path = "./?.lua;" .. package.path
  local known = {}
  for _, row in ipairs(require "spec.fault.rows") do known[row.name] = true end
  return known
end
local specs = io.open "spec/fault/rows.lua"
if specs then
  specs:close()
  local known = fault_rows()
  for key in pairs(public) do
    if not known[key] then problem("spec/fault/rows", "%s has no row", key) end
  end
end

table.sort(items, function(a, b) return a.key < b.key end)
table.sort(problems)
for _, p in ipairs(problems) do print(p) end

local function sorted(t)
  local names = {}
  for name in pairs(t) do names[#names + 1] = name end
  table.sort(names)
  return names
end

if arg[1] == "-c" then
  local count, functions = {}, 0
  for _, doc in ipairs(items) do
    if doc.of then count[doc.of] = (count[doc.of] or 0) + 1 else functions = functions + 1 end
  end
  print(("%d functions, %d methods of %d classes"):format(functions, #items - functions, #sorted(classes)))
  for _, class in ipairs(sorted(classes)) do print(("%4d  %s"):format(count[class] or 0, class)) end
end

-- The files that LDoc reads.
local function write(dir)
  local summary = {}
  for line in io.lines "tools/components.txt" do
    local component, text = line:match "^([%w_]+):.-#%s*(.-)%s*$"
    if component then summary[component] = text:match "^[%l.]*perf" and text or text:sub(1, 1):upper() .. text:sub(2) end
  end
  local pages, anchors = {}, {}
  for _, doc in ipairs(items) do
    local page = pages[doc.component] or { functions = {}, classes = {} }
    pages[doc.component] = page
    anchors[doc.key] = doc.component .. ".html#" .. doc.key
    if doc.of then
      page.classes[doc.of] = page.classes[doc.of] or {}
      table.insert(page.classes[doc.of], doc)
    else
      table.insert(page.functions, doc)
    end
  end
  for name, doc in pairs(classes) do
    local page = pages[doc.component] or { functions = {}, classes = {} }
    pages[doc.component] = page
    page.classes[name] = page.classes[name] or {}
    anchors[name] = doc.component .. ".html#Class_" .. name
  end
  -- Names and pages become links, except in examples.
  local function linked(text)
    if text:find "^    " then return text end
    text = text:gsub("`([%w_.:]+)`", function(name) return anchors[name] and "@{" .. name .. "}" end)
    return (text:gsub("doc/([%w-]+)%.md", "[%0](../topics/%1.md.html)"))
  end
  local preface = linked(table.concat(intros.index[1].text, "\n"))
  intros.index = nil
  for component in pairs(intros) do pages[component] = pages[component] or { functions = {}, classes = {} } end

  local out
  local function line(...) out:write("-- ", linked((...):format(select(2, ...))), "\n") end
  local function text_of(doc, fields)
    for i, text in ipairs(doc.text) do out:write(i == 1 and "--- " or "-- ", linked(text), "\n") end
    if not fields then return end
    line "" line "Fields:" line ""
    for _, row in ipairs(fields) do line("* `%s` (%s): %s", row[1], row[2], row[3]) end
  end
  local function options_lines(name, rows)
    for _, row in ipairs(rows) do
      line("@tparam%s %s %s.%s %s", row.required and "" or "[opt]", row[2], name, row[1], checks.help(row))
      if row.options then options_lines(name .. "." .. row[1], row.options) end
    end
  end
  local function function_of(doc)
    text_of(doc)
    line("@function %s", doc.name)
    local group, since = doc.fails and "[1]" or "", "0.1.0"
    for _, tag in ipairs(doc) do
      if tag.name == "treturn" then
        line("@treturn%s %s", tag.mods ~= "" and tag.mods or group, tag.text)
      elseif tag.name == "fails" then
        local codes = tag.text:find '^"'
        line("@treturn[2] nil%s", (codes or tag.text == "") and "" or " " .. tag.text)
        line "@treturn[2] string the message"
        line("@treturn[2] string the errno's name%s", codes and ": " .. tag.text or "")
      elseif tag.name == "since" then
        since = tag.text
      elseif tag.name ~= "function" then
        line("@%s%s %s", tag.name, tag.mods, tag.name == "usage" and tag.text:gsub("\n", "\n-- ") or tag.text)
        local name = options_of(tag)
        if name then options_lines(name, declared[doc.key]) end
      end
    end
    line("@since %s", since)
    out:write("\n")
  end
  local index = {}
  os.execute("mkdir -p " .. dir)
  for _, component in ipairs(sorted(pages)) do
    local page, links = pages[component], {}
    out = assert(io.open(dir .. "/" .. component .. ".lua", "w"))
    out:write("--- ", summary[component] or component, ".\n")
    for _, doc in ipairs(intros[component] or {}) do
      line ""
      for _, text in ipairs(doc.text) do line("%s", text) end
    end
    line("@module %s", component)
    out:write "\n"
    local function link(name) links[#links + 1] = ("[%s](components/%s)"):format(name, anchors[name]) end
    for _, name in ipairs(sorted(page.classes)) do link(name) end
    for _, doc in ipairs(page.functions) do link(doc.key) function_of(doc) end
    for _, name in ipairs(sorted(page.classes)) do
      text_of(classes[name], fields_of[name])
      line("@type %s", name)
      out:write "\n"
      for _, doc in ipairs(page.classes[name]) do function_of(doc) end
    end
    out:close()
    index[#index + 1] = ("* [**%s**](components/%s.html): %s\n"):format(component, component, table.concat(links, ", "))
  end
  out = assert(io.open(dir .. "/config.ld", "w"))
  out:write(io.open("config.ld"):read "*a", "\nfull_description = [==[\n", preface, "\n\n", table.concat(index), "]==]\n")
  for _, name in ipairs(sorted(anchors)) do out:write(("link(%q, %q)\n"):format(name, anchors[name])) end
  out:write "link = nil\n"
  out:close()
end

if arg[1] and arg[1] ~= "-c" and #problems == 0 then write(arg[1]) end
os.exit(#problems == 0 and 0 or 1)
