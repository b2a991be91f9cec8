-- The plugin for Neovim: how it finds the module, :checkhealth, :help, and to which plugin a file belongs.
local editor = require "spec.nvim.editor"
local util = require "spec.support.util"

describe("the plugin for Neovim", function()
  local nvim = editor.each { nvim = true }

  local build = os.getenv "BUILD" or "build"
  if not build:find "^/" then build = os.getenv "PWD" .. "/" .. build end

  -- A clone with the module for LuaJIT, or without it.
  local function clone(built)
    local dir = nvim.dir .. "/clone"
    util.execute(("mkdir -p '%s/build' && cp -r nvim lua '%s'"):format(dir, dir))
    if built then util.execute(("ln -s '%s/luajit' '%s/build/luajit'"):format(build, dir)) end
    nvim:write(nvim.dir .. "/config/nvim/init.lua", ("vim.opt.runtimepath:append '%s/nvim'\n"):format(dir))
    return dir
  end

  local alone = "LUA_PATH= LUA_CPATH="

  it("finds the module in its clone", function()
    local dir = clone(true)
    assert.equal(dir .. "/lua/perf/init.lua", nvim:run([[
      assert(require "perf.nvim".module())
      return package.searchpath("perf", package.path)
    ]], alone))
  end)

  it("says what to do without the module", function()
    local dir = clone(false)
    local _, notes = nvim:run([[vim.cmd "Perf start"]], alone)
    assert.same({ ("Perf: the module perf is not found: run `make LUA=luajit` in %s, or name its directory in "
      .. 'require("perf.nvim").setup {path =}'):format(dir) }, notes)
  end)

  -- The story: a failed require leaves a placeholder in package.loaded. The second try, in the clone, reported only a loop, and
  -- the next command took the placeholder, a number, for the module.
  it("finds the module in its clone if the search paths have only its part in Lua", function()
    clone(true)
    local partial = ("LUA_PATH='%s/lua/?.lua;%s/lua/?/init.lua' LUA_CPATH="):format(nvim.here, nvim.here)
    assert.matches("^lua%-perf ", nvim:run([[
      assert(not pcall(require, "perf"))
      return tostring(assert(require "perf.nvim".module()))
    ]], partial))
  end)

  it("says each time why the module cannot be loaded", function()
    local dir = clone(false)
    nvim:write(dir .. "/build/luajit/perf/core.so", "")
    local notes = select(2, nvim:run([[
      vim.cmd "Perf start"
      vim.cmd "Perf startup"
      vim.cmd "Perf measure 1"
      vim.cmd "checkhealth perf"
      notes[#notes + 1] = table.concat(lines(), "\n"):match "ERROR:? ([^\n]*)"
    ]], alone))
    assert.equal(4, #notes)
    for _, note in ipairs(notes) do assert.matches("the module perf cannot be loaded: .*perf.core", note) end
  end)

  it("finds the module in the directory that setup names", function()
    clone(false)
    local there = nvim.dir .. "/prefix"
    util.execute(("mkdir -p '%s/share/lua' '%s/lib/lua' && cp -r lua '%s/share/lua/5.1' && ln -s '%s/luajit' '%s/lib/lua/5.1'")
      :format(there, there, there, build, there))
    local found = nvim:run(([[
      local perf = require "perf.nvim"
      perf.setup { path = "/nowhere" }
      local list = { select(2, perf.module()) }
      perf.setup { path = %q }
      list[2] = tostring(assert(perf.module()))
      return list
    ]]):format(there), alone)
    assert.equal("/nowhere has no module perf for luajit: run `make LUA=luajit` there", found[1])
    assert.matches("^lua%-perf ", found[2])
  end)

  it("reports its health", function()
    requires { perf_open = "user", registers = true }
    local text = table.concat(nvim:run [[
      vim.cmd "checkhealth perf"
      return lines()
    ]], "\n")
    for _, words in ipairs { "OK:? lua%-perf [%d.]+, /", "OK:? from registers", "OK:? task%-clock\n", "OK:? page%-faults\n" } do
      assert.matches(words, text)
    end
    assert.is_nil(text:find "ERROR")
  end)

  it("has a page of help, which has every command", function()
    local found = nvim:run(([[
      vim.fn.mkdir("%s/help/doc", "p")
      vim.fn.writefile(vim.fn.readfile(%q), "%s/help/doc/perf.txt")
      vim.cmd "helptags %s/help/doc"
      vim.opt.runtimepath:prepend "%s/help"
      vim.cmd "help perf"
      local missing = {}
      for _, name in ipairs(vim.fn.getcompletion("Perf ", "cmdline")) do
        if vim.fn.search("^:Perf " .. name, "nw") == 0 then missing[#missing + 1] = name end
      end
      return { vim.fn.fnamemodify(vim.api.nvim_buf_get_name(0), ":t"), missing, #vim.fn.getcompletion("Perf ", "cmdline") }
    ]]):format(nvim.dir, nvim.here .. "/nvim/doc/perf.txt", nvim.dir, nvim.dir, nvim.dir))
    assert.same({ "perf.txt", {}, 12 }, found)
  end)

  it("has every command that its pages name", function()
    local known = {}
    for _, name in ipairs(nvim:run [[return vim.fn.getcompletion("Perf ", "cmdline")]]) do known[name] = true end
    local n = 0
    for _, page in ipairs { "doc/neovim.md", "nvim/doc/perf.txt" } do
      for name in util.read_file(page):gmatch ":Perf (%l+)" do
        assert.is_true(known[name], page .. " has :Perf " .. name)
        n = n + 1
      end
    end
    assert.is_true(n > 30)
  end)

  -- The story: a directory with a slash at its end was a plugin with the whole path as its name.
  it("tells the plugin of a directory in 'runtimepath' with a slash at its end", function()
    nvim:write(nvim.dir .. "/one.nvim/lua/one.lua", "")
    nvim:write(nvim.dir .. "/two.nvim/after/plugin/two.lua", "")
    local names = nvim:run((([[
      vim.opt.runtimepath:append "%s/one.nvim/"
      vim.opt.runtimepath:append "%s/two.nvim/after/"
      local plugins = require "perf.nvim.plugins"
      local plugin_of, list = plugins.namer(plugins.places()), {}
      for i, file in ipairs { "one.nvim//lua/one.lua", "one.nvim/lua/one.lua", "two.nvim/after//plugin/two.lua" } do
        list[i] = table.concat({ plugin_of("%s/" .. file) }, ": ")
      end
      return list
    ]]):gsub("%%s", nvim.dir)))
    assert.same({ "one.nvim: lua/one.lua", "one.nvim: lua/one.lua", "two.nvim: after//plugin/two.lua" }, names)
  end)

  it("tells the plugin of a file by its path", function()
    local names = nvim:run [[
      local plugins = require "perf.nvim.plugins"
      local places = { dirs = {
        { prefix = "/home/me/.local/share/nvim/lazy/listed.nvim/", name = "listed.nvim" },
        { prefix = "/usr/share/nvim/runtime/", name = plugins.RUNTIME },
        { prefix = "/home/me/.config/nvim/", name = plugins.CONFIG },
        { prefix = "/home/me/.local/share/nvim/site/", name = "(site)" },
      }, files = { ["/tmp/test.lua"] = plugins.CONFIG } }
      local plugin_of, list = plugins.namer(places), {}
      for i, file in ipairs { "/home/me/.config/nvim/lua/lazy/settings.lua",
        "/home/me/.config/nvim/pack/mine/start/one/lua/one.lua",
        "/home/me/.local/share/nvim/site/pack/packer/opt/two.nvim/lua/two.lua",
        "/home/me/.local/share/nvim/site/plugin/three.lua",
        "/home/me/.local/share/nvim/lazy/four.nvim/lua/four/init.lua",
        "/home/me/.local/share/nvim/lazy/lazy.nvim/lua/lazy/core/loader.lua",
        "/home/me/.local/share/nvim/lazy/listed.nvim/lua/l.lua",
        "/home/me/.vim/plugged/five/plugin/five.lua", "/usr/share/nvim/runtime/lua/vim/lsp.lua",
        "/usr/share/nvim/runtime/pack/dist/opt/matchit/plugin/matchit.vim", "vim/shared.lua", '[string ":lua"]', "/tmp/test.lua",
        "/opt/elsewhere.lua" } do
        list[i] = table.concat({ plugin_of(file) }, ": ")
      end
      return list
    ]]
    assert.same({ "(config): lua/lazy/settings.lua", "one: lua/one.lua", "two.nvim: lua/two.lua", "(site): plugin/three.lua",
      "four.nvim: lua/four/init.lua", "lazy.nvim: lua/lazy/core/loader.lua", "listed.nvim: lua/l.lua", "five: plugin/five.lua",
      "(Neovim runtime): lua/vim/lsp.lua", "(Neovim runtime): pack/dist/opt/matchit/plugin/matchit.vim",
      "(Neovim runtime): vim.shared", '(commands): [string ":lua"]', "(config): test.lua", "(other): /opt/elsewhere.lua" }, names)
  end)
end)
