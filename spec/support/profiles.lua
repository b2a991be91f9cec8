--- Makes profiles for the specs of reports.
local assert = require "luassert"
local lua_frame = require "perf.profile.lua_frame"
local Profile = require "perf.profile.profile"
local util = require "spec.support.util"

local profiles = {}

local MAIN = "app.lua:40 main chunk"

local kinds = { K = "kernel", N = "native", B = "builtin", C = "c", J = "jit", S = "state" }

-- "app.lua:12 parse" is a Lua line; in "K:do_page_fault" the letter is the kind of frame.
local function frame_of(text)
  local letter, rest = text:match "^(%u):(.+)$"
  if letter and kinds[letter] then
    return { name = rest, func = rest, kind = kinds[letter], module = letter == "N" and "/usr/lib/lib" .. rest .. ".so" or
      letter == "K" and "[kernel.kallsyms]" or nil, address = letter == "N" and 4096 or nil }
  end
  local frame = lua_frame.parse(text) or { name = text, func = text, kind = "lua" }
  frame.linedefined = frame.line and math.max(1, frame.line - frame.line % 10)
  return frame
end

--- A profile of stacks {weight =, count =, zone =, leaf, ..., root}; other fields are the profile's.
function profiles.new(t)
  local fields = { event = "task-clock", unit = "ns", lost = 0, freq = 999, started = 1700000000.5, duration_ns = 2e9, pid = 4711,
    tid = 4712, comm = "luajit" }
  local frames, list, total, count = {}, {}, 0, 0
  for i, s in ipairs(t) do
    local stack = {}
    for k, text in ipairs(s) do
      frames[text] = frames[text] or frame_of(text)
      stack[k] = frames[text]
    end
    list[i] = { stack = stack, weight = s.weight, count = s.count or 1, zone = s.zone }
    total, count = total + s.weight, count + (s.count or 1)
  end
  fields.total, fields.sample_count = total, count
  for key, value in pairs(t) do
    if type(key) == "string" then fields[key] = value end
  end
  return Profile.new(fields, list)
end

--- The profile of a small program: parse and render, with a builtin, the kernel, the collector and code outside Lua.
function profiles.program()
  return profiles.new {
    { weight = 50e6, count = 50, "app.lua:12 parse", "app.lua:31 main", MAIN },
    { weight = 20e6, count = 20, "B:string.find", "app.lua:14 parse", "app.lua:31 main", MAIN, zone = "input" },
    { weight = 10e6, count = 10, "K:do_anonymous_page", "N:memcpy", "app.lua:22 render", "app.lua:32 main", MAIN },
    { weight = 5e6, count = 5, "S:(garbage collector)", "app.lua:22 render", "app.lua:32 main", MAIN },
    { weight = 10e6, count = 10, "app.lua:25 walk", "app.lua:25 walk", "app.lua:25 walk", "app.lua:32 main", MAIN },
    { weight = 5e6, count = 5, "S:(outside Lua)" },
  }
end

--- Names that need escaping in the formats.
profiles.names = { 'quo"te', "<script>alert(1)</script>", "]]><!--", "sem;i", "new\nline", "back\\slash",
  "\\x3b \\n", "tab\there", "gr\195\188\195\159e \226\130\172 \240\159\148\165", "bad\255\128utf", "cr\rlf", "nul\0byte", "",
  " spaces ", "ends 12", "'&amp;%d%s" }

function profiles.nasty()
  local t = {}
  for i, name in ipairs(profiles.names) do t[i] = { weight = i, name, "app.lua:1 main chunk" } end
  return profiles.new(t)
end

function profiles.empty()
  return profiles.new {}
end

--- A million samples in n different stacks, some of which are deep.
function profiles.large(n)
  local frames = {}
  for i = 1, 2000 do frames[i] = frame_of(("module_%d.lua:%d function_%d"):format(i % 40, i, i)) end
  local seed, list = 42, {}
  local function random(m)
    seed = (seed * 16807) % 2147483647
    return seed % m
  end
  for i = 1, n do
    local stack, depth = {}, 8 + random(24)
    local at = 0
    for k = depth, 1, -1 do
      at = (at * 3 + 1 + random(k > depth - 4 and 2 or 4)) % 2000
      stack[k] = frames[at + 1]
    end
    list[i] = { stack = stack, weight = 1e6, count = math.floor(1e6 / n) }
  end
  local each = math.floor(1e6 / n)
  return Profile.new({ event = "task-clock", unit = "ns", total = n * 1e6, lost = 0, sample_count = each * n, freq = 999 }, list)
end

--- Writes a profile to a temporary perf.data file, calls fn with its name, and removes it and its symbols.
function profiles.with_perf_data(prof, fn)
  util.with_tmpname(function(path)
    assert.is_true(prof:perf_data(path))
    local ok, err = pcall(fn, path)
    os.remove(path .. ".symbols")
    if not ok then error(err, 0) end
  end)
end

return profiles
