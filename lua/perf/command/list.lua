-- luaperf list: the events of this machine.
local list = require "perf.names.list"
local kinds, kind_of = list.kinds, list.kind_of

local M = {}

M.about = "list the events of this machine"
M.usage = "luaperf list [PATTERN]"
M.words = "event"
M.text = "Lists the events that have a name. PATTERN is part of a name, a glob over the whole name, or a kind:\n"
  .. table.concat(kinds, ", ") .. ".\nluaperf record -e also takes alloc and heap, the memory of Lua, for a script."
M.options = { { "raw_dump", "boolean", "the names alone, one on each line" } }

local nameless = { raw = true, breakpoint = true, memory = true } -- their rows are no names that -e takes

-- Tell why the table has no tracepoint, if they could not be looked up and the pattern names no other kind.
local function say_what_is_left_out(rows, pattern)
  if kind_of(pattern) then return end
  for _, row in ipairs(rows) do
    if row.kind == "tracepoint" then return end
  end
  local names, message = require "perf".tracepoints()
  if not names then require "perf.command.terminal".error("tracepoints are left out: " .. message) end
end

local function names_of(rows)
  local names = {}
  for _, row in ipairs(rows) do
    if not nameless[row.kind] then
      names[#names + 1] = row.name
      names[#names + 1] = row.alias
    end
  end
  return table.concat(names, "\n")
end

-- Run the command. @return exit status; or nil, message, code
function M.run(opts, words)
  if #words > 1 then return nil, "luaperf list takes one pattern", "USAGE" end
  local rows, message, code = require "perf".list(words[1])
  if #rows == 0 then
    local pattern = words[1] or ""
    if message and (pattern:find ":" or pattern:lower() == "tracepoint") then return nil, pattern .. ": " .. message, code end
    if pattern == "alloc" or pattern == "heap" then
      local what = "%s: Lua's memory, not an event of the kernel: luaperf record -e %s script.lua"
      return nil, what:format(pattern, pattern), "ENOENT"
    end
    return nil, ("no event matches '%s'%s%s"):format(pattern, require "perf.base.suggest".hint(pattern, kinds),
      message and "; " .. message or ""), "ENOENT"
  end
  local ok
  local text = opts.raw_dump and names_of(rows) or list.text(rows)
  ok, message, code = require "perf.command.terminal".write(text .. "\n")
  if ok and not opts.raw_dump then say_what_is_left_out(rows, words[1]) end
  return ok and 0, message, code
end

return M
