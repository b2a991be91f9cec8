-- The story: the profiler told the program of a process from its parent's by the number of programs that each had executed. If
-- both had executed as many, as in `sh -c 'lua a.lua & exec lua b.lua'`, the child was taken to run the parent's program. On
-- LuaJIT its samples were then shown outside Lua. Later the profiler also compared where the two C stacks begin. But they begin
-- at the same place if Linux does not choose addresses at random (`setarch -R`) and the arguments of both programs are equally
-- long.
-- Twice: C reads the samples, whatever the process runs.
local core = require "perf.core"
local host = require "perf.kernel.host"
local kit = require "testkit"
local outside = require "spec.support.outside"
local perf = require "perf"
local profiling = require "spec.support.profiling"
local util = require "spec.support.util"

local EVENT = "syscalls:sys_enter_getppid"
local CONTINUE, STOP = 18, 19 -- signals

local function wait_for_file(path)
  while not io.open(path) do core.watch({}, 0.01) end
end

-- prepare: called in the parent before the fork. The names of the scripts are equally long, so that without random addresses both
-- stacks begin at the same place.
local function profile_child(prepare)
  outside.requires { tracepoint = EVENT }
  util.with_directory(function(dir)
    local function script(name, text) util.write_file(dir .. name, (text:gsub("DIR", dir))) end
    util.execute(("mkfifo %s/go %s/ended"):format(dir, dir))
    script("/older.lua", [[
      require "testkit".syscalls(1)
      io.open("DIR/sampled", "w"):close()
      io.open("DIR/go"):close() -- it waits for its writer
      io.open("DIR/ended"):read "*a"]])
    script("/child.lua", [[
      local kit, f = require "testkit", io.open("DIR/ended", "w")
      kit.syscalls(20)
      f:close()]])
    local parent = assert(kit.start(function()
      prepare()
      kit.exec(util.lua(), dir .. (kit.split() == 0 and "/child.lua" or "/older.lua"))
    end))
    -- The profiler learns the parent's new program. It is stopped while the child runs, and reads the child's samples after that.
    local profiler = assert(kit.start(function()
      local p = assert(perf.profiler { event = EVENT, pid = parent:pid() })
      assert(p:start())
      util.write_file(dir .. "/started", "")
      wait_for_file(dir .. "/sampled")
      p.sampler:snapshot()
      util.write_file(dir .. "/known", "")
      wait_for_file(dir .. "/all")
      local in_no_file = 0
      for _, image in ipairs(p.sampler:snapshot().images) do in_no_file = in_no_file + (image.file and 0 or 1) end
      local prof = assert(p:stop())
      return ("%d %d\n"):format(profiling.under(prof, dir .. "/child.lua:2 main chunk"), in_no_file) .. profiling.text(prof)
    end))
    profiler:go()
    wait_for_file(dir .. "/started")
    parent:go()
    wait_for_file(dir .. "/known")
    kit.kill(profiler:pid(), STOP)
    repeat until host.status(profiler:pid()).State:find "^T"
    io.open(dir .. "/go", "w"):close()
    assert.equal(0, (parent:wait()))
    util.write_file(dir .. "/all", "")
    kit.kill(profiler:pid(), CONTINUE)
    local status, text = profiler:wait()
    assert.equal(0, status, text)
    local found, in_no_file = text:match "^(%d+) (%d+)"
    assert.equal(20, tonumber(found), text)
    assert.equal(0, tonumber(in_no_file), text)
  end)
end

describe("a profile of another process takes no mappings of a parent that has executed as many programs,", function()
  it("with random addresses", function() profile_child(function() end) end)

  it("without random addresses", function() profile_child(kit.fixed_addresses) end)
end)
