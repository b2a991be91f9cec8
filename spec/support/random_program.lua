--- Random programs with page faults on known lines, whose functions LuaJIT compiles into their callers.
local page_fault = require "spec.support.page_fault"
local perf = require "perf"

local jit = rawget(_G, "jit")
local random_program = {}

local EVENT = "FAULT"
local SIMPLE = {
  "s = s + 1", "s = s * 3 % 101", "U = U + 1", "U = s", "t[#t % 8 + 1] = s", "buf[s % 8] = s", "s = s + #tostring(s)",
  "s = s + #(tostring(s) .. 'x')", "t[1] = { s, s + 1 }", "s = floor(s) + 1", "s = floor(sin(s) * 1000)", "o.n = o.n + s % 3",
  "s = s + o.n % 5", "s = s % 7 + t3[s % 3 + 1]", "U = U + s % 5 s = s + 1", "buf[0] = buf[0] + s", "s = s + buf[1]",
  "s = band(s, 1023)", "s = max(s, 3) - min(s, 7)", "s = s + #t",
}
local HEAD = [[
local U, tostring, floor, sin, max, min, ipairs, pcall = 0, tostring, math.floor, math.sin, math.max, math.min, ipairs, pcall
local band = bit.band
local t, t3, o, buf = {}, { 1, 2, 3 }, { n = 0 }, require("ffi").new("double[8]")
local m = setmetatable({}, { __unm = function()
FAULT
return 2 end })]]

