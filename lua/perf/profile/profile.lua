--- The samples of a profiler, by stack: a plain table that is made once and not changed afterwards. It prints as the table of
-- `Profile:top`.
--
-- A frame is a table that all stacks share: `name`, its text ("file:line function"); `func`, the function's name; for Lua code
-- `file`, `line`, the line that ran, and `linedefined`; `kind`: "lua"; "range", compiled code of one of the lines from `line` to
-- `lastline`; "c", a C function; "builtin", one of Lua's own; "native" and "kernel", code in the call chain, with `module` and
-- `address`; "jit", compiled Lua code in a call chain; "state", for time outside of all these: "(outside Lua)", "(C function)",
-- "(garbage collector)", "(JIT compiler)", "(string table)", "(other)", "(unsampled)".
-- @classmod Profile
local late = require "perf.base.late"
local pairs_of = require "perf.base.pairs"
local argument = require "perf.base.argument"
local printed = require "perf.base.printed"
local strict = require "perf.api.strict"
local core = require "perf.core"
local copy = require "perf.base.copy"
local keys = require "perf.base.keys"
local formats = require "perf.profile.report.formats"
local plain = require "perf.profile.report.plain"

local Profile = {}
Profile.__index = Profile
Profile.__name = "perf.Profile"

-- Move the samples without a weight, which of live memory are those whose memory was freed, to an array of their own.
local function take_freed(list, pause)
  local kept, freed = 0, {}
  for i, sample in ipairs(list) do
    list[i] = nil
    printed.table(sample)
    printed.table(sample.stack)
    if sample.allocated and sample.weight == 0 and sample.count == 0 then
      freed[#freed + 1] = sample
    else
      kept = kept + 1
      list[kept] = sample
    end
    if pause then pause() end
  end
  return freed[1] and freed or nil
end

-- Make a Profile. A host that must not be blocked sets its field `stream`, {put=, pause=}: then a report passes its parts to
-- put(text) and calls pause() between them, and returns nothing.
-- @tab fields see above
-- @tab samples the result of `samples`; those of memory of which none is alive become the array `freed`, for pprof and speedscope
-- @tab[opt] timeline `moments`, for core.moment; `place(node)`, its sample
-- @func[opt] pause called now and then
function Profile.new(fields, samples, timeline, pause)
  local prof = {}
  for k, v in pairs_of(fields) do prof[k] = v end
  prof.list, prof.moments, prof.freed = printed.table(samples), timeline, take_freed(samples, pause)
  for _, name in ipairs { "failures", "accounting", "blocks", "sources", "events" } do
    if type(prof[name]) == "table" then printed.table(prof[name]) end
  end
  return setmetatable(prof, Profile)
end

--- Every different stack, the heaviest first.
-- @treturn {table,...} `{stack=, weight=, count=, zone=}`: `stack` is an array of frames, the innermost first; `weight` its part
-- of the event's count, in the profile's unit; `count` its samples; `zone` the label of `perf.zone` in which it ran, or nil; for
-- heap, `allocated` and `allocated_count` the same of all that it allocated, freed or not
function Profile:samples() return self.list end

--- The samples of one zone, as a Profile. Its `total` is the sum of their weights. The other fields are those of this Profile;
-- the single samples of a `timeline` are left out.
--
--     print(prof:zone "parse")
--
-- @tparam string name the zone; in nginx the route, as `Profile:top` shows it
-- @treturn Profile without samples if there is no such zone
-- @since 0.2.0
function Profile:zone(name, pause) -- pause: as in Profile.new; another second argument has no effect
  if type(name) ~= "string" then argument.raise_in_method("zone", "string expected, got " .. type(name), 2) end
  pause = type(pause) == "function" and pause or nil
  local fields, list = copy(self), {}
  fields.total, fields.sample_count = 0, 0
  for _, samples in ipairs { self.list, self.freed } do
    for _, sample in ipairs(samples) do
      if sample.zone == name then
        list[#list + 1] = sample
        fields.total, fields.sample_count = fields.total + sample.weight, fields.sample_count + sample.count
      end
      if pause then pause() end
    end
  end
  return Profile.new(fields, list, nil, pause)
end

local nowhere = printed.rows { { name = "(unsampled)", func = "(unsampled)", kind = "state" } }

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
    return printed.table { time = time, addr = addr, cpu = cpu, weight = weight, stack = sample and sample.stack or nowhere,
      zone = sample and sample.zone }
  end
end

-- Reports: each is a function in a module perf.profile.report.NAME, which gets the profile and the method's arguments.
local modules = { top = "top", diff = "diff", tree = "tree", callers = "tree", callees = "tree", annotate = "annotate" }
for _, format in ipairs(formats) do modules[format.name] = format.name end
for name, module in pairs_of(modules) do
  Profile[name] = function(...) return late("perf.profile.report." .. module)[name](...) end
end
--- Write a profile into a file; the ending of its name selects the format. ".html" is a flame graph; ".folded" and ".txt" are
-- folded stacks, ".pb.gz" and ".pprof" pprof's, ".data" perf's, ".json" and names without an ending speedscope's. `perf.load`
-- reads speedscope's, folded stacks and perf.data again; only speedscope's has everything.
-- @tparam string path
-- @treturn boolean true @fails if the file cannot be written
-- @raise for an unknown ending
-- @since 0.2.0
function Profile:save(path)
  argument.check_path(path, "save", 2)
  local name, wrong = formats.of(path)
  if not name then argument.raise_in_method("save", wrong, 2) end
  return self[name](self, path)
end

Profile.totable, Profile.json = plain.totable, plain.json

argument.check_methods(Profile, "Profile", "samples zone timeline save totable json " .. table.concat(keys(modules), " "))

-- The table of `top`.
function Profile:__tostring() return tostring(self:top()) end

strict.class(Profile, "Profile")

return Profile
