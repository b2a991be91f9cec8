-- The story: when several processes of a profile had ended, the profiler freed one after the other, and asked those that it had
-- freed whether they had the libraries of the next one. If malloc had given their memory back, the profiling program died by
-- SIGSEGV.
-- Twice: the reading of other processes is the same code on all interpreters.
local outside = require "spec.support.outside"
local util = require "spec.support.util"

describe("processes that end during a profile, outside", function()
  before_each(function() outside.requires() end)

  it("are forgotten together", function()
    util.with_directory(function(dir)
      util.write_file(dir .. "/first.lua", [[
        local up, go = ...
        io.open(up, "w"):close()
        repeat until io.open(go)]])
      util.write_file(dir .. "/work.lua", "local n, from = 0, os.clock() repeat n = n + 1 until os.clock() - from > 0.03")
      util.write_file(dir .. "/main.lua", [[
        local perf = require "perf"
        local pid, go = ...
        local p = assert(perf.profiler { pid = tonumber(pid), native = true })
        assert(p:start())
        io.open(go, "w"):close()
        require "perf.core".watch({}, 5)
        print(assert(p:stop()).sample_count > 20)]])
      -- 200 KB for each process: with this threshold its memory is unmapped as soon as it is freed.
      local output = util.shell((([[export MALLOC_MMAP_THRESHOLD_=131072
        (timeout 300 LUA DIR/first.lua DIR/up DIR/go; for i in $(seq 60); do LUA DIR/work.lua; done; sleep 3) & shell=$!
        for i in $(seq 3000); do [ -e DIR/up ] && break; sleep 0.1; done
        timeout 300 LUA DIR/main.lua $shell DIR/go]]):gsub("DIR", dir):gsub("LUA ", util.lua() .. " ")))
      assert.matches("^true\n", output)
    end)
  end)
end)
