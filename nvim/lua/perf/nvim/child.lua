-- Runs in the Neovim that `:Perf startup` starts, before its configuration: profiles it until it has started, writes the profile
-- and the places of its files, and quits. The file returns a function, since this plugin is not in its 'runtimepath' yet.
local WAIT = 200 -- ms after the last event of the start, for what plugins do just after it
local ENTER = 50 -- ms until a prompt is answered

return function(paths, here, out, opts)
  local uv = vim.uv or vim.loop
  local begun, prepared = uv.hrtime(), nil
  package.path, package.cpath = paths[1], paths[2]
  -- Write a file that is there as a whole or not at all, since this process may be killed.
  local function write(path, value)
    local file = assert(io.open(path .. ".part", "w"))
    file:write(value)
    file:close()
    assert(os.rename(path .. ".part", path))
  end
  local ok, failure = pcall(function()
    local p = assert(require "perf".profiler(opts))
    assert(p:start())
    prepared = uv.hrtime()
    -- After messages, such as those of errors in the configuration, Neovim waits for <Enter>.
    local enter, done = uv.new_timer(), false
    enter:start(ENTER, ENTER, function()
      if vim.api.nvim_get_mode().mode:find "^rm?$" then vim.api.nvim_input "<CR>" end
    end)
    local function finish()
      if done then return end
      done = true
      enter:close()
      local stopped, why = pcall(function()
        local prof = assert(p:stop())
        assert(prof:save(out .. "/profile.json"))
        write(out .. "/places.json", vim.fn.json_encode {
          places = dofile(here .. "/plugins.lua").places(), preparation_ms = (prepared - begun) / 1e6,
        })
      end)
      if not stopped then write(out .. "/failure", tostring(why)) end
      vim.cmd "qall!"
    end
    -- Without a user interface, there is no UIEnter.
    vim.api.nvim_create_autocmd({ "VimEnter", "UIEnter" }, {
      callback = function(event)
        if event.event == "UIEnter" or #vim.api.nvim_list_uis() == 0 then vim.defer_fn(finish, WAIT) end
      end,
    })
  end)
  if not ok then
    write(out .. "/failure", tostring(failure))
    vim.cmd "qall!"
  end
end
