-- An earlier profile as if it were of the present source: its frames have the lines that their code has now, so that reports can
-- compare it by name with a profile of the edited program.
--
-- Lines are aligned by the source, if both profiles have it (perf.profile.source). Otherwise a function is found by its file and
-- name, and its lines move with it. What is gone keeps its lines, and "(removed)" after its name.
local lua_frame = require "perf.profile.lua_frame"
local memo = require "perf.base.memo"
local pairs_of = require "perf.base.pairs"
local source = require "perf.profile.source"

local GONE = " (removed)"

local function base_name(path) return path:match "[^/]*$" end

-- A function's name without the line that a nameless one has in it.
local function key_of(f) return (f.func or "?"):gsub("^anonymous@%d+$", "anonymous") end

-- The files of a profile: {[name] = {[function's name] = its definitions' lines in rising order}}.
local function files_of(prof)
  local files, seen = {}, {}
  for _, sample in ipairs(prof:samples()) do
    for _, f in ipairs(sample.stack) do
      if not seen[f] and lua_frame.is(f) and f.file then
        local file = files[f.file] or {}
        files[f.file] = file
        local key, line = key_of(f), f.linedefined or 0
        file[key] = file[key] or {}
        if not file[key][-line] then
          file[key][-line] = true
          table.insert(file[key], line)
        end
      end
      seen[f] = true
    end
  end
  for _, file in pairs_of(files) do
    for _, lines in pairs_of(file) do table.sort(lines) end
  end
  return files
end

-- The name that a file has now: another directory's, if only one file there has this name and it is new.
local function file_now(file, before, after)
  if after[file] then return file end
  local found
  for other in pairs_of(after) do
    if not before[other] and base_name(other) == base_name(file) then
      if found then return file end
      found = other
    end
  end
  return found or file
end

-- The line where a function begins now, found by its name; nil if there is none, or a different number of them.
local function by_name(f, old, new)
  local was, is = old[key_of(f)], new and new[key_of(f)]
  if not is or #was ~= #is then return nil end
  for i, line in ipairs(was) do
    if line == (f.linedefined or 0) then return is[i] end
  end
end

-- Functions that give the line of a definition and of code in a file now, nil if it is gone.
local function lines_now(old, new, digest_before, digest_after)
  if digest_before and digest_after then
    local map = digest_before ~= digest_after and source.align(digest_before, digest_after)
    return function(f) return not map and f.linedefined or map and (map[f.linedefined] or by_name(f, old, new)) or nil end,
      function(_, line) return not map and line or map and map[line] or nil end
  end
  local function definition(f) return by_name(f, old, new) or f.linedefined end
  return definition, function(f, line)
    local from, to = f.linedefined or 0, definition(f) or 0
    return from > 0 and line + to - from or line
  end
end

local function digest(prof, file)
  local lines = prof.sources and prof.sources[file]
  return lines and source.digest(lines)
end

-- @param before a Profile
-- @param after the one to compare it with
-- @return a Profile: `before` itself, if it has no Lua code
return function(before, after)
  local old, new = files_of(before), files_of(after)
  if not next(old) then return before end
  local files = memo(function(file)
    local name = file_now(file, old, new)
    local definition, line = lines_now(old[file], new[name], digest(before, file), digest(after, name))
    return { name = name, definition = definition, line = line }
  end)
  local frames = memo(function(f)
    if not lua_frame.is(f) or not f.file then return f end
    local file = files[f.file]
    local whole = (f.linedefined or 0) == 0 -- the main chunk, or it is not known
    local defined = not whole and file.definition(f) or nil
    local line, last = file.line(f, f.line), f.lastline and file.line(f, f.lastline)
    if line == f.line and last == f.lastline and (whole or defined == f.linedefined) and file.name == f.file then return f end
    local func = f.func
    if not whole then func = defined and func:gsub("^anonymous@%d+$", "anonymous@" .. defined) or func .. GONE end
    local is = lua_frame.new(file.name, line or f.line, f.lastline and (last or f.lastline), func, whole and f.linedefined
      or defined or f.linedefined)
    if not line and (whole or defined) then is.name = is.name .. GONE end
    return is
  end)
  local list = {}
  for i, sample in ipairs(before:samples()) do
    local stack = {}
    for k, f in ipairs(sample.stack) do stack[k] = frames[f] end
    list[i] = { stack = stack, weight = sample.weight, count = sample.count, zone = sample.zone }
  end
  return setmetatable({ list = list, sources = after.sources, samples = function() return list end }, { __index = before })
end
