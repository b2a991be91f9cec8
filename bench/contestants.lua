--- The contestants: array of {id, title, command = function(row, groups) -> shell command, why = a missing requirement, ours,
-- inner = a second way inside this module, which only the table shows}.
--
-- A contestant is a program that gets the row's id and the groups (see floor.c for their format), prints "ready" or "none WHY",
-- and then answers each number N on its input with the cost of N repetitions; 0 ends it. BENCH_EXTRA="NAME=COMMAND;..." adds more
-- of them.
local M = {}

local function exists(path)
  local f = io.open(path)
  if f then f:close() end
  return f ~= nil
end

local function first_line(path)
  local f = io.open(path)
  local line = f and f:read "*l"
  if f then f:close() end
  return line
end

-- This module on one interpreter.
local function ours(id, title, build, lua, extra)
  local dir = build .. "/" .. lua
  local path = "LUA_PATH='lua/?.lua;lua/?/init.lua' LUA_CPATH='" .. dir .. "/?.so;;' BENCH_LUA=" .. lua
  return {
    id = id, title = title, ours = true, inner = extra ~= nil,
    why = not exists(dir .. "/perf/core.so") and ("make LUA=" .. lua .. " failed") or nil,
    command = function(row) return ("env %s %s %s bench/contestant.lua %s"):format(path, extra or "", lua, row) end,
  }
end

-- A program that mk/bench.mk builds; if it could not, NAME.why has the reason.
local function peer(id, title, build)
  local program = build .. "/bench/" .. id
  return {
    id = id, title = title,
    why = not exists(program) and (first_line(program .. ".why") or "not built") or nil,
    command = function(row, groups) return ("%s %s '%s'"):format(program, row, groups or "") end,
  }
end

--- All contestants, the floor first.
-- @param build the directory of builds
function M.all(build)
  local list = {
    peer("floor", "C, bare system calls", build),
    ours("luajit", "lua-perf, LuaJIT, FFI", build, "luajit"),
    ours("luajit-capi", "lua-perf, LuaJIT, C API", build, "luajit", "PERF_NO_FFI=1"),
    ours("lua5.4", "lua-perf, Lua 5.4", build, "lua5.4"),
    peer("papi", "PAPI (C)", build),
    peer("perf-event2", "perf-event2 (Rust)", build),
    peer("perf-utils", "perf-utils (Go)", build),
    peer("linux-perf-data", "linux-perf-data (Rust)", build),
    {
      id = "perf-script", title = "perf script",
      why = not exists(build .. "/bench/samples.data") and
        (first_line(build .. "/bench/samples.data.why") or "nothing was recorded") or nil,
      command = function(row) return ("bench/peers/perf-script.sh '%s/bench/samples.data' %s"):format(build, row) end,
    },
  }
  for id, command in (os.getenv "BENCH_EXTRA" or ""):gmatch "([^=;]+)=([^;]+)" do
    list[#list + 1] = { id = id, title = id,
      command = function(row, groups) return ("%s %s '%s'"):format(command, row, groups or "") end }
  end
  return list
end

return M
