-- The files, targets and names in README.md and the other pages exist. pages_spec.lua and page_commands_spec.lua run their code.
-- Once: it reads pages and looks for names.
local pages = require "spec.support.pages"
local util = require "spec.support.util"

-- Directories whose paths in the pages belong to this tree; results and built files may be missing.
local OURS = { csrc = true, lua = true, spec = true, tools = true, examples = true, doc = true, mk = true, bin = true }

local readme = util.read_file "README.md"
local measuring = util.read_file "doc/measuring.md"

describe("README and measuring", function()
  it("have at most 200 lines in README", function()
    assert.is_true(select(2, readme:gsub("\n", "")) <= 200)
  end)

  it("show the messages as they are", function()
    local perf = require "perf"
    local mistake, refusal = measuring:match '\n> =perf%.open "cyclse"\n([^\n]+)\n> =perf%.open "cycles"\n(.-)\n```'
    local ok, message = pcall(function()
      local ev = perf.open "cyclse"
      return ev
    end)
    assert.is_false(ok)
    assert.equal(mistake, (message:gsub("^.-:%d+: ", "")))
    local ev
    ev, message = perf.open "cycles"
    if ev then ev:close() end
    if message and message:find("this virtual machine has no", 1, true) then
      assert.equal((refusal:gsub("%s+", " ")), ("nil  " .. message .. "  ENOENT"):gsub("%s+", " "))
    end
  end)

  it("name, like the other pages, only files that exist", function()
    requires { file = "csrc/binding/core.c" } -- a guest has only the files that it runs
    local text, seen = {}, 0
    for _, path in ipairs(pages.paths()) do text[#text + 1] = util.read_file(path) end
    for path in table.concat(text):gsub("COMPONENT/", ""):gmatch "`([%w_.*-]+/[%w_./*-]+)`" do
      if OURS[path:match "^[^/]+"] then
        local name = util.shell("ls -d " .. path)
        assert.is_nil(name:find("No such file", 1, true), name)
        seen = seen + 1
      end
    end
    assert.is_true(seen > 50)
  end)

  it("explain each reason for a missing count, in the words of the library", function()
    local sources = util.read_file "lua/perf/counts/init.lua" .. util.read_file "lua/perf/event/opening.lua"
    local rows = util.read_file "doc/faq.md":match "| `why` says |[^\n]*\n[^\n]*\n(.-)\n\n"
    local seen = 0
    for words in rows:gmatch "| ([^|]-) |[^\n]+" do
      if not words:find "^the text of a refusal" then
        assert.is_truthy(sources:find(words, 1, true), words)
        seen = seen + 1
      end
    end
    assert.equal(7, seen)
  end)

  it("names events that are known", function()
    local perf = require "perf"
    local text = measuring:match "An event is a name as `perf stat %-e` takes it, with its modifiers: (.-); or a table"
    local seen = 0
    for name in text:gmatch "`([^`]+)`" do
      local ok, message = pcall(perf.attr, name)
      assert.is_true(ok or tostring(message):find("cpu", 1, true) ~= nil, tostring(message)) -- this machine may have no such PMU
      seen = seen + 1
    end
    assert.equal(6, seen)
  end)
end)
