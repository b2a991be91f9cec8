-- The plugin that a source file belongs to, and the sums of a profile by plugin, file and line.
local M = {}

local uv = vim.uv or vim.loop
local here = debug.getinfo(1, "S").source:match "^@(.*)/lua/perf/nvim/plugins%.lua$"

M.RUNTIME, M.CONFIG, M.COMMANDS = "(Neovim runtime)", "(config)", "(commands)"
M.NO_LUA = "(Neovim and Vimscript)" -- samples without a Lua function

-- Patterns of the directory of a plugin in a path, by the conventions of packages and plugin managers.
local conventions = { "^.*/pack/[^/]+/start/[^/]+", "^.*/pack/[^/]+/opt/[^/]+", "^.*/lazy/[^/]+", "^.*/plugged/[^/]+",
  "^.*/bundle/[^/]+", "^.*/repos/[^/]+/[^/]+/[^/]+" }

-- A directory as a prefix of paths: the name as it is, and the name without symbolic links.
local function prefixes(dir)
  local names, real = { (dir:gsub("/+$", "")) .. "/" }, uv.fs_realpath(dir)
  if real and real .. "/" ~= names[1] then names[2] = real .. "/" end
  return names
end

-- Add the directories to an array of {prefix=, name=}.
local function add(list, dir, name)
  for _, prefix in ipairs(prefixes(dir)) do list[#list + 1] = { prefix = prefix, name = name } end
end

local general = { nvim = true, vim = true, runtime = true, plugin = true, plugins = true }

-- The name of a plugin in a directory of 'runtimepath'. A name that says nothing gets that of its parent too.
local function name_of(dir)
  local parent, name = dir:match "([^/]*)/+([^/]+)$"
  if name == "site" then return "(site)" end
  return general[name] and parent ~= "" and parent .. "/" .. name or name or dir
end

--- The path of a file that the command line of this Neovim names: the working directory may have changed since.
function M.named(file)
  local path = ("%s/%s"):format(vim.env.PWD or "", file)
  return not file:find "^/" and vim.fn.filereadable(path) == 1 and path or file
end

--- The directories and files of this Neovim with the plugins that they belong to, as plain data.
function M.places()
  local list = {}
  local config = vim.fn.stdpath "config"
  add(list, here, "perf.nvim")
  add(list, vim.env.VIMRUNTIME, M.RUNTIME)
  add(list, config, M.CONFIG)
  for _, dir in ipairs(vim.api.nvim_list_runtime_paths()) do
    dir = dir:gsub("/+$", ""):gsub("/after$", "")
    if dir ~= config and dir:sub(1, #vim.env.VIMRUNTIME) ~= vim.env.VIMRUNTIME then add(list, dir, name_of(dir)) end
  end
  local init = vim.env.MYVIMRC or ""
  if init ~= "" and not init:find("^/usr/") then add(list, vim.fn.fnamemodify(init, ":p:h"), M.CONFIG) end
  for i, entry in ipairs(list) do entry.rank = i end
  table.sort(list, function(a, b)
    if #a.prefix ~= #b.prefix then return #a.prefix > #b.prefix end
    return a.rank < b.rank
  end)
  local files = {}
  for i, word in ipairs(vim.v.argv) do -- the files of -u and -S
    local file = (word == "-u" or word == "-S") and vim.v.argv[i + 1]
    if file then files[vim.fn.fnamemodify(M.named(file), ":p")] = M.CONFIG end
  end
  return { dirs = list, files = files }
end

-- The plugin of a file, and the file's name in it.
local function place_of(places, file)
  if file:find "^%[string" then return M.COMMANDS, file end
  if not file:find "^/" then
    local module = file:match "^(vim/.*)%.lua$" or file:match "^(nvim/.*)%.lua$"
    if module then return M.RUNTIME, (module:gsub("/", ".")) end
    file = vim.fn.fnamemodify(file, ":p")
  end
  if places.files[file] then return places.files[file], vim.fn.fnamemodify(file, ":t") end
  local known
  for _, dir in ipairs(places.dirs) do
    if file:sub(1, #dir.prefix) == dir.prefix then
      known = dir
      break
    end
  end
  -- Packages are also in the directories of the configuration and of the site.
  if not known or known.name == "(site)" or known.name == M.CONFIG then
    local above = file:match "^(.*/)lua/" or file -- without the module's own directories, whose names may match too
    for _, pattern in ipairs(conventions) do
      local dir = above:match(pattern .. "/")
      if dir and (not known or #dir > #known.prefix) then
        if known and known.name == M.CONFIG and not dir:find("/pack/", 1, true) then break end
        return dir:match "([^/]+)/$", file:sub(#dir + 1)
      end
    end
  end
  if known then return known.name, (file:sub(#known.prefix + 1):gsub("^/+", "")) end
  return "(other)", file
end

--- A function that gives a file's plugin and its name in the plugin, from `places()`.
function M.namer(places)
  local known = {}
  return function(file)
    local found = known[file]
    if not found then
      found = { place_of(places, file) }
      known[file] = found
    end
    return found[1], found[2]
  end
end

-- Sums --------------------------------------------------------------------------------------------------------------

local function tally()
  local rows, by_key, stamp_of = {}, {}, {}
  local function row_of(key, new)
    local row = by_key[key]
    if not row then
      row = new
      row.self, row.total, row.count = 0, 0, 0
      by_key[key], rows[#rows + 1] = row, row
    end
    return row
  end
  local function add_total(row, weight, stamp)
    if stamp_of[row] ~= stamp then stamp_of[row], row.total = stamp, row.total + weight end
  end
  return rows, row_of, add_total
end

local function sort(rows)
  table.sort(rows, function(a, b)
    if a.self ~= b.self then return a.self > b.self end
    if a.total ~= b.total then return a.total > b.total end
    return a.name < b.name
  end)
  return rows
end

local function is_lua(frame) return (frame.kind == "lua" or frame.kind == "range") and frame.file ~= nil end

-- The frame to which a sample is attributed: the innermost Lua frame that is not Neovim's runtime; if all are, the innermost one.
local function owner_of(stack, plugin_of)
  local innermost
  for _, frame in ipairs(stack) do
    if is_lua(frame) then
      innermost = innermost or frame
      if plugin_of(frame.file) ~= M.RUNTIME then return frame end
    end
  end
  return innermost
end

-- "lua/slow/init.lua:12 burn"; only the module if it is built into Neovim without lines.
local function line_name(frame, short)
  if frame.line == 0 then return short end
  return short .. frame.name:sub(#frame.file + 1)
end

--- The sums of a profile by plugin, file and line. `self` is the weight of the samples whose innermost function outside of
-- Neovim's runtime belongs to the row: work of the runtime counts for the plugin that calls it. `total` is the weight of all
-- samples with the row in their stack.
-- @tparam Profile prof
-- @tparam function plugin_of see `namer`
-- @treturn table {plugins=, files=, lines=, whole=}: arrays of {name=, self=, total=, count=, plugin=, file=, line=, lastline=},
-- the largest first, where `file` and `line` are those of the row's heaviest line; `whole` is the weight that shares are of
function M.sums(prof, plugin_of)
  local plugins, plugin_row, plugin_total = tally()
  local files, file_row, file_total = tally()
  local lines, line_row, line_total = tally()
  local sum, total = 0, tonumber(prof.total) or 0
  local function rows(frame)
    local plugin, short = plugin_of(frame.file)
    return plugin_row(plugin, { name = plugin, plugin = plugin }),
      file_row(frame.file, { name = short, plugin = plugin, file = frame.file }),
      line_row(frame.name, { name = line_name(frame, short), plugin = plugin, file = frame.file, line = frame.line,
        lastline = frame.lastline })
  end
  for stamp, sample in ipairs(prof:samples()) do
    local weight, count = tonumber(sample.weight) or 0, tonumber(sample.count) or 1
    local owner = owner_of(sample.stack, plugin_of)
    sum = sum + weight
    for _, frame in ipairs(sample.stack) do
      if is_lua(frame) then
        local plugin, file, line = rows(frame)
        plugin_total(plugin, weight, stamp)
        file_total(file, weight, stamp)
        line_total(line, weight, stamp)
      end
    end
    if owner then
      for _, row in ipairs { rows(owner) } do row.self, row.count = row.self + weight, row.count + count end
    elseif weight > 0 then
      local last = sample.stack[#sample.stack]
      local name = last and last.name == "(unsampled)" and last.name or M.NO_LUA
      local row = plugin_row(name, { name = name, plugin = name })
      row.self, row.total, row.count = row.self + weight, row.total + weight, row.count + count
    end
  end
  local heaviest = {}
  for _, row in ipairs(sort(lines)) do
    heaviest[row.plugin], heaviest[row.file] = heaviest[row.plugin] or row, heaviest[row.file] or row
  end
  for _, row in ipairs(plugins) do
    local line = heaviest[row.plugin]
    if line then row.file, row.line = line.file, line.line end
  end
  for _, row in ipairs(files) do row.line = heaviest[row.file].line end
  return { plugins = sort(plugins), files = sort(files), lines = lines, whole = math.max(total, sum) }
end

return M
