--- The samples of a profiler, by stack: a plain table that is made once and not changed afterwards. It prints as the table of
-- `Profile:top`.
--
-- A frame is a table that all stacks share: `name`, its text ("file:line function"); `func`, the function's name; for Lua code
-- `file`, `line`, the line that ran, and `linedefined`; `kind`: "lua"; "range", compiled code of one of the lines from `line` to
-- `lastline`; "c", a C function; "builtin", one of Lua's own; "native" and "kernel", code in the call chain, with `module` and
-- `address`; "jit", compiled Lua code in a call chain; "state", for time outside of all these: "(outside Lua)", "(C function)",
-- "(garbage collector)", "(JIT compiler)", "(other)", "(unsampled)".
-- @classmod Profile
local pairs_of = require "perf.base.pairs"
local argument = require "perf.base.argument"
local core = require "perf.core"
local formats = require "perf.profile.report.formats"

local Profile = {}
Profile.__index = Profile
Profile.__name = "perf.Profile"

-- Make a Profile. A host that must not be blocked sets its field `stream`, {put=, pause=}: then a report passes its parts to
-- put(text) and calls pause() between them, and returns nothing.
-- @tab fields see above
-- @tab samples the result of `samples`
-- @tab[opt] timeline `moments`, for core.moment; `place(node)`, its sample
function Profile.new(fields, samples, timeline)
  local prof = {}
  for k, v in pairs_of(fields) do prof[k] = v end
  prof.list, prof.moments = samples, timeline
  return setmetatable(prof, Profile)
end

--- Every different stack, the heaviest first.
-- @treturn {table,...} `{stack=, weight=, count=, zone=}`: `stack` is an array of frames, the innermost first; `weight` its part
-- of the event's count, in the profile's unit; `count` its samples; `zone` the label of `perf.zone` in which it ran, or nil
function Profile:samples() return self.list end

local nowhere = { { name = "(unsampled)", func = "(unsampled)", kind = "state" } }

--- The single samples, in the order of their times, if the profiler was made with `timeline`.
--
--     for m in prof:timeline() do print(m.time, m.weight, m.stack[1].name) end
--
-- @treturn function iterator of `{time=, addr=, cpu=, weight=, stack=, zone=}`: `time` in nanoseconds of CLOCK_MONOTONIC; `addr`
-- for events that have one (page faults, breakpoints), else 0; `weight`, `stack` and `zone` as in `samples`, with the same sum
-- @raise without `timeline`
function Profile:timeline()
  local t = self.moments
  if not t then argument.raise("the profiler was made without the option 'timeline'", 0) end
  local i = 0
  return function()
    i = i + 1
    local time, addr, cpu, weight, node = core.moment(t.moments, i)
    if not time then return nil end
    local sample = t.place(node)
    return { time = time, addr = addr, cpu = cpu, weight = weight, stack = sample and sample.stack or nowhere,
      zone = sample and sample.zone }
  end
end

-- Reports: each is a module perf.profile.report.NAME, whose function NAME gets the profile and the method's arguments.
local reports = { "top", "diff" }
for _, format in ipairs(formats) do reports[#reports + 1] = format.name end
for _, name in ipairs(reports) do
  Profile[name] = function(...) return require("perf.profile.report." .. name)[name](...) end
end
argument.check_methods(Profile, "Profile", "samples timeline " .. table.concat(reports, " "))

-- The table of `top`.
function Profile:__tostring() return tostring(self:top()) end

return Profile
