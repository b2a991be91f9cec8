-- :Perf marks: virtual text on the lines of a profile.
local editor = require "spec.nvim.editor"

describe(":Perf marks", function()
  local nvim = editor.each { nvim = true, perf_open = "user" }

  -- Functions for the scripts: the marks of the current buffer, by line.
  local marks = ([[
    local file = %q
    local function marks()
      local found = {}
      local space = vim.api.nvim_create_namespace "perf.nvim.marks"
      for _, mark in ipairs(vim.api.nvim_buf_get_extmarks(0, space, 0, -1, { details = true })) do
        found[mark[2] + 1] = mark[4].virt_text[1]
      end
      return found
    end
  ]])

  it("puts the weights on the lines of open buffers, and of those that are opened later", function()
    local path, number = nvim:line("slow.nvim/lua/slow.lua", "-- burns")
    local found = nvim:run(marks:format(path) .. [[
      vim.cmd("edit " .. file)
      vim.cmd "Perf start"
      require "slow".burn(2e6)
      vim.cmd "Perf stop"
      vim.cmd "wincmd p"
      local list = { marks() }
      vim.cmd "Perf marks"
      list[2] = marks()
      vim.cmd "bdelete"
      vim.cmd("edit " .. file)
      list[3] = marks()
      vim.cmd "Perf marks"
      list[4] = marks()
      vim.cmd "Perf marks on"
      list[5] = marks()
      vim.cmd "Perf marks on"
      list[6] = marks()
      vim.cmd "Perf clear"
      list[7] = marks()
      return list
    ]])
    for _, none in ipairs { 1, 4, 7 } do assert.same({}, found[none]) end
    for _, some in ipairs { 2, 3, 5, 6 } do
      local share = found[some][number][1]:match "^  ([%d.]+) %%  [%d.,]+ m?s"
      assert.is_true(tonumber(share) > 80, found[some][number][1])
      assert.equal("PerfHot", found[some][number][2])
      found[some][number] = nil
      assert.same({}, found[some]) -- all others are below half a percent, or in the runtime
    end
  end)

  it("finds the lines of a file that has changed since the profile", function()
    local path, number = nvim:line("slow.nvim/lua/slow.lua", "-- burns")
    local found = nvim:run(marks:format(path) .. [[
      vim.cmd "Perf start"
      require "slow".burn(2e6)
      vim.cmd "Perf stop"
      vim.cmd("edit " .. file)
      vim.api.nvim_buf_set_lines(0, 0, 0, false, { "-- a new line", "-- and another one" })
      vim.cmd "write"
      vim.cmd "Perf marks on"
      return vim.tbl_keys(marks())
    ]])
    assert.same({ number + 2 }, found)
  end)

  it("marks a line that was edited before the marks were shown", function()
    local path, number = nvim:line("slow.nvim/lua/slow.lua", "-- burns")
    local found = nvim:run(marks:format(path) .. [[
      vim.cmd("edit " .. file)
      vim.cmd "Perf start"
      require "slow".burn(2e6)
      vim.cmd "Perf stop"
      vim.cmd "wincmd p"
      vim.cmd "%s/-- burns/-- edited/"
      vim.api.nvim_buf_set_lines(0, 0, 0, false, { "-- a new line" })
      vim.cmd "Perf marks on"
      return vim.tbl_keys(marks())
    ]])
    assert.same({ number + 1 }, found)
  end)

  -- The story: the mark of a deleted line went to the next line, which had not run.
  it("removes the mark of a deleted line, and shows it again after undo", function()
    local path, number = nvim:line("slow.nvim/lua/slow.lua", "-- burns")
    local found = nvim:run(marks:format(path) .. [[
      if vim.fn.has "nvim-0.10" == 0 then return "marks cannot be removed" end
      vim.cmd("edit " .. file)
      vim.cmd "Perf start"
      require "slow".burn(2e6)
      vim.cmd "Perf stop"
      vim.cmd "wincmd p"
      vim.cmd "Perf marks on"
      local function valid()
        local list = {}
        local space = vim.api.nvim_create_namespace "perf.nvim.marks"
        for _, mark in ipairs(vim.api.nvim_buf_get_extmarks(0, space, 0, -1, { details = true })) do
          if not mark[4].invalid then list[#list + 1] = mark[2] + 1 end
        end
        return list
      end
      local list = { valid() }
      vim.cmd "g/-- burns/delete"
      list[2] = valid()
      vim.cmd "undo"
      list[3] = valid()
      return list
    ]])
    if found ~= "marks cannot be removed" then assert.same({ { number }, {}, { number } }, found) end
  end)

  it("marks the lines at each stop, if setup says so", function()
    local path, number = nvim:line("faults.nvim/lua/faults.lua", "-- faults")
    local found = nvim:run(marks:format(path) .. [[
      local perf = require "perf.nvim"
      perf.setup { marks = true, least = 50, event = "page-faults:u" }
      vim.cmd("edit " .. file)
      local fault = require "faults"
      fault(1)
      assert(perf.start { period = 1 })
      fault(3000)
      assert(perf.stop())
      return marks()
    ]])
    assert.matches("^  %d+%.%d %%  3,0%d%d", found[number][1])
    found[number] = nil
    assert.same({}, found)
  end)
end)
