-- The story: a chunk's name with a line break divided the row of print(perf.heap()), and an escape sequence in it reached the
-- terminal. h:save "x.txt" shortened the paths in the file to the width of the terminal on which the program ran. And on a
-- terminal of less than 32 columns, the table of types was wider than the terminal.
local core = require "perf.core"
local format = require "perf.base.format"
local perf = require "perf"
local utf8 = require "perf.base.utf8"
local util = require "spec.support.util"

local load = rawget(_G, "loadstring") or load

describe("the text of a Heap", function()
  local size, destination = core.terminal_size, format.destination
  local before, h

  -- The output goes to a terminal of some columns.
  local function at(columns)
    core.terminal_size = function(fd) return fd == 1 and 24 or 0, fd == 1 and columns or 0 end
    format.destination = 1
  end

  before_each(function()
    requires { heap = true }
    before = assert(perf.heap { collect = true })
    -- The text has only the ten largest paths, and earlier specs may have left several paths with some megabytes each.
    perf.kept = { [("a_long_name"):rep(15)] = { one = { ("x"):rep(1e7) }, two = {} } }
    perf.kept.fn = load("local t = ... return function() return t end", "=a\nname\27[31m")({ ("y"):rep(5e6), {} })
    h = assert(perf.heap { collect = true })
  end)

  after_each(function()
    core.terminal_size, format.destination = size, destination
    if h then h:close() end
    if before then before:close() end
    before, h, perf.kept = nil, nil, nil
  end)

  it("shows the bytes of a chunk's name that are not text by their numbers", function()
    for _, text in ipairs { tostring(h), tostring(h:diff(before)) } do
      assert.matches("\n +%+?5,%d%d%d,%d%d%d [^\n]*upvalue t %(a\\nname\\x1b%[31m:1%)", text)
      assert.is_nil(text:find "[^%C\n]")
    end
  end)

  it("fits every terminal", function()
    local diff = h:diff(before)
    for columns = 25, 130, 5 do -- a number of bytes may have 12
      at(columns)
      for _, text in ipairs { tostring(h), tostring(diff) } do
        for line in text:gmatch "[^\n]+" do assert.is_true(utf8.columns(line) <= columns, columns .. ": " .. line) end
      end
    end
  end)

  it("is whole in a file", function()
    at(50)
    local text
    util.with_directory(function(dir)
      assert(h:save(dir .. "/heap.txt"))
      text = util.read_file(dir .. "/heap.txt")
    end)
    assert.matches(("a_long_name"):rep(15), text, 1, true)
    assert.is_nil(tostring(h):find(("a_long_name"):rep(15), 1, true))
  end)
end)
