-- Finds the Lua interpreter of a process, by the files that the process has mapped. Messages name it, and luaperf runs under it.
local core = require "perf.core"
local host = require "perf.kernel.host"

local M = {}

-- Texts in the interpreters' code, as their beginning and a pattern of what follows: LuaJIT's version, and the copyright of the
-- others. LuaJIT is first, since it has "Lua 5.1" too.
local marks = { { "luajit", "LuaJIT 2.", "^%d[^\n]*%z" } }
for _, version in ipairs { "5.1", "5.2", "5.3", "5.4" } do
  marks[#marks + 1] = { "lua" .. version, "Lua " .. version, "^[%. ][^\n]*Lua%.org, PUC%-Rio" }
end

local MOST = 64 * 2 ^ 20 -- bytes of a file that are read

-- A search for a plain text is many times as fast as one for a pattern, and most files have no interpreter.
local function has(bytes, beginning, rest)
  local _, at = bytes:find(beginning, 1, true)
  while at and not bytes:find(rest, at + 1) do _, at = bytes:find(beginning, at + 1, true) end
  return at ~= nil
end

-- The interpreter in a file: false if it has none, nil if it cannot be read.
local function of_file(path)
  local bytes = core.regular_file(path, MOST)
  if not bytes then return nil end
  for _, mark in ipairs(marks) do
    if has(bytes, mark[2], mark[3]) then return mark[1] end
  end
  return false
end

-- The interpreter of a process: "luajit", "lua5.1" to "lua5.4", or nil; the path of its program, and of the file that has the
-- interpreter.
function M.interpreter(pid)
  local program, seen, files = nil, {}, {}
  local proc = ("/proc/%d/"):format(pid)
  for from, to, perms, _, _, _, _, path in host.maps(pid) do
    if perms:find "x" and path:sub(1, 1) == "/" and not seen[path] then
      seen[path] = true
      -- A file that was replaced or deleted can still be read: by root under its addresses, and the program as exe.
      local mapped = ("%smap_files/%s-%s"):format(proc, from:match "[^0].*", to:match "[^0].*")
      local names = { mapped, not program and proc .. "exe" or proc .. "root" .. path, path, path = path }
      if path:find "[Ll]ua" then files[#files + 1] = names end
      program = program or { path = path, names = names }
    end
  end
  if not program then return nil end
  files[#files + 1] = program.names
  for _, names in ipairs(files) do
    local found
    for _, name in ipairs(names) do
      if found == nil then found = of_file(name) end
    end
    if found then return found, program.path, names.path end
  end
  return nil, program.path
end

-- The interpreter of the first of several processes that has one, or nil.
function M.first_interpreter(pids)
  for _, pid in ipairs(pids) do
    local found = M.interpreter(pid)
    if found then return found end
  end
end

-- This interpreter.
function M.own()
  return rawget(_G, "jit") and "luajit" or "lua" .. _VERSION:match "%d.%d"
end

return M
