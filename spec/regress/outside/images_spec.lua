-- The story: a profile kept the text of /proc/PID/maps of each process that it had ever seen, and once for each of them the C
-- functions and the names of chunks. Beside a server that starts a script for each request it grew without end. A later story:
-- with native frames it kept two stacks for each process that had run code in no file, such as the kernel's code for clocks.
-- Twice: processes that execute a program have its functions at other addresses each time; forked ones have their parent's.
-- Later: it starts hundreds of processes.
local core = require "perf.core"
local host = require "perf.kernel.host"
local kit = require "testkit"
local outside = require "spec.support.outside"
local perf = require "perf"
local profiling = require "spec.support.profiling"
local util = require "spec.support.util"

local event = "syscalls:sys_enter_getppid"
local CHILDREN = 150 -- more than the processes that are remembered before the profile looks for those that have ended
local SCRIPT = [[
  local kit = require "testkit"
  for _ = 1, 3 do kit.syscalls(5) end
  kit.sleeps(1, 2e7) -- until the profile has read its mappings
]]

-- Count what is kept for the processes.
local function kept(result)
  return { images = #result.images, frames = #result.frames, stacks = #result.parent }
end

-- Profile a process that makes children. @return what is kept after some of them, and at the end; the result, and the Profile
local function profile(fn, ...)
  local child = assert(kit.start(fn, ...))
  local p = assert(perf.profiler { pid = child:pid(), event = event })
  local sampler, result, some = p.sampler, nil, nil
  function sampler:result()
    result = getmetatable(sampler).result(self)
    return result
  end
  assert(p:start())
  child:go()
  while host.is_running(child:pid()) do
    core.watch({}, 0.01)
    local now = sampler:snapshot()
    if not some and tonumber(now.samples) >= 300 then some = kept(now) end
  end
  assert.equal(0, (child:wait()))
  local prof = assert(p:stop())
  p:close()
  return assert(some), kept(result), result, prof
end

describe("a profile of many processes that end keeps no more than of a few", function()
  local function check(some, all, result, prof)
    local text = profiling.text(prof)
    for what, n in pairs(all) do
      assert.is_true(n <= some[what] + 20, ("%s: %d, then %d\n%s"):format(what, some[what], n, text))
    end
    for _, image in ipairs(result.images) do assert.is_true(image.file and not image.maps:find "\n", image.maps) end
    -- The C function has its name. (A process may have ended before its mappings were read.)
    assert.is_true(profiling.under(prof, "testkit.syscalls") > 0, text)
  end

  it("if each executes a program", function()
    -- The sanitizers slow an interpreter's start and the search for its state; then the process ends before the state is found.
    outside.requires { tracepoint = event, nosan = true }
    util.with_tmpname(function(path)
      util.write_file(path, SCRIPT)
      check(profile(function()
        local command = ("%s %s; true"):format(util.lua(), path)
        for _ = 1, CHILDREN do os.execute(command) end
      end))
    end)
  end)

  it("if each is forked", function()
    outside.requires { tracepoint = event }
    check(profile(function()
      for _ = 1, CHILDREN do kit.fork(function() kit.syscalls(15) end) end
    end))
  end)

  it("if each runs code in no file", function()
    local clock = "syscalls:sys_enter_clock_gettime"
    outside.requires { tracepoint = clock }
    local ROUND, ENDED = 80, 64 -- children; images of processes that have ended, after which no more are kept
    util.with_directory(function(dir)
      local child = assert(kit.start(function()
        for round = 1, 2 do
          while not io.open(dir .. "/" .. round) do kit.sleeps(1, 1e7) end
          for _ = 1, ROUND do kit.fork(os.clock) end
        end
      end))
      local p = assert(perf.profiler { pid = child:pid(), event = clock, native = true })
      assert(p:start())
      child:go()
      local function run(round)
        local now, processes, ended
        util.write_file(dir .. "/" .. round, "")
        repeat
          core.watch({}, 0.01)
          now, processes, ended = p.sampler:snapshot(), 0, 0
          for _, image in ipairs(now.images) do
            processes = processes + (image.file and 0 or 1)
            ended = ended + (image.maps == "" and 1 or 0)
          end
        until tonumber(now.samples) >= round * ROUND and (ended >= ENDED or processes == 0) -- 0: this kernel has no such code
        return kept(now)
      end
      local some, all = run(1), run(2)
      assert.equal(0, (child:wait()))
      local prof = assert(p:stop())
      p:close()
      for what, n in pairs(all) do
        assert.is_true(n <= some[what] + 20, ("%s: %d, then %d\n%s"):format(what, some[what], n, profiling.text(prof)))
      end
    end)
  end)
end)
