-- A Neovim of its own for specs: directories for its configuration and plugins, and runs of Lua code in it.
local busted = require "busted"
local util = require "spec.support.util"

local M = {}
M.__index = M

local plugin = { -- files of the packages in "pack/made/start"
  ["slow.nvim/lua/slow.lua"] = [[
local M = {}

function M.burn(n)
  local t = {}
  for i = 1, n do t[i % 100] = tostring(i) end -- burns
  return t
end

function M.sorts(n)
  local list = {}
  for i = 1, 100 do list[i] = i end
  for _ = 1, n do
    vim.tbl_map(tostring, list) -- works in the runtime
  end
end

return M
]],
  ["quick.nvim/lua/quick.lua"] = [[
return function() return 1 end
]],
  ["faults.nvim/lua/faults.lua"] = [[
local ffi = require "ffi"
ffi.cdef "void *mmap(void *, size_t, int, int, int, long); int madvise(void *, size_t, int); int getpagesize(void);"
local size = ffi.C.getpagesize()

return function(pages)
  local memory = ffi.cast("char *", ffi.C.mmap(nil, pages * size, 3, 0x22, -1, 0))
  ffi.C.madvise(memory, pages * size, 15) -- no huge pages
  for i = 0, pages - 1 do memory[i * size] = 1 end -- faults
end
]],
}

--- Makes a Neovim for each spec of the describe block that calls this. Its plugins are slow.nvim, quick.nvim and faults.nvim.
-- @tab needs what the specs require of the machine
function M.each(needs)
  local self = setmetatable({}, M)
  busted.before_each(function()
    requires(needs)
    self:open()
  end)
  busted.after_each(function() self:close() end)
  return self
end

-- Make its directories.
function M:open()
  self.dir = util.new_directory()
  self.packages = self.dir .. "/data/nvim/site/pack/made/start"
  for name, text in pairs(plugin) do self:write(self.packages .. "/" .. name, text) end
  self.here = os.getenv "PWD"
  self:init ""
end

function M.write(_, path, text)
  util.execute(("mkdir -p '%s'"):format(path:match "^(.*)/"))
  util.write_file(path, text)
end

--- Sets the text of init.lua, after a line that adds this repository's plugin.
function M:init(text)
  self:write(self.dir .. "/config/nvim/init.lua", ("vim.opt.runtimepath:append '%s/nvim'\n%s"):format(self.here, text))
end

--- The path of a plugin's file, and the number of the line that has a text.
function M:line(name, text)
  local path = self.packages .. "/" .. name
  return path, tonumber(util.line_of(path, text):match "%d+$")
end

local script = [[
local notes = {} -- messages of vim.notify
vim.notify = function(text) notes[#notes + 1] = text end
local function lines() return vim.api.nvim_buf_get_lines(0, 0, -1, false) end
local function run() %s
end
local ok, value = xpcall(run, debug.traceback)
local file = io.open(%q, "w")
file:write("return ", vim.inspect { ok = ok, value = value, notes = notes })
file:close()
vim.cmd "qall!"
]]

--- Runs code in Neovim without a user interface. Returns its result, which must be plain data, and the messages of vim.notify.
-- @string[opt] env assignments of environment variables, for the shell
-- @string[opt] args more arguments of Neovim
function M:run(code, env, args)
  local path, out = self.dir .. "/script.lua", self.dir .. "/result.lua"
  os.remove(out)
  util.write_file(path, script:format(code, out))
  local words = { ("cd '%s' &&"):format(self.here) }
  for _, name in ipairs { "config", "data", "state", "cache" } do
    words[#words + 1] = ("XDG_%s_HOME='%s/%s'"):format(name:upper(), self.dir, name)
  end
  words[#words + 1] = ("%s '%s' --headless -n -i NONE %s -c 'luafile %s' 2>&1")
    :format(env or "", os.getenv "PERF_NVIM", args or "", path)
  local command = table.concat(words, " ")
  local output, status = util.shell(command)
  local result = loadfile(out)
  assert(result, ("Neovim ended with status %s: %s"):format(tostring(status), output))
  result = result()
  assert(result.ok, result.value)
  return result.value, result.notes
end

function M:close()
  if self.dir then util.remove_directory(self.dir) end
  self.dir = nil
end

return M
