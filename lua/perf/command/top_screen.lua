-- The screen of luaperf top: an interval as text, and the keys that choose what it has.
local format = require "perf.base.format"
local host = require "perf.kernel.host"
local report = require "perf.profile.report.top"
local text = require "perf.profile.report.frame_names"
local utf8 = require "perf.base.utf8"

local M = {}

local Screen = {}
Screen.__index = Screen

local HELP = [[
q          end                            h ?        this help, and back
l f z      lines, functions, or zones     o t        sorted by their own, or by their total weight
a          each interval, or all since the beginning
0          begin anew                     space      end the interval now
p          pause, and go on               + -        longer or shorter intervals
d          type the length of intervals   w          all processes together, or the next one alone]]

local HEADINGS = { lines = "Lua line", functions = "function", zones = "zone" }
local SHORTEST, LONGEST = 0.1, 3600 -- seconds, by the keys + and -

-- Which part of the whole was where: {{name, weight}, ...}.
local function shares(prof)
  local order = { "Lua", "C", "(garbage collector)", "(JIT compiler)", "(outside Lua)", "(unsampled)" }
  local sums, usual = {}, {}
  for _, name in ipairs(order) do usual[name] = true end
  for _, sample in ipairs(prof:samples()) do
    local f = sample.stack[1]
    local name = "Lua"
    if not f or f.kind == "state" then
      name = f and f.name or "(unsampled)"
    elseif not f.file then
      name = "C"
    end
    if name == "(C function)" then name = "C" end
    if not sums[name] and not usual[name] then order[#order + 1] = name end
    sums[name] = (sums[name] or 0) + text.number(sample.weight)
  end
  local list = {}
  for _, name in ipairs(order) do
    if sums[name] then list[#list + 1] = { name, sums[name] } end
  end
  return list
end
M.shares = shares

-- The line of the rate and of the shares.
function M.summary(prof)
  local top = report.whole(prof, 0)
  local seconds = text.number(prof.duration_ns) / 1e9
  local rate = seconds > 0 and top.total / seconds or 0
  local parts = { top.unit == "ns" and ("%.2f s"):format(rate / 1e9) or format.commas(math.floor(rate + 0.5)) }
  parts[1] = parts[1] .. " a second"
  for _, share in ipairs(shares(prof)) do
    parts[#parts + 1] = ("%s %s%%"):format(share[1], text.percent(share[2], top.total))
  end
  return table.concat(parts, ", ")
end

function M.new(opts)
  return setmetatable({ delay = opts.delay or 2, rows = opts.n, zone = opts.zone, pids = opts.pid,
    table = "lines", order = "self" }, Screen)
end

-- The processes that can be shown alone: the given ones and their children, of which those that have children are left out, since
-- a profile has the children of its process.
local function processes(pids)
  local list, seen = {}, {}
  local function add(pid)
    local children = not seen[pid] and host.descendants(pid) or {}
    if not seen[pid] and #children == 0 then list[#list + 1] = pid end
    seen[pid] = true
    for _, child in ipairs(children) do add(child) end
  end
  for _, pid in ipairs(pids) do add(pid) end
  table.sort(list)
  return list
end

local keys = {}

keys["q"] = function() return "end" end
keys["h"] = function(s) s.help = not s.help end
keys["?"] = keys["h"]
keys["l"] = function(s) s.table = "lines" end
keys["f"] = function(s) s.table = "functions" end
keys["z"] = function(s) s.table = "zones" end
keys["o"] = function(s) s.order = "self" end
keys["t"] = function(s) s.order = "total" end
keys["p"] = function(s)
  s.paused = not s.paused
  return not s.paused and "show" or nil
end
keys[" "] = function() return "show" end
keys["a"] = function(s)
  s.all = not s.all
  return "show"
end
keys["0"] = function() return "anew" end
keys["+"] = function(s) s.delay = math.min(LONGEST, s.delay * 2) end
keys["-"] = function(s) s.delay = math.max(SHORTEST, s.delay / 2) end
keys["d"] = function(s) s.typed = "" end

-- Choose the next process after the one that is shown alone; all together after the last.
function Screen:next_process()
  local after = self.alone or 0
  self.alone, self.paused = nil, nil
  for _, pid in ipairs(processes(self.pids)) do
    if pid > after then
      self.alone = pid
      break
    end
  end
end

keys["w"] = function(s)
  s:next_process()
  return "process"
end

-- A key while a number is typed.
local function type_number(s, key)
  if key == "\n" or key == "\r" then
    local n = tonumber(s.typed)
    s.typed = nil
    if n and n > 0 and n <= LONGEST then s.delay = n end
  elseif key == "\27" then
    s.typed = nil
  elseif key == "\127" or key == "\8" then
    s.typed = s.typed:sub(1, -2)
  elseif key:find "[%d.]" then
    s.typed = s.typed .. key
  end
end

-- Do what a key asks for.
-- @return "end", "show" (end the interval now), "anew" or "process" (`alone` has changed); nil: only draw again
function Screen:key(key)
  self.note = nil
  if self.typed then return type_number(self, key) end
  return keys[key] and keys[key](self)
end

-- The line that says what is shown, and how.
local function status(s)
  if s.typed then return ("seconds of an interval: %s_ (Enter)"):format(s.typed) end
  local parts = { s.all and "since the beginning" or ("each %g s"):format(s.delay) }
  if s.alone then
    parts[2] = ("process %d (%s) alone"):format(s.alone, host.line(("/proc/%d/comm"):format(s.alone)) or "ended")
  end
  if s.zone then parts[#parts + 1] = "zone " .. utf8.line(s.zone) end
  if s.paused then parts[#parts + 1] = "paused" end
  return table.concat(parts, ", ") .. "; h: keys" .. (s.note and "\n" .. s.note or "")
end

-- The text for a terminal.
-- @param[opt] prof nil: there is none yet
-- @int rows of the terminal; 0: unknown
function Screen:text(prof, rows)
  if self.help then return format.folded(HELP) end
  if not prof then return status(self) .. "\n\nthe first interval has not ended yet" end
  local top = prof:top()
  local above = ("%s\n%s\n%s\n\n"):format(report.title(top), format.folded(M.summary(prof)), format.folded(status(self)))
  local list = top[self.table]
  if #list == 0 then return above .. (self.table == "zones" and "no zones" or "no samples") end
  local room = rows > 0 and rows - select(2, above:gsub("\n", "")) - 3 or report.SHOWN -- the heading, the rest, the last row
  top.n = math.max(1, math.min(self.rows or room, room))
  report.sort(list, self.order)
  return above .. report.part(top, HEADINGS[self.table], self.table)
end

-- The text of an interval, for a file.
function M.plain(prof, n)
  local top = prof:top(n)
  local title = report.title(top)
  return title .. "\n" .. M.summary(prof) .. tostring(top):sub(#title + 1)
end

-- The bytes that draw a text over what the terminal shows, without a flicker.
function M.drawn(body) return "\27[H" .. (body .. "\n"):gsub("\n", "\27[K\n") .. "\27[J" end

return M
