-- Every block of Lua in README.md, CONTRIBUTING.md and doc/*.md runs, and prints what the page shows. spec/support/pages.lua
-- describes how a page marks what cannot run here. page_commands_spec.lua runs the commands.
-- Twice: it checks the pages; what they show has its own specs on each interpreter.
local pages = require "spec.support.pages"
local util = require "spec.support.util"

describe("the Lua of the pages runs:", function()
  pages.each_program("lua", it, pending)
end)

describe("a block of a page", function()
  local function block(kind, code, output)
    return { kind = kind, code = code, setup = "", needs = {}, output = output and { code = output, needs = {} } }
  end

  it("fails if its program fails, or prints other text than the page shows", function()
    pages.run(block("lua", "print(1 + 1)\n", "2\n"))
    assert.matches("attempt to call", util.message_of(pages.run, block("lua", "nothing()\n")))
    assert.matches("the page has:\nthree\nbut", util.message_of(pages.run, block("lua", "print 'two'\n", "three\n")))
    assert.matches("exit", util.message_of(pages.run, block("sh", "echo exit; false\n")))
    assert.matches("the page has:\nthree\nbut", util.message_of(pages.run, block("console", "$ echo two\nthree\n")))
    assert.matches("the page has:\nnil\nbut", util.message_of(pages.run, block("console", "> =1 == 1\nnil\n")))
  end)
end)
