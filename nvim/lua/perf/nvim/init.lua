--- Profiles of Lua code in Neovim: the functions behind the command :Perf. See `:help perf`.
--
--     require("perf.nvim").setup { path = "~/src/lua-perf", freq = 999 }      -- all options are optional
--
-- A function that cannot do its work returns nil and a message.
local M = {}

local config = { event = "task-clock", rows = 30, marks = false, least = 0.5 }
local types = { path = "string", event = "string", freq = "number", rows = "number", marks = "boolean", least = "number" }

local running -- {profiler=, event=}
local result -- {prof=, title=, parts=, sums=}: the last profile

--- Set options.
-- @tparam[opt] table opts `path`: the directory of a clone or an installation of lua-perf, if Lua's search paths do not have it;
-- `event` and `freq`: the defaults of a start; `rows`: the largest number of rows of a table; `marks`: true shows the marks at
-- each stop; `least`: the smallest weight of a marked line, in percent
function M.setup(opts)
  for name, value in pairs(opts or {}) do
    if not types[name] then
      local names = vim.tbl_keys(types)
      table.sort(names)
      error(("perf.nvim: unknown option '%s'; the options are: %s"):format(name, table.concat(names, ", ")), 2)
    end
    if type(value) ~= types[name] then
      error(("perf.nvim: option '%s': %s expected, got %s"):format(name, types[name], type(value)), 2)
    end
    config[name] = value
  end
end

--- The module perf; nil and a message if it is not found.
function M.module() return require "perf.nvim.module".load(config.path) end

-- Call a function of the module. Its errors, which have a position in this plugin, become messages.
local function attempt(fn, ...)
  local ok, value, message = pcall(fn, ...)
  if ok then return value, message end
  value = tostring(value):gsub("^[^\n]-:%d+: ", "")
  return nil, value:match "^bad argument #%d+ to '%w+' %((.*)%)$" or value
end

local function profiler_options(opts)
  local all = { event = config.event, freq = config.freq }
  if opts and (opts.event or opts.period) then all.freq = nil end -- the frequency of another event
  for name, value in pairs(opts or {}) do all[name] = value end
  return all
end

--- Start profiling.
-- @tparam[opt] table opts those of perf.profiler: `event`, `freq`, `period`, `native`, `coroutines`, `filter`
-- @return true
function M.start(opts)
  if running then return nil, ("a profile of %s is running already; :Perf stop ends it"):format(running.event) end
  local perf, why = M.module()
  if not perf then return nil, why end
  local all = profiler_options(opts)
  local profiler, message = attempt(perf.profiler, all)
  if not profiler then return nil, message end
  local ok
  ok, message = attempt(profiler.start, profiler)
  if not ok then
    profiler:close()
    return nil, message
  end
  running = { profiler = profiler, event = all.event }
  return true
end

--- The event that is being profiled; nil if no profile is running.
function M.running() return running and running.event end

local function title_of(prof) return (tostring(prof:top(1)):gsub("\n\n.*", "")) end

-- Make this the last profile.
local function keep(new)
  result = new
  if config.marks then
    require "perf.nvim.marks".show(result.prof, result.sums.whole, config.least)
  elseif require "perf.nvim.marks".are_shown() then
    require "perf.nvim.marks".hide()
  end
  return result.prof, result.sums
end

local function of_profile(prof)
  local plugins = require "perf.nvim.plugins"
  local sums = plugins.sums(prof, plugins.namer(plugins.places()))
  return { prof = prof, sums = sums, title = title_of(prof),
    parts = { { heading = "plugin", rows = sums.plugins }, { heading = "line", rows = sums.lines } } }
end

--- Stop profiling.
-- @return the Profile, and its sums by plugin, file and line
function M.stop()
  if not running then return nil, "no profile is running; :Perf start begins one" end
  if vim.in_fast_event() then return nil, "a callback of vim.loop cannot stop the profile: use vim.schedule in it" end
  local profiler = running.profiler
  running = nil
  local prof, why = attempt(profiler.stop, profiler)
  if not prof then return nil, why end
  return keep(of_profile(prof))
end

