--- perf.profile and its reports: a program's time and page faults, by Lua line.
--
--     luajit examples/profile.lua [directory for the reports]
local perf = require "perf"

local dir = arg and arg[1] or os.getenv "TMPDIR" or "/tmp"

local function words(text)
  local seen, n = {}, 0
  for word in text:gmatch "%a+" do
    if not seen[word] then seen[word], n = true, n + 1 end
  end
  return n
end

local function table_of(n)
  local t = {}
  for i = 1, n do t[i] = { i, tostring(i) } end
  return t
end

local text = ("the quick brown fox jumps over the lazy dog "):rep(2000)

local function work(rounds)
  local n = 0
  for _ = 1, rounds do
    n = n + perf.zone("words", words, text)
    n = n + #table_of(20000)
  end
  return n
end

-- CPU time, 999 samples a second: the function's results follow the profile.
local before = assert(perf.profile(work, 2))
local prof, n = assert(perf.profile(work, 6))
print(prof)
print(("\nworked on %d things; of another run:\n\n%s"):format(n, tostring(prof:diff(before))))

-- Page faults, every one of them.
local faults = assert(perf.profile({ event = "page-faults", period = 1 }, table_of, 5e4))
print("\n" .. tostring(faults:top(3)))

-- As files. If a file cannot be written, the reason is returned, and the profile still exists.
for _, report in ipairs { { "flamegraph", "profile.html" }, { "speedscope", "profile.json" }, { "folded", "profile.folded" },
  { "pprof", "profile.pb.gz" }, { "perf_data", "profile.data" } } do
  local path = dir .. "/" .. report[2]
  local ok, message = prof[report[1]](prof, path)
  print(ok and "wrote " .. path or message)
end
print(select(2, prof:folded "/no/such/directory/profile.folded"))
