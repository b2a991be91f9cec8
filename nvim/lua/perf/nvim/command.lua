-- The command :Perf: its subcommands, what they print, and their completion.
local perf_nvim = require "perf.nvim"

local M = {}

local function say(text) vim.notify("Perf: " .. text) end

local subcommands = {}

-- The options of "start": EVENT, FREQUENCY and NAME=VALUE in any order.
local function start_options(args)
  local opts = {}
  for _, word in ipairs(args) do
    local name, value = word:match "^(%l+)=(.*)$"
    if name then
      if value == "true" or value == "false" then
        opts[name] = value == "true"
      else
        opts[name] = tonumber(value) or value
      end
    elseif tonumber(word) then
      opts.freq = tonumber(word)
    elseif opts.event then
      return nil, ("one event expected, got %s and %s"):format(opts.event, word)
    else
      opts.event = word
    end
  end
  return opts
end

function subcommands.start(args)
  local opts, why = start_options(args)
  if not opts then return nil, why end
  local ok
  ok, why = perf_nvim.start(opts)
  if ok then say(("profiling %s; :Perf stop shows the result"):format(perf_nvim.running())) end
  return ok, why
end

function subcommands.stop(_, bang)
  local prof, why = perf_nvim.stop()
  if not prof then return nil, why end
  if bang then
    local _, found = perf_nvim.quickfix()
    if found then return nil, found end
    vim.cmd "botright copen"
    return true
  end
  return perf_nvim.show()
end

function subcommands.toggle(args, bang)
  if perf_nvim.running() then return subcommands.stop({}, bang) end
  return subcommands.start(args)
end

function subcommands.startup(args)
  local ok, why = perf_nvim.startup(args)
  if ok then say "another Neovim is being started with this configuration" end
  return ok, why
end

function subcommands.show() return perf_nvim.show() end

local switches = { on = true, off = false }
function subcommands.marks(args)
  if args[1] and switches[args[1]] == nil then return nil, "marks: on or off expected, got " .. args[1] end
  return perf_nvim.marks(switches[args[1]])
end

function subcommands.clear() return perf_nvim.clear() end

function subcommands.quickfix()
  local n, why = perf_nvim.quickfix()
  if not n then return nil, why end
  vim.cmd "botright copen"
  return true
end

function subcommands.flamegraph(args)
  local path, why = perf_nvim.flamegraph(args[1])
  if not path then return nil, why end
  say("the flame graph is in " .. path)
  if not args[1] and vim.ui.open and #vim.api.nvim_list_uis() > 0 then vim.ui.open(path) end
  return true
end

function subcommands.save(args)
  if not args[1] then return nil, "save: the name of a file expected, such as profile.json" end
  local path, why = perf_nvim.save(args[1])
  if path then say("the profile is in " .. path) end
  return path, why
end

function subcommands.load(args)
  if not args[1] then return nil, "load: the name of a file expected, such as profile.json" end
  local prof, why = perf_nvim.load(args[1])
  if not prof then return nil, why end
  return perf_nvim.show()
end

function subcommands.measure(_, _, rest)
  if rest == "" then return nil, "measure: a Lua expression expected, such as vim.fn.getcwd()" end
  local counts, why = perf_nvim.measure(rest)
  if counts then vim.api.nvim_echo({ { tostring(counts) } }, true, {}) end
  return counts, why
end

-- The most words that a subcommand takes. Subcommands that are not in this table take any number of words.
local most = { stop = 0, show = 0, clear = 0, quickfix = 0, marks = 1, save = 1, load = 1, flamegraph = 1 }

local function names()
  local list = vim.tbl_keys(subcommands)
  table.sort(list)
  return list
end

--- Run the command.
-- @tab call see nvim_create_user_command
function M.run(call)
  local args = vim.deepcopy(call.fargs)
  local name = table.remove(args, 1) or (perf_nvim.running() and "stop" or "show")
  local bang = call.bang or name:find "!$" ~= nil
  name = name:gsub("!$", "")
  local subcommand = subcommands[name]
  local ok, why
  if subcommand then
    local rest = call.args:gsub("^%s*%S+%s*", "")
    for i, word in ipairs(args) do args[i] = word:find "^~/" and vim.fn.fnamemodify(word, ":p") or word end
    if #args > (most[name] or #args) then
      why = ("%s: %s expected, got '%s'"):format(name, most[name] == 0 and "no argument" or "one argument", rest)
    else
      ok, why = subcommand(args, bang, rest)
    end
  else
    why = ("no command '%s'; the commands are: %s"):format(name, table.concat(names(), ", "))
  end
  if not ok then vim.notify("Perf: " .. why, vim.log.levels.ERROR) end
end

local usual = { "task-clock", "page-faults", "context-switches", "alloc", "heap", "cycles", "instructions", "cache-misses" }
local options = { "freq=", "period=", "native=true", "coroutines=resumer", "coroutines=alone" }

-- The names of events that begin with a text.
local function events(lead)
  local list = vim.deepcopy(usual)
  local perf = lead ~= "" and perf_nvim.module()
  for _, row in ipairs(perf and perf.list(lead) or {}) do list[#list + 1] = row.name end
  return list
end

local completions = {
  start = function(lead) return vim.list_extend(events(lead), options) end,
  startup = function(lead) return vim.fn.getcompletion(lead, "file") end,
  marks = function() return { "on", "off" } end,
}
completions.toggle = completions.start
for _, name in ipairs { "save", "load", "flamegraph" } do completions[name] = completions.startup end

--- Complete the command line, which may have modifiers and other commands before this one.
function M.complete(lead, line, position)
  local words = vim.split((" " .. line:sub(1, position)):match "^.-[%s:|]P[erf]*!?%s+(.*)$" or "", "%s+")
  local name, n = words[1]:gsub("!$", ""), #words - 1
  local known = n == 0 and names() or n <= (most[name] or n) and completions[name] and completions[name](lead) or {}
  local list, seen = {}, {}
  for _, word in ipairs(known) do
    if word:sub(1, #lead) == lead and not seen[word] then
      seen[word] = true
      list[#list + 1] = word
    end
  end
  return list
end

return M
