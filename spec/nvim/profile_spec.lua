-- :Perf in Neovim, with plugins whose costs are known.
local editor = require "spec.nvim.editor"
local util = require "spec.support.util"

describe(":Perf", function()
  local nvim = editor.each { nvim = true, perf_open = "user" }

  -- The first data row of the table whose heading has a word: self %, total %, name.
  local function first_row(lines, word)
    local at
    for i, line in ipairs(lines) do
      if at then
        local own, total, name = line:match "^%s*[%d.,]+%s*%a*%s+([%d.]+)%s+[%d.,]+%s*%a*%s+([%d.]+)%s%s(.*)$"
        return { own = tonumber(own), total = tonumber(total), name = name }
      end
      if line:find("%s" .. word .. "%f[%s%z]") and line:find "self.*total" then at = i end
    end
    error("no table of " .. word .. ":\n" .. table.concat(lines, "\n"))
  end

  it("names the plugin that burns the time, and its line", function()
    local lines, notes = nvim:run [[
      require "quick"()
      vim.cmd "Perf start"
      require "slow".burn(2e6)
      vim.cmd "Perf stop"
      return lines()
    ]]
    assert.same({ "Perf: profiling task-clock; :Perf stop shows the result" }, notes)
    assert.matches("^task%-clock: .* samples at 999 Hz$", lines[1])
    local plugin = first_row(lines, "plugin")
    assert.equal("slow.nvim", plugin.name)
    assert.is_true(plugin.own > 80, table.concat(lines, "\n"))
    local _, number = nvim:line("slow.nvim/lua/slow.lua", "-- burns")
    local line = first_row(lines, "line")
    assert.matches(("^lua/slow%%.lua:%d M%%.burn%%s+slow%%.nvim$"):format(number), line.name)
    assert.is_true(line.own > 80, table.concat(lines, "\n"))
  end)

  it("charges a plugin with the functions of Neovim's runtime that it calls", function()
    local lines = nvim:run [[
      vim.cmd "Perf start"
      require "slow".sorts(20000)
      vim.cmd "Perf stop"
      return lines()
    ]]
    local plugin = first_row(lines, "plugin")
    assert.equal("slow.nvim", plugin.name)
    assert.is_true(plugin.own > 80, table.concat(lines, "\n"))
    assert.matches("%-%s+%-%s+[%d.]+ m?s%s+[%d.]+  %(Neovim runtime%)\n", table.concat(lines, "\n"))
  end)

  it("counts page faults by line, exactly", function()
    local rows = nvim:run [[
      local perf = require "perf.nvim"
      local fault = require "faults"
      fault(1)
      assert(perf.start { event = "page-faults:u", period = 1 })
      fault(2000)
      local _, sums = assert(perf.stop())
      return { sums.plugins[1], sums.lines[1] }
    ]]
    local path, number = nvim:line("faults.nvim/lua/faults.lua", "-- faults")
    assert.equal("faults.nvim", rows[1].name)
    assert.equal(path, rows[2].file)
    assert.equal(number, rows[2].line)
    assert.is_true(rows[2].self >= 2000 and rows[2].self < 2100, tostring(rows[2].self))
  end)

  it("takes stacks from registers", function()
    -- The story: in Neovim, stacks were taken at safe points. A register that C code had saved contained the address of an outer
    -- C frame by chance, so that two places of a frame seemed to have the address of the frame before it.
    requires { registers = true }
    assert.equal("registers", nvim:run [[
      local perf = require "perf.nvim"
      assert(perf.start())
      local prof = assert(perf.stop())
      return prof.method_reason or prof.method
    ]])
  end)

  it("opens the line of a row", function()
    local at = nvim:run [[
      vim.cmd "Perf start"
      require "slow".burn(2e6)
      vim.cmd "Perf stop"
      local found = {}
      for _, pattern in ipairs { "  slow\\.nvim$", "slow.lua:\\d* M.burn" } do
        vim.cmd "Perf show"
        vim.fn.search(pattern)
        vim.api.nvim_feedkeys(vim.api.nvim_replace_termcodes("<CR>", true, false, true), "xt", false)
        found[#found + 1] = { vim.api.nvim_buf_get_name(0), vim.api.nvim_win_get_cursor(0)[1], #vim.api.nvim_list_wins() }
      end
      return found
    ]]
    local path, number = nvim:line("slow.nvim/lua/slow.lua", "-- burns")
    assert.same({ { path, number, 2 }, { path, number, 2 } }, at)
  end)

  -- The story: :bdelete in the table, which closes its window, left a buffer without options and mappings. The next table in it
  -- was an ordinary buffer with changes, for which Neovim refused to quit.
  it("shows the table again after :bdelete", function()
    local found = nvim:run [[
      vim.cmd "Perf start"
      vim.cmd "Perf stop"
      local before = lines()
      vim.cmd "bdelete"
      vim.cmd "Perf show"
      return { vim.deep_equal(before, lines()), vim.bo.buftype, vim.bo.filetype, vim.bo.modified, vim.fn.maparg("m", "n") }
    ]]
    assert.same({ true, "nofile", "perf", false, "<Cmd>Perf marks<CR>" }, found)
  end)

  it("closes the table if it is in the last window", function()
    local found = nvim:run [[
      vim.cmd "Perf start"
      vim.cmd "Perf stop"
      local list = {}
      for _ = 1, 2 do
        vim.api.nvim_feedkeys("q", "xt", false)
        list[#list + 1] = { vim.api.nvim_buf_get_name(0), #vim.api.nvim_list_wins() }
        vim.cmd "Perf show"
        vim.cmd "only"
      end
      return list
    ]]
    assert.same({ { "", 1 }, { "", 1 } }, found)
  end)

  -- The story: if the other window had a changed buffer that had to stay there, <CR> showed the traceback of an error.
  it("opens the line of a row in a new window if the other one cannot show another file", function()
    local found = nvim:run [[
      vim.o.hidden = false
      vim.api.nvim_buf_set_lines(0, 0, -1, false, { "changed" })
      vim.cmd "Perf start"
      require "slow".burn(2e6)
      vim.cmd "Perf stop"
      vim.fn.search "slow.lua:\\d* M.burn"
      vim.api.nvim_feedkeys(vim.api.nvim_replace_termcodes("<CR>", true, false, true), "xt", false)
      return { vim.api.nvim_buf_get_name(0), vim.api.nvim_win_get_cursor(0)[1], #vim.api.nvim_list_wins() }
    ]]
    local path, number = nvim:line("slow.nvim/lua/slow.lua", "-- burns")
    assert.same({ path, number, 3 }, found)
  end)

  it("knows the file of -u after the working directory has changed", function()
    nvim:write(nvim.dir .. "/mine.lua", ([[
      vim.opt.runtimepath:append "%s/nvim"
      function burn(n) local x = 0 for i = 1, n do x = (x + i) %% 1013 end end
    ]]):format(nvim.here))
    local name = nvim:run([[
      vim.cmd "cd /"
      local perf = require "perf.nvim"
      assert(perf.start())
      burn(2e7)
      return select(2, assert(perf.stop())).plugins[1].name
    ]], ("env -C '%s' PWD='%s'"):format(nvim.dir, nvim.dir), "-u mine.lua")
    assert.equal("(config)", name)
  end)

  it("fills the quickfix list", function()
    local list = nvim:run [[
      vim.cmd "Perf start"
      require "slow".burn(2e6)
      vim.cmd "Perf stop!"
      local item = vim.fn.getqflist()[1]
      return { vim.fn.getqflist({ title = 1 }).title, vim.api.nvim_buf_get_name(item.bufnr), item.lnum, item.text,
        vim.bo.buftype }
    ]]
    local path, number = nvim:line("slow.nvim/lua/slow.lua", "-- burns")
    assert.matches("^Perf: task%-clock: ", list[1])
    assert.same({ path, number }, { list[2], list[3] })
    assert.matches("^%d+%.%d %% self, %d+%.%d %% total, [%d.]+ m?s  slow%.nvim$", list[4])
    assert.equal("quickfix", list[5])
  end)

  it("writes profiles and flame graphs, and reads profiles", function()
    local found, notes = nvim:run((([[
      vim.cmd "Perf start"
      require "slow".burn(2e6)
      vim.cmd "Perf stop"
      local before = lines()
      for _, command in ipairs { "save %s/profile.json", "flamegraph %s/flame.html", "save %s/profile.nosuch", "clear", "show",
        "load %s/missing.json", "load %s/profile.json" } do vim.cmd("Perf " .. command) end
      return { vim.deep_equal(before, lines()), before, lines() }
    ]]):gsub("%%s", nvim.dir)))
    assert.is_true(found[1], table.concat(found[2], "\n") .. table.concat(found[3], "\n"))
    assert.matches("^<!DOCTYPE html>", util.read_file(nvim.dir .. "/flame.html"))
    table.remove(notes, 1)
    assert.equal(5, #notes)
    assert.same({ ("Perf: the profile is in %s/profile.json"):format(nvim.dir), ("Perf: the flame graph is in %s/flame.html")
      :format(nvim.dir) }, { notes[1], notes[2] })
    assert.matches("^Perf: .*nosuch", notes[3])
    assert.equal("Perf: there is no profile yet; :Perf start begins one", notes[4])
    assert.matches("^Perf: .*missing%.json: .*No such file", notes[5])
  end)

  -- The story: "~" was replaced by expand(), which gives nothing for a file that 'wildignore' hides.
  it("writes into the home directory, whatever 'wildignore' is", function()
    local _, notes = nvim:run([[
      vim.o.wildignore = "*.svg"
      vim.cmd "Perf start"
      vim.cmd "Perf stop"
      vim.cmd "Perf save ~/profile[1].svg"
    ]], ("HOME='%s'"):format(nvim.dir))
    assert.equal(("Perf: the profile is in %s/profile[1].svg"):format(nvim.dir), notes[2])
    assert.matches("<svg", util.read_file(nvim.dir .. "/profile[1].svg"))
  end)

  it("measures an expression", function()
    local counts = nvim:run [[
      local perf = require "perf.nvim"
      local counts = assert(perf.measure "require('slow').burn(1e5)")
      return { counts["page-faults"] ~= nil, { perf.measure "1 +" }, { perf.measure "error 'broken'" } }
    ]]
    assert.is_true(counts[1])
    assert.matches("^expression:1: unexpected symbol near '<eof>'", counts[2][2])
    assert.matches("broken$", counts[3][2])
  end)

  it("explains mistakes", function()
    local _, notes = nvim:run [[
      for _, command in ipairs { "stop", "show", "marks", "quickfix", "flamegraph", "save x.json", "start tsk-clock",
        "start freqq=7", "start page-faults task-clock", "bogus", "marks maybe", "save", "load", "measure", "start",
        "stop extra", "start", "show" } do
        vim.cmd("Perf " .. command)
      end
    ]]
    local none = "Perf: there is no profile yet; :Perf start begins one"
    assert.same({ "Perf: no profile is running; :Perf start begins one", none, none, none, none, none,
      "Perf: tsk-clock: unknown event; did you mean 'task-clock' or 'cpu-clock'?",
      "Perf: unknown option 'freqq'; did you mean 'freq'?",
      "Perf: one event expected, got page-faults and task-clock",
      "Perf: no command 'bogus'; the commands are: clear, flamegraph, load, marks, measure, quickfix, save, show, start, "
        .. "startup, stop, toggle",
      "Perf: marks: on or off expected, got maybe",
      "Perf: save: the name of a file expected, such as profile.json",
      "Perf: load: the name of a file expected, such as profile.json",
      "Perf: measure: a Lua expression expected, such as vim.fn.getcwd()",
      "Perf: profiling task-clock; :Perf stop shows the result",
      "Perf: stop: no argument expected, got 'extra'",
      "Perf: a profile of task-clock is running already; :Perf stop ends it",
      "Perf: the profile is still running; :Perf stop ends it" }, notes)
  end)

  -- The story: a stop in a timer's callback ended with an error of Neovim, and the profile was lost.
  it("says that a callback of vim.loop cannot stop the profile, which goes on", function()
    local found = nvim:run [[
      local perf, list = require "perf.nvim"
      assert(perf.start())
      local timer = (vim.uv or vim.loop).new_timer()
      timer:start(1, 0, function()
        list = { perf.stop() }
        timer:close()
      end)
      assert(vim.wait(60000, function() return list end))
      return { why = list[2], running = perf.running(), stopped = perf.stop() ~= nil }
    ]]
    assert.same({ why = "a callback of vim.loop cannot stop the profile: use vim.schedule in it", running = "task-clock",
      stopped = true }, found)
  end)

  it("explains wrong options of setup", function()
    local found = nvim:run [[
      local perf, list = require "perf.nvim", {}
      for i, opts in ipairs { { evnt = 1 }, { freq = "x" } } do list[i] = select(2, pcall(perf.setup, opts)) end
      return list
    ]]
    assert.matches("unknown option 'evnt'; the options are: event, freq, least, marks, path, rows$", found[1])
    assert.matches("option 'freq': number expected, got string$", found[2])
  end)

  it("takes options with the values true and false", function()
    local _, notes = nvim:run [[
      for _, command in ipairs { "start native=false", "stop", "start native=true", "stop", "start native=maybe" } do
        vim.cmd("Perf " .. command)
      end
    ]]
    local started = "Perf: profiling task-clock; :Perf stop shows the result"
    assert.same({ started, started, "Perf: option 'native': boolean expected, got string" }, notes)
  end)

  -- The story: after a modifier, such as :silent, nothing was completed.
  it("completes the command after modifiers and other commands", function()
    local found = nvim:run [[
      local complete, list = require "perf.nvim.command".complete, {} -- old getcompletion() stops at modifiers
      for i, before in ipairs { "silent ", "  ", ":", "vertical botright ", "echo 1 | ", "verbose 1 " } do
        local function of(rest) return complete(rest:match "%S*$", before .. rest, #before + #rest) end
        list[i] = { of "Perf! sta", of "Perf start page-f", of "Per  marks  o", of "Perf marks on o", of "Perf save a ./M" }
      end
      return list
    ]]
    assert.equal(6, #found)
    for _, of in ipairs(found) do assert.same({ { "start", "startup" }, { "page-faults" }, { "on", "off" }, {}, {} }, of) end
  end)

  it("completes commands, events and options", function()
    local found = nvim:run [[
      local function of(line) return vim.fn.getcompletion(line, "cmdline") end
      return { of "Perf sta", of "Perf start page-f", of "Perf start fre", of "Perf marks o", of "Perf stop x" }
    ]]
    assert.same({ { "start", "startup" }, { "page-faults" }, { "freq=" }, { "on", "off" }, {} }, found)
  end)
end)
