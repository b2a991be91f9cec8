--- For any text as an event's name, the answer is an event, nil with a reason, or an error at the caller's line: never another
-- error, and no file outside of the machine's directories is read.
--
-- The texts are pieces of names, joined and then damaged by a generator with a fixed seed ($FUZZ_SEED), so that a failure can be
-- reproduced. $FUZZ_ROUNDS is the number of rounds; the message of a failure has the text.
local golden = require "spec.support.golden"
local names = require "perf.names"

local state = tonumber(os.getenv("FUZZ_SEED") or 1)

-- 0 to n - 1, the same on every interpreter.
local function random(n)
  state = (state * 16807) % 2147483647
  return state % n
end

local whole = {
  "cycles:u", "page-faults", "L1-dcache-load-misses:k", "r1a8:upp", "1:2", "mem:0x1000/8:rw:u", "mem:4096/name=a,period=1/k",
  "sched:sched_switch:u", "cpu/event=0x3c,umask=1/u", "cpu/mem-loads,ldat=30/P", "uncore_imc/cas_count_read/",
  "power/energy-pkg/", "cycles/period=1000,name='a b'/uk", "software/page-faults/", "energy-pkg", "cpu_core/cycles/D",
}

local pieces = {
  "cycles", "llc", "r1a8", "1", "0x3c", "18446744073709551615", "mem", "mem:0x1000", "cpu", "cpu_core", "uncore_imc",
  "uncore_imc_1*", "power", "software", "sched", "sched_switch", "event", "umask", "ldat", "mem-loads", "energy-pkg",
  "config", "config1", "period", "freq", "name", "time", "call-graph", "fp", "branch_type", "any", "..", ".", "*", "?",
  "u", "k", "ppp", "P", "W", "rw", "x", "/", "/", "/", ":", ":", ":", "=", "=", ",", ",", "{", "}", "'", " ", "@", "%",
  "%s", "\0", "\n", "\255", "-", "_", "[", "(", "^",
}

local function text()
  local out = {whole[1 + random(2 * #whole)]}
  if not out[1] then
    for i = 1, 1 + random(9) do out[i] = pieces[1 + random(#pieces)] end
  end
  local s = table.concat(out)
  for _ = 1, random(4) do
    local at, how = random(#s + 1), random(4)
    if how == 0 then
      s = s:sub(1, at) .. string.char(random(256)) .. s:sub(at + 1)
    elseif how == 1 then
      s = s:sub(1, at) .. s:sub(at + 2)
    elseif how == 2 then
      s = s:sub(1, at) .. pieces[1 + random(#pieces)] .. s:sub(at + 1)
    else
      s = s:sub(1, at) .. s:sub(random(#s + 1) + 1)
    end
  end
  return s
end

-- Luassert's functions would take more time than the tested ones, millions of times.
local function check(good, s, what)
  if not good then error(("%q: %s"):format(s, tostring(what)), 2) end
end

local function same(a, b)
  if type(a) ~= "table" or type(b) ~= "table" then return a == b end
  for key, value in pairs(a) do
    if not same(value, b[key]) then return false end
  end
  for key in pairs(b) do
    if a[key] == nil then return false end
  end
  return true
end

local function blamed(message)
  return type(message) == "string" and message:find("names_spec.lua:%d+: bad argument #1") ~= nil
end

describe("damaged names", function()
  local m
  setup(function() m = golden.machines() end)
  teardown(function() golden.remove(m) end)

  local open, opened = io.open, nil
  before_each(function()
    requires { nostress = true }
    opened = {}
    io.open = function(path, mode) -- luacheck: ignore 122
      opened[path] = true
      return open(path, mode)
    end
  end)
  after_each(function()
    io.open = open -- luacheck: ignore 122
  end)

  it("give an event, a refusal or an error with the caller's line", function()
    local machines = {m.server, m.hybrid, m.bare, m.deaf}
    local count = {event = 0, refused = 0, mistake = 0}
    local rounds = tonumber(os.getenv("FUZZ_ROUNDS") or 2000)
    for round = 1, rounds do
      local s = text()
      local machine = machines[1 + round % #machines]
      local ok, found, message = pcall(machine.resolve, machine, s)
      if not ok then
        check(blamed(found), s, found)
        count.mistake = count.mistake + 1
      elseif found then
        check(#found.attrs > 0 and type(found.label) == "string", s, found.label)
        check(same(found, machine:resolve(found)), s, "resolved again it is another")
        count.event = count.event + 1
      else
        check(type(message) == "string" and message ~= "", s, message)
        count.refused = count.refused + 1
      end
      local fine, parts = pcall(names.split, s)
      check(fine and #parts > 0 or blamed(parts), s, parts)
      fine, parts = pcall(names.expand, s)
      check(fine and #parts > 0 or blamed(parts), s, parts)
    end
    assert.is_true(count.event > rounds / 40 and count.refused > rounds / 200 and count.mistake > rounds / 2,
      ("%d events, %d refused, %d mistakes"):format(count.event, count.refused, count.mistake))
    for path in pairs(opened) do
      local below = false
      for _, root in ipairs(m.roots) do below = below or path:sub(1, #root + 1) == root .. "/" end
      assert.is_true(below, path)
      assert.is_nil(path:find("/%.%.?/"), path)
      assert.is_nil(path:find("/%.%.?$"), path)
    end
  end)
end)
