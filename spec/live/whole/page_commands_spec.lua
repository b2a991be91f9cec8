-- Every command in README.md, CONTRIBUTING.md and doc/*.md runs, and prints what the page shows. spec/support/pages.lua describes
-- how a page marks what cannot run here. Once: it checks the pages; the commands have their own specs on each interpreter.
-- Later: each command of the pages starts programs.
local pages = require "spec.support.pages"
local util = require "spec.support.util"

local KINDS = { lua = true, sh = true, console = true, [""] = true, nginx = true, yaml = true, c = true }

describe("the commands of the pages run:", function()
  pages.each_program("sh", it, pending)
end)

describe("the comparison with a page's output", function()
  it("takes any number for a number, and a unit of its kind", function()
    assert.is_true(pages.matches("  17.9  ms  task-clock  # 0.99 CPUs\n", "8,123.1 us  task-clock # 1 CPUs\n"))
    assert.is_true(pages.matches("9.62 K/sec\n", "812 /sec\n"))
    assert.is_true(pages.matches("at 0x7f12\n", "at 0xdeadbeef\n"))
  end)

  it("takes a line of dots for any lines", function()
    assert.is_true(pages.matches("one\n...\nlast\n", "one\ntwo\nthree\nlast\n"))
    assert.is_true(pages.matches("one\n...\n", "one\ntwo\nthree\n"))
  end)

  it("finds other words, missing lines and further lines", function()
    assert.is_nil(pages.matches("page-faults\n", "page-fault\n"))
    assert.is_nil(pages.matches("one\ntwo\n", "one\n"))
    assert.is_nil(pages.matches("one\n", "one\ntwo\n"))
    assert.is_nil(pages.matches("n = 5\n", "n = nil\n"))
  end)
end)

describe("the pages", function()
  it("have code in fenced blocks of known languages only", function()
    for _, path in ipairs(pages.paths()) do
      for _, block in ipairs(pages.blocks(path)) do
        assert.is_true(KINDS[block.kind] ~= nil, ("%s: a block of language %q: %s"):format(block.name, block.kind, block.code))
      end
    end
  end)

  it("name targets that make has", function()
    local makefile = util.read_file "Makefile"
    for path in util.shell("ls mk/*.mk"):gmatch "%S+" do makefile = makefile .. "\n" .. util.read_file(path) end
    local seen = 0
    for _, path in ipairs(pages.paths()) do
      for target in util.read_file(path):gmatch "[`\n]make ([a-z][a-z0-9-]*)" do
        assert.is_truthy(makefile:find("\n" .. target:gsub("%-", "%%-") .. ":"), path .. ": make " .. target)
        seen = seen + 1
      end
    end
    assert.is_true(seen > 30)
  end)
end)

describe("the pictures of README.md", function()
  it("are made by tools/pictures.lua", function()
    requires { perf_open = true, nostress = true, file = "tools/pictures.lua" }
    local luaperf = require "spec.support.luaperf"
    util.with_directory(function(dir)
      local output, status = luaperf.shell(".", ("luaperf record -o %s/app.json examples/fast.lua && "
        .. "PATH=$root/bin:$PATH $LUA tools/pictures.lua %s %s/app.json"):format(dir, dir, dir))
      assert.equal(0, status, output)
      for _, name in ipairs { "flamegraph", "measurement" } do
        for _, path in ipairs { dir, "doc/images" } do
          local svg = util.read_file(path .. "/" .. name .. ".svg")
          assert.matches("^<svg xmlns=.*</svg>\n$", svg)
          assert.is_nil(svg:find("<script", 1, true))
          assert.is_true(#svg < 60000)
        end
      end
      assert.matches("page%-faults", util.read_file(dir .. "/measurement.svg"))
    end)
  end)
end)