--- Start another Neovim with the same configuration, and profile its start.
-- @tparam[opt] {string,...} args arguments of that Neovim
-- @tparam[opt] function done called with the Profile, its sums and {started_ms=, sourced=}, or with nil and a message; by default
-- the table is shown
-- @return true
function M.startup(args, done)
  local perf, why = M.module()
  if not perf then return nil, why end
  local opts = { event = config.event, freq = 5000 }
  if config.event ~= "task-clock" then opts = { event = config.event } end
  return require "perf.nvim.startup".run(perf, { args = args, profiler = opts, rows = config.rows }, function(new, message)
    if not new then
      if done then return done(nil, message) end
      return vim.notify("Perf: " .. message, vim.log.levels.ERROR)
    end
    new.title = title_of(new.prof)
    if new.started_ms then new.title = ("Neovim started in %.0f ms\n%s"):format(new.started_ms, new.title) end
    keep(new)
    if done then return done(new.prof, new.sums, { started_ms = new.started_ms, sourced = new.sourced }) end
    M.show()
  end)
end

-- The last profile; nil and a message if there is none.
local function last()
  if result then return result end
  return nil, running and "the profile is still running; :Perf stop ends it" or "there is no profile yet; :Perf start begins one"
end

--- Show the table of the last profile.
-- @return true
function M.show()
  local found, why = last()
  if not found then return nil, why end
  require "perf.nvim.window".show(found, config.rows)
  return true
end

--- Show or hide the marks of the last profile.
-- @bool[opt] on by default they are toggled
-- @return "on" or "off"
function M.marks(on)
  local marks = require "perf.nvim.marks"
  if on == nil then on = not marks.are_shown() end
  if not on then
    marks.hide()
    return "off"
  end
  local found, why = last()
  if not found then return nil, why end
  marks.show(found.prof, found.sums.whole, config.least)
  return "on"
end

--- Hide the marks, and forget the last profile.
-- @return true
function M.clear()
  require "perf.nvim.marks".hide()
  result = nil
  return true
end

--- Put the heaviest lines into the quickfix list.
-- @return the number of its entries
function M.quickfix()
  local found, why = last()
  if not found then return nil, why end
  local window, text, items = require "perf.nvim.window", require "perf.nvim.text", {}
  local whole, unit = found.sums.whole, found.prof.unit
  for _, row in ipairs(found.sums.lines) do
    local entry = window.entry(row)
    if entry and #items < config.rows then
      entry.text = ("%s %% self, %s %% total, %s  %s"):format(text.percent(row.self, whole), text.percent(row.total, whole),
        text.amount(row.total, unit), row.plugin)
      items[#items + 1] = entry
    end
  end
  vim.fn.setqflist({}, " ", { title = "Perf: " .. found.title:gsub("\n.*", ""), items = items })
  return #items
end

--- Write the last profile as a flame graph: one HTML file.
-- @string[opt] path by default a temporary file
-- @return the path
function M.flamegraph(path)
  local found, why = last()
  if not found then return nil, why end
  local file = path and vim.fn.fnamemodify(path, ":p") or vim.fn.tempname() .. ".html"
  found, why = attempt(found.prof.flamegraph, found.prof, file)
  return found and file, why
end

--- Write the last profile into a file. The ending of its name selects the format: see Profile:save.
-- @return the path
function M.save(path)
  local found, why = last()
  if not found then return nil, why end
  local file = vim.fn.fnamemodify(path, ":p")
  found, why = attempt(found.prof.save, found.prof, file)
  return found and file, why
end

--- Read a profile from a file of `save`, of `luaperf record`, or of other programs: see perf.load.
-- @return the Profile, and its sums
function M.load(path)
  local perf, why = M.module()
  if not perf then return nil, why end
  local prof
  prof, why = attempt(perf.load, vim.fn.fnamemodify(path, ":p"))
  if not prof then return nil, why end
  return keep(of_profile(prof))
end

--- Measure an expression or a statement of Lua.
-- @string code
-- @return the Counts
function M.measure(code)
  local perf, why = M.module()
  if not perf then return nil, why end
  local fn
  fn, why = loadstring("local _ = " .. code, "=expression") -- no tail call: errors name this code
  fn = fn or loadstring(code, "=expression")
  if not fn then return nil, why end -- the error of the code as an expression: statements are rarer
  local ok, counts = pcall(perf.measure, fn)
  if not ok then return nil, tostring(counts) end
  return counts
end

return M
