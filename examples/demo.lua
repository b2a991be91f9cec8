--- Shows what lua-perf can do, on a real task: JSON in C (lua-cjson) compared with JSON in Lua (dkjson), on a document made from
-- this machine's own data.
--
--     make demo                          LuaJIT
--     make demo LUA=lua5.4               another interpreter
--     luajit examples/demo.lua 1e5       a document of about that many bytes
--
-- Ends with status 1 if anything fails.
local perf = require "perf"

io.stdout:setvbuf "line" -- a pipe gets the results so far, too

local SIZE = tonumber(arg and arg[1]) or 3e6 -- approximate bytes of JSON: more than the caches hold, and still quick

local function heading(text) print(("\n%s\n%s"):format(text, ("="):rep(#text))) end

local function fail(...)
  io.stderr:write("demo: ", string.format(...), "\n")
  os.exit(1)
end

local function first_line(path)
  local f = io.open(path)
  local line = f and f:read "*l"
  if f then f:close() end
  return line
end

---------------------------------------------------------------------------------------------------------------------
-- The document

-- "libc6 (>= 2.14), adduser | login" -> {"libc6 (>= 2.14)", "adduser | login"}
local function split(text)
  local list = {}
  for item in text:gmatch "[^,]+" do list[#list + 1] = item:match "^%s*(.-)%s*$" end
  return list
end

local LISTS = { Depends = true, ["Pre-Depends"] = true, Recommends = true, Suggests = true, Provides = true, Conflicts = true,
  Breaks = true, Replaces = true }

local function read_files(record)
  local base = "/var/lib/dpkg/info/" .. record.Package
  local f = io.open(base .. ".list") or io.open(("%s:%s.list"):format(base, record.Architecture or ""))
  if not f then return nil end
  local files, bytes = {}, 0
  for line in f:lines() do
    files[#files + 1] = line
    bytes = bytes + #line + 10 -- quotes, and a backslash before each slash
  end
  f:close()
  return files, bytes
end

-- Debian's package database: a record for each package, with as many of its files as fit.
local function packages()
  local f = io.open "/var/lib/dpkg/status"
  if not f then return nil end
  local list, record, field, room = {}, {}, nil, SIZE
  for line in f:lines() do
    local name, value = line:match "^([%w-]+): ?(.*)$"
    if line == "" then
      if record.Package then list[#list + 1] = record end
      record = {}
      if room < 0 then break end
    elseif name then
      field = name
      record[name] = LISTS[name] and split(value) or name == "Installed-Size" and tonumber(value) or value
    elseif field and type(record[field]) == "string" then
      record[field] = record[field] .. "\n" .. line:sub(2)
    end
    room = room - #line
  end
  f:close()
  for _, r in ipairs(list) do
    local files, bytes = read_files(r)
    if files and bytes < room then r.Files, room = files, room - bytes end
  end
  return #list > 0 and list or nil, "packages of /var/lib/dpkg, with their files"
end

-- On other systems: the kernel's symbols, a record for each.
local function symbols()
  local f = io.open "/proc/kallsyms"
  if not f then return nil end
  local list, room = {}, SIZE
  for line in f:lines() do
    local address, kind, name, module = line:match "^(%x+) (%S) (%S+)%s*%[?([^%]]*)"
    if name then list[#list + 1] = { address = address, kind = kind, name = name, module = module, line = #list + 1 } end
    room = room - #line - 50
    if room < 0 then break end
  end
  f:close()
  return #list > 0 and list or nil, "symbols of /proc/kallsyms"
end

---------------------------------------------------------------------------------------------------------------------
-- The libraries

local function library(name)
  local ok, lib = pcall(require, name)
  if ok then return { name = name, encode = lib.encode, decode = function(text) return (lib.decode(text)) end } end
  print(("%s is not installed, so it is left out. On Debian: apt-get install lua-%s"):format(name, (name:gsub("^lua%-", ""))))
end

local function same(a, b)
  if type(a) ~= "table" or type(b) ~= "table" then return a == b end
  for k, v in pairs(a) do
    if not same(v, b[k]) then return false end
  end
  for k in pairs(b) do
    if a[k] == nil then return false end
  end
  return true
end

---------------------------------------------------------------------------------------------------------------------

local function about_this_machine()
  heading "This machine"
  local source = (perf.measure(function() end)).source
  local counting = {
    hardware = "counted by the CPU and by the kernel",
    software = "counted by the kernel; this machine has no hardware counters, so no cycles or instructions",
    rusage = "from the kernel's accounting; perf_event_open is refused here",
  }
  print(("kernel       Linux %s"):format(first_line "/proc/sys/kernel/osrelease" or "of an unknown version"))
  print(("interpreter  %s"):format(type(jit) == "table" and jit.version or _VERSION))
  print(("events       %s"):format(counting[source]))
end

-- One measurement of each library. The results, which perf.measure returns after the Counts, must be the same.
local function measure_each(libs, what, argument, expected)
  local counts = {}
  for i, lib in ipairs(libs) do
    heading(("perf.measure(%s.%s, %s)"):format(lib.name, what, what == "decode" and "text" or "value"))
    collectgarbage() -- earlier garbage would be counted here
    local result
    counts[i], result = perf.measure(lib[what], argument)
    print(counts[i])
    if what == "encode" then result = lib.decode(result) end
    if not same(result, expected) then fail("%s.%s does not give what it should", lib.name, what) end
  end
  if #libs == 2 then
    print(("\nOne call each: %s took %.1f times as long. Once is no proof: perf.compare takes turns, below."):format(
      libs[2].name, counts[2].wall_ns / counts[1].wall_ns))
  end
end

local function compare(libs, what, argument)
  heading(("perf.compare{%s, %s}: %s"):format(libs[1].name, libs[2].name, what))
  local list = {}
  for i, lib in ipairs(libs) do
    local fn = lib[what]
    list[i] = { lib.name, function() return fn(argument) end }
  end
  local c, message = perf.compare(list, { repeats = 12, warmup = 1 })
  if not c then fail("perf.compare: %s", message) end
  print(c)
  local wall = c.wall.candidates[libs[2].name]
  print(("\nTwelve calls each, in turns and in random order: %s"):format(wall.real
    and ("%s is %s by the clock (95 %% sure: %.2f to %.2f times)."):format(libs[2].name,
      wall.verdict:gsub(", sure$", ""), wall.ratio_ci[1], wall.ratio_ci[2])
    or "by the clock the difference is not sure on this machine just now."))
end

print(("%s: %s"):format(tostring(perf), "events of the kernel and the CPU, counted for Lua functions"))
about_this_machine()

heading "The work"
local libs = {}
libs[#libs + 1] = library "cjson"
libs[#libs + 1] = library "dkjson"
if #libs == 0 then fail("neither cjson nor dkjson is here: nothing to measure") end

local value, where = packages()
if not value then value, where = symbols() end
if not value then fail("neither /var/lib/dpkg/status nor /proc/kallsyms can be read: no data") end
local text = libs[1].encode(value)
local size = #text < 1e6 and ("%.0f KB"):format(#text / 1e3) or ("%.1f MB"):format(#text / 1e6)
print(("%d %s: %s of JSON, decoded and encoded by %s"):format(#value, where, size,
  #libs == 2 and "cjson (written in C) and by dkjson (written in Lua)" or libs[1].name))

measure_each(libs, "decode", text, value)
measure_each(libs, "encode", value, value)
if #libs == 2 then
  compare(libs, "decode", text)
  compare(libs, "encode", value)
end

heading "Next"
local name = type(jit) == "table" and "luajit" or "lua" .. _VERSION:match "[%d.]+"
print(([[
eval "$(make -s env%s)"; %s

> perf = require "perf"
> print(perf.doctor())                 -- shows what works here, what does not, and the remedies
> print(perf.list "fault")             -- events by name
> print((perf.measure("page-faults:u,minor-faults:u", string.rep, "x", 1e7)))
> print(perf.bench(function() return ("x"):rep(1000):find "y" end))

More to try: examples/*.lua]]):format(name == "luajit" and "" or " LUA=" .. name, name))