--- Makes the text of a program. It returns a function with the number of rounds as parameter. A seed always makes the same text.
function random_program.text(seed)
  local x = (seed * 7919 + 12345) % 2147483646 + 1
  local lines, functions, loops = { HEAD }, {}, 0
  local block

  local function random(n)
    x = x * 16807 % 2147483647
    return math.floor(x / 2147483647 * n) + 1
  end
  local function one_of(list) return list[random(#list)] end
  local function line(...) lines[#lines + 1] = string.format(...) end

  local function call(known)
    local f, g = functions[random(known)], functions[random(known)]
    local shape = random(9)
    if shape == 1 then line("%s(s)", f)
    elseif shape == 2 then line("s = %s(s)", f)
    elseif shape == 3 then line("s = s + %s(s) %s(s)", f, g)
    elseif shape == 4 then line("%s %s(s)", EVENT, f)
    elseif shape == 5 then line("%s(s) %s", f, EVENT)
    elseif shape == 6 then line("s = %s(\ns + 1)", f)
    elseif shape == 7 then line("s = %s(s) +\n%s(s) %% 5", f, g)
    elseif shape == 8 then line("pcall(%s, s)", f)
    else line("s = %s(s) %% 1000 %s", f, one_of(SIMPLE)) end
  end

  local function branch(known, depth, in_loop)
    local divisor = random(4)
    line("if s %% %d == %d then", divisor + 1, random(divisor))
    block(known, depth - 1, random(3), in_loop)
    if random(2) == 1 then
      line "else"
      block(known, depth - 1, random(3), in_loop)
    end
    line "end"
  end

  local function loop(known, depth)
    loops = loops + 1
    local shape = random(6)
    if shape <= 3 then line("for j%d = 1, %d do", loops, one_of { 2, 3, 2, 3, 14, 60 })
    elseif shape == 4 then line("local j%d = 0 while j%d < %d do\nj%d = j%d + 1", loops, loops, one_of { 2, 3, 20 }, loops, loops)
    elseif shape == 5 then line "for _ in ipairs(t3) do"
    else line("local j%d = 0 repeat\nj%d = j%d + 1", loops, loops, loops) end
    local variable = loops
    block(known, depth - 1, random(4), true)
    line(shape == 6 and ("until j%d >= %d"):format(variable, random(4)) or "end")
  end

  local function statement(known, depth, in_loop)
    local kind = random(34)
    if kind <= 7 then line(EVENT)
    elseif kind <= 13 then line("%s", one_of(SIMPLE))
    elseif kind <= 18 and known > 0 then call(known)
    elseif kind == 19 then line "s = s + -m"
    elseif kind == 20 then line "DROPPED_BEFORE s = s +\n(TOUCHED and 1)"
    elseif kind <= 25 and depth > 0 then branch(known, depth, in_loop)
    elseif kind <= 29 and depth > 0 then loop(known, depth)
    elseif kind == 30 and in_loop then line("if s %% 7 == %d then break end", random(6))
    elseif kind == 31 then line("if s >= 0 and DROPPED and\nTOUCHED and\ns %% 3 ~= %d then %s end", random(2), one_of(SIMPLE))
    else line("%s %s", one_of(SIMPLE), random(3) == 1 and EVENT or one_of(SIMPLE)) end
  end

  function block(known, depth, n, in_loop)
    for _ = 1, n do statement(known, depth, in_loop) end
  end

  for i = 1, 1 + random(4) do
    line(random(6) == 1 and "local function g%d(...) local s = ..." or "local function g%d(s)", i)
    block(i - 1, 2, random(4), false)
    local last = random(6)
    if last == 1 and i > 1 then line("return %s(s %% 1000) end", functions[random(i - 1)])
    elseif last == 2 then line("s = s + 1 %s\nreturn s %% 1000 end", EVENT)
    elseif last == 3 then line "return s %% 997 end"
    elseif last == 4 then line("if s %% 3 == 1 then return %s end\nreturn s %% 1000 end", one_of { "1", "s + 1" })
    elseif last == 5 then line "return s %% 1000, 5 end"
    else line "return s %% 1000\nend" end
    functions[i] = "g" .. i
  end
  line "return function(n) local s = 1\nfor i = 1, n do"
  block(#functions, 2, 2 + random(6), true)
  line("%s\ns = s %% 1000\nend\nreturn s end", EVENT)
  return (table.concat(lines, "\n"):gsub("DROPPED_BEFORE", "C.page_fault_drop(at, size, 4)"))
end

-- The lines with a tail call. A function that has made one is not on the stack any more, but its line is not wrong.
local function tail_calls(text)
  local found, n = {}, 0
  for line in (text .. "\n"):gmatch "(.-)\n" do
    n = n + 1
    found[n] = line:find "^return g%d" ~= nil
  end
  return found
end

--- Runs a program in the interpreter: `first` rounds, and then `n` rounds, whose page faults are noted. Its tail calls become
-- calls.
-- @return the frames of the program at each fault, from the innermost one; nil if there are more than `most` faults
function random_program.truth(text, first, n, most)
  local truth = {}
  local TOO_MANY = {}
  local function touch()
    truth[#truth + 1] = page_fault.frames()
    if #truth > most then error(TOO_MANY, 0) end
    return 0
  end
  local C = { page_fault_drop = function() return 0 end, page_fault_touch = touch, page_fault_touched = touch }
  jit.off()
  local ok, err = pcall(function()
    local run = page_fault.program(text:gsub("return (g%d%b())", "return (%1)"), C)
    run(first)
    truth = {}
    run(n)
  end)
  jit.on()
  if not ok and err ~= TOO_MANY then error(err, 0) end
  return ok and truth or nil
end

local function holds(frame, truth)
  return frame.linedefined == truth.linedefined and frame.line <= truth.line and truth.line <= (frame.lastline or frame.line)
end

--- Compares the stack of a page fault with the truth.
-- @param tails the lines with a tail call
-- @return "line" if the innermost frame of the program has the line of the fault, "range" if it has lines with that, "caller" if
-- it is a caller at lines with the call; else nil
local function judge(stack, frames, tails)
  local found, level = {}, nil
  for _, frame in ipairs(stack) do
    if page_fault.in_program(frame) then found[#found + 1] = frame end
  end
  local got, i = found[1], 1
  for l, frame in ipairs(frames) do level = level or (got and holds(got, frame) and l) end
  if not level then return nil end
  for l = level + 1, #frames do -- the callers
    if not tails[frames[l].line] then
      i = i + 1
      if not (found[i] and holds(found[i], frames[l])) then return nil end
    end
  end
  return level > 1 and "caller" or got.lastline and "range" or "line"
end

--- Judges a profile of a program's page faults.
-- @return how many faults are on their line, in a range with it, and at a caller; and a description of each other one
function random_program.compare(prof, text, truth)
  local tails, n, counts, wrong = tail_calls(text), 0, { line = 0, range = 0, caller = 0 }, {}
  for k, sample in page_fault.timeline(prof) do
    local verdict = truth[k] and judge(sample.stack, truth[k], tails)
    n = k
    if verdict then
      counts[verdict] = counts[verdict] + 1
    else
      local got, expected = {}, {}
      for i, frame in ipairs(sample.stack) do got[i] = frame.name end
      for i, frame in ipairs(truth[k] or {}) do expected[i] = frame.line end
      wrong[#wrong + 1] = ("fault %d: %s, not %s"):format(k, table.concat(got, " < "), table.concat(expected, " < "))
    end
  end
  assert(n == #truth, n)
  return counts.line, counts.range, counts.caller, wrong
end

--- Compiles a program, and profiles its page faults.
-- @param before how many rounds run before the profile, n how many in it
-- @param settings of jit.opt.start
-- @return as compare
function random_program.profile(text, truth, before, n, settings)
  jit.flush()
  jit.opt.start(unpack(settings))
  local run = page_fault.program(text)
  run(before)
  local prof = perf.profile({ event = "page-faults", period = 1, timeline = 1000 + 4 * #truth }, run, n)
  return random_program.compare(prof, text, truth)
end

return random_program
