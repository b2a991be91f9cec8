-- :Perf startup: another Neovim with the same configuration is profiled while it starts.
local editor = require "spec.nvim.editor"

describe(":Perf startup", function()
  local nvim = editor.each { nvim = true, perf_open = "user" }

  local startup = [[
    local found
    local ok, why = require "perf.nvim".startup(nil, function(prof, sums, more)
      found = prof and { plugin = sums.plugins[1], file = sums.files[1], line = sums.lines[1], total = prof.total,
        started_ms = more.started_ms, sourced = more.sourced } or { failure = sums }
    end)
    assert(ok, why)
    assert(vim.wait(120000, function() return found end), "no result")
    found.windows = #vim.api.nvim_list_wins()
    return found
  ]]

  it("names the plugin, the file and the line that make it slow", function()
    nvim:write(nvim.packages .. "/slow.nvim/plugin/slow.lua", 'require "slow".burn(1e6)\n')
    local found = nvim:run(startup)
    assert.is_nil(found.failure)
    local path, number = nvim:line("slow.nvim/lua/slow.lua", "-- burns")
    assert.equal("slow.nvim", found.plugin.name)
    assert.is_true(found.plugin.self > 0.5 * found.total, ("%s of %s"):format(found.plugin.self, found.total))
    assert.same({ path, path, number }, { found.file.file, found.line.file, found.line.line })
    assert.is_true(found.started_ms > found.plugin.self / 1e6)
    assert.equal(1, found.windows)
  end)

  it("has the times of sourced files, also of Vimscript, and what plugins do when the screen is there", function()
    nvim:write(nvim.packages .. "/quick.nvim/plugin/loop.vim", "for i in range(300000)\nlet g:x = i\nendfor\n")
    nvim:init [[
      vim.api.nvim_create_autocmd("UIEnter", { callback = function() vim.schedule(function() require "slow".burn(1e6) end) end })
    ]]
    local found = nvim:run(startup)
    assert.is_nil(found.failure)
    assert.matches("/lua/slow%.lua$", found.line.file)
    local of = {}
    for _, row in ipairs(found.sourced) do of[row.name] = row end
    assert.equal("quick.nvim", of["plugin/loop.vim"].plugin)
    assert.is_true(of["plugin/loop.vim"].self > 0)
    assert.equal("(config)", of["init.lua"].plugin)
  end)

  -- The story: the file of -u was looked up in the working directory, which the configuration had changed: the other Neovim
  -- started without a configuration.
  it("finds the file of -u after the working directory has changed", function()
    nvim:write(nvim.dir .. "/mine.lua", ([[
      vim.opt.runtimepath:append "%s/nvim"
      local x = 0
      for i = 1, 2e7 do x = (x + i) %% 1013 end
      vim.cmd "cd /"
    ]]):format(nvim.here))
    local found = nvim:run(startup, ("env -C '%s' PWD='%s'"):format(nvim.dir, nvim.dir), "-u mine.lua")
    assert.is_nil(found.failure)
    assert.same({ "(config)", nvim.dir .. "/mine.lua" }, { found.plugin.name, found.line.file })
  end)

  -- The story: Neovim asked for <Enter> after the message of an error, and nobody answered: it was ended after a minute.
  it("ends if the configuration has errors", function()
    nvim:init [[
      if vim.fn.index(vim.v.argv, "--startuptime") > 0 then
        require "slow".burn(1e6)
        error("broken\n" .. ("many lines\n"):rep(100))
      end
    ]]
    local found = nvim:run(startup)
    assert.is_nil(found.failure)
    assert.equal("slow.nvim", found.plugin.name)
  end)

  -- The story: the other Neovim found the swap file of this one, and asked what to do.
  it("opens a file that is open in this Neovim", function()
    nvim:init "vim.o.directory = vim.fn.stdpath 'data'"
    local path = nvim:line("slow.nvim/lua/slow.lua", "-- burns")
    local found = nvim:run(([[
      vim.o.updatecount = 200
      vim.cmd("edit %s")
      vim.cmd "preserve"
      assert(vim.fn.swapname "" ~= "", "no swap file")
      local found
      assert(require "perf.nvim".startup({ %q }, function(prof, why) found = { ok = prof ~= nil, why = not prof and why } end))
      assert(vim.wait(120000, function() return found end), "no result")
      return found
    ]]):format(path, path))
    assert.same({ ok = true, why = false }, found)
  end)

  it("says how the other Neovim ended if it did not start", function()
    nvim:init "if vim.fn.index(vim.v.argv, '--startuptime') > 0 then vim.cmd 'cquit 3' end"
    local found = nvim:run(startup)
    assert.matches("^the started Neovim ended with status 3 before it had started; its screen:", found.failure)
    assert.equal(1, found.windows)
  end)

  -- The story: if Neovim was killed while it wrote the file with the places of its plugins, reading the incomplete text raised an
  -- error. So no result was shown, and the files were not removed.
  it("says so if the other Neovim is killed while it writes its files", function()
    nvim:init [[
      local open = io.open
      if vim.fn.index(vim.v.argv, "--startuptime") > 0 then
        function io.open(path, mode)
          if not path:find "places.json" then return open(path, mode) end
          return { write = function(_, text)
            local file = open(path, mode)
            file:write(text:sub(1, 20))
            file:close()
            local uv = vim.uv or vim.loop
            uv.kill(uv.os_getpid(), "sigkill")
            vim.cmd "sleep 10"
          end }
        end
      end
    ]]
    local found = nvim:run(startup)
    assert.matches("^the started Neovim ended with status %d+ before it had started; its screen:", found.failure)
    assert.equal(1, found.windows)
  end)

  -- The story: the terminal's buffer was read at the end, even if the user had deleted it: an error came instead of the message.
  it("ends if the user deletes its terminal", function()
    nvim:init "if vim.fn.index(vim.v.argv, '--startuptime') > 0 then vim.cmd 'sleep 100' end"
    local found = nvim:run(([[
      vim.schedule(function()
        for _, buf in ipairs(vim.api.nvim_list_bufs()) do
          if vim.bo[buf].buftype == "terminal" then vim.cmd("bwipeout! " .. buf) end
        end
      end)
    ]]) .. startup)
    assert.matches("^the started Neovim ended with status %d+ before it had started; its screen:\n%(it was closed%)$",
      found.failure)
    assert.equal(1, found.windows)
  end)

  -- The story: if Neovim's program had been replaced, startup() raised an error, and left an empty window open.
  it("says that the other Neovim cannot be started", function()
    local found = nvim:run [[
      local function refuse() error("Vim:E475: '" .. vim.v.progpath .. "' is not executable", 0) end
      vim.fn.termopen, vim.fn.jobstart = refuse, refuse
      local result = { require "perf.nvim".startup() }
      return { ok = result[1], why = result[2], windows = #vim.api.nvim_list_wins(), buffers = #vim.api.nvim_list_bufs() }
    ]]
    assert.is_nil(found.ok)
    assert.matches("cannot be started: Vim:E475: ", found.why)
    assert.same({ 1, 1 }, { found.windows, found.buffers })
  end)

  it("shows its tables", function()
    nvim:write(nvim.packages .. "/slow.nvim/plugin/slow.lua", 'require "slow".burn(1e6)\n')
    local lines = nvim:run [[
      vim.cmd "Perf startup"
      assert(vim.wait(120000, function() return vim.api.nvim_buf_get_name(0):find "perf://profile" end), "no result")
      return lines()
    ]]
    assert.matches("^Neovim started in %d+ ms$", lines[1])
    assert.matches("^task%-clock: .* samples at 5000 Hz", lines[2])
    local text = table.concat(lines, "\n")
    local from = 1
    for _, words in ipairs { "self +%% +total +%%  plugin\n[^\n]+  slow%.nvim\n",
      "self +%% +total +%%  file +plugin\n[^\n]+  lua/slow%.lua +slow%.nvim\n",
      "self +%% +total +%%  line +plugin\n[^\n]+  lua/slow%.lua:%d+ M%.burn +slow%.nvim\n",
      "  ms  sourced file .*  plugin/slow%.lua +slow%.nvim\n" } do
      local _, last = text:find(words, from)
      assert.truthy(last, ("no %s in:\n%s"):format(words, text))
      from = last
    end
  end)
end)
