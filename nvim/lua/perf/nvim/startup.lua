-- `:Perf startup`: starts another Neovim with the same configuration in a terminal, profiled from before the first line of the
-- configuration until it has started.
local plugins = require "perf.nvim.plugins"

local M = {}

local here = debug.getinfo(1, "S").source:match "^@(.*)/startup%.lua$"
local LIMIT = 60 -- seconds until the other Neovim is ended
local running

-- The arguments of this Neovim that choose its configuration.
local function same_configuration()
  local with_value, alone, list = { ["-u"] = true, ["--cmd"] = true }, { ["--clean"] = true, ["--noplugin"] = true }, {}
  local argv = vim.v.argv
  for i = 2, #argv do
    if with_value[argv[i]] and argv[i + 1] then
      list[#list + 1], list[#list + 2] = argv[i], argv[i] == "-u" and plugins.named(argv[i + 1]) or argv[i + 1]
    elseif alone[argv[i]] and argv[i - 1] ~= "--cmd" then
      list[#list + 1] = argv[i]
    end
  end
  return list
end

local function read(path)
  local file = io.open(path)
  if not file then return nil end
  local content = file:read "*a"
  file:close()
  return content
end

-- The times that `--startuptime` wrote: the time until Neovim was started in ms, nil if it is not known, and {name=, self=,
-- plugin=} of each file that was sourced, in Lua and Vimscript, the slowest first.
local function sourced(times, plugin_of)
  local rows, by_name, started = {}, {}, nil
  for line in ((times or "") .. "\n"):gmatch "([^\n]*)\n" do
    local own, file = line:match "^[%d.]+%s+[%d.]+%s+([%d.]+): sourcing (/.*)"
    if file then
      local row = by_name[file]
      if not row then
        local plugin, name = plugin_of(file)
        row = { name = name, plugin = plugin, file = file, line = 1, self = 0 }
        by_name[file], rows[#rows + 1] = row, row
      end
      row.self = row.self + tonumber(own)
    end
    local clock = tonumber(line:match "^([%d.]+)%s+[%d.]+: %-%-%- NVIM STARTED %-%-%-")
    if clock and clock > (started or 0) then started = clock end -- the user interface may be a process with times too
  end
  table.sort(rows, function(a, b)
    if a.self ~= b.self then return a.self > b.self end
    return a.name < b.name
  end)
  return started, rows
end

local function sourced_part(rows, limit)
  local cells, of = { { "ms", "sourced file (wall time, without what it sources or requires)", "plugin" } }, {}
  for i = 1, math.min(#rows, limit) do
    cells[i + 1], of[i + 1] = { ("%.3f"):format(rows[i].self), rows[i].name, rows[i].plugin }, rows[i]
  end
  return { rows = rows, cells = cells, of = of, right = 1 }
end

-- The result of the files in a directory; nil and a message if the profile is missing.
local function result_of(perf, dir, limit)
  local failure = read(dir .. "/failure")
  if failure then return nil, "the started Neovim could not be profiled: " .. failure end
  local places = read(dir .. "/places.json")
  if not places then return nil end
  places = vim.fn.json_decode(places)
  local prof, why = perf.load(dir .. "/profile.json")
  if not prof then return nil, why end
  local plugin_of = plugins.namer(places.places)
  local sums = plugins.sums(prof, plugin_of)
  local started, rows = sourced(read(dir .. "/times"), plugin_of)
  return { prof = prof, sums = sums, started_ms = started and started - places.preparation_ms, sourced = rows, parts = {
    { heading = "plugin", rows = sums.plugins }, { heading = "file", rows = sums.files }, { heading = "line", rows = sums.lines },
    sourced_part(rows, limit) } }
end

local function close(buf, win)
  if vim.api.nvim_win_is_valid(win) then vim.api.nvim_win_close(win, true) end
  if vim.api.nvim_buf_is_valid(buf) then vim.api.nvim_buf_delete(buf, { force = true }) end
end

-- A terminal of the started Neovim in a floating window, since plugins wait for a user interface.
-- @return job, buffer, window; or nil, message
local function open_terminal(command, on_exit)
  local buf = vim.api.nvim_create_buf(false, true)
  local win = vim.api.nvim_open_win(buf, true, { relative = "editor", row = 1, col = 2, style = "minimal", border = "single",
    width = math.max(20, math.min(80, vim.o.columns - 6)), height = math.max(5, math.min(24, vim.o.lines - 6)) })
  local opts = { on_exit = on_exit, env = { NVIM = "", NVIM_LISTEN_ADDRESS = "" } }
  if vim.fn.has "nvim-0.11" == 1 then opts.term = true end
  local ok, job = pcall(opts.term and vim.fn.jobstart or vim.fn.termopen, command, opts)
  vim.cmd "wincmd p"
  if ok and job > 0 then return job, buf, win end
  close(buf, win)
  return nil, ("%s cannot be started: %s"):format(command[1], ok and "no job" or job)
end

-- The last lines that a terminal shows; the user may have deleted its buffer.
local function last_lines(buf)
  local lines = {}
  if not vim.api.nvim_buf_is_valid(buf) then return "(it was closed)" end
  for _, line in ipairs(vim.api.nvim_buf_get_lines(buf, 0, -1, false)) do
    if line:find "%S" then lines[#lines + 1] = line end
  end
  return table.concat(vim.list_slice(lines, math.max(1, #lines - 5)), "\n")
end

--- Start another Neovim and profile its start.
-- @param perf the module
-- @tab opts {args=, profiler=, rows=}: arguments of Neovim, options of perf.profiler, the most rows of a table
-- @func done called with the result, or with nil and a message
-- @return true; nil and a message
function M.run(perf, opts, done)
  if running then return nil, "another Neovim is being started already" end
  local dir = vim.fn.tempname()
  vim.fn.mkdir(dir, "p")
  local code = ("lua dofile(%q)({%q, %q}, %q, %q, %s)"):format(here .. "/child.lua", package.path, package.cpath, here, dir,
    vim.inspect(opts.profiler, { newline = "", indent = "" }))
  -- Without swap files, it does not ask what to do about the file that is open here.
  local command = { vim.v.progpath, "-n", "--startuptime", dir .. "/times", "--cmd", code }
  vim.list_extend(command, same_configuration())
  vim.list_extend(command, opts.args or {})
  local buf, win, timer, job
  local function finished(_, status)
    running = nil
    timer:stop()
    timer:close()
    local screen = last_lines(buf)
    close(buf, win)
    local result, why = result_of(perf, dir, opts.rows)
    vim.fn.delete(dir, "rf")
    done(result, why or ("the started Neovim ended with status %s before it had started; its screen:\n%s"):format(status, screen))
  end
  job, buf, win = open_terminal(command, vim.schedule_wrap(finished))
  if not job then
    vim.fn.delete(dir, "rf")
    return nil, buf
  end
  timer, running = (vim.uv or vim.loop).new_timer(), job
  timer:start(LIMIT * 1000, 0, vim.schedule_wrap(function() vim.fn.jobstop(job) end))
  return true
end

return M
