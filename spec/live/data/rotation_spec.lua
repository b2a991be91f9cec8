-- Recordings in several files: perf.record with switch_output. A limit of a byte ends a file whenever the rings have been read,
-- which is at least once.
local perf = require "perf"
local luaperf = require "spec.support.luaperf"
local util = require "spec.support.util"

local function names_in(dir)
  local list = {}
  for name in util.shell("ls " .. dir):gmatch "%S+" do list[#list + 1] = name end
  return list
end

describe("perf.record with switch_output", function()
  before_each(function() requires { perf_open = "user", nosan = true } end)

  it("begins a new file, which can be read by itself", function()
    util.with_directory(function(dir)
      local r = assert(perf.record({ "sh", "-c", "for i in 1 2 3 4 5; do /bin/true; done; sleep 0.3" },
        { events = "page-faults:u", period = 1, output = dir .. "/x.data", switch_output = "1B" }))
      assert.equal(0, r.status)
      assert.is_true(#r.files >= 2)
      assert.equal(dir .. "/x.data", r.path)
      assert.equal(r.path, r.files[#r.files])
      assert.equal(#r.files, #names_in(dir))
      local samples, lost, ended, without = 0, 0, {}, {}
      for _, path in ipairs(r.files) do
        local file = assert(perf.data.open(path))
        local comms = {}
        for rec in file:records() do
          if rec.type == "comm" or rec.type == "fork" then comms[rec.pid] = true end
          if rec.type == "exit" then ended[rec.pid] = true end
          if rec.type == "sample" then
            samples = samples + 1
            if not comms[rec.pid] then without[rec.pid] = true end
          end
        end
        assert.is_nil(file:error())
        lost = lost + tonumber((file:lost()))
        file:close()
      end
      -- A process that ends while a file is begun has no name in /proc any more. The CPUs' rings are read one after the other: if
      -- the process changes the CPU meanwhile, its end is in another file than its last samples.
      for pid in pairs(without) do assert.is_true(ended[pid], "a process without a name") end
      assert.same({ r.samples, r.lost }, { samples, lost })
    end)
  end)

  it("keeps the latest files", function()
    util.with_directory(function(dir)
      for _, command in ipairs { { "true" }, { "sh", "-c", "sleep 0.5" } } do
        local r = assert(perf.record(command, { events = "dummy:u", output = dir .. "/x.data", switch_output = "1B",
          switch_max_files = 1 }))
        assert.same({ dir .. "/x.data" }, r.files)
        assert.same({ "x.data" }, names_in(dir))
      end
    end)
  end)

  it("is one file while the limit is not reached", function()
    util.with_directory(function(dir)
      for _, limit in ipairs { "1G", "1d" } do
        local r = assert(perf.record({ "true" }, { events = "dummy:u", output = dir .. "/x.data", switch_output = limit }))
        assert.same({ dir .. "/x.data" }, r.files)
      end
    end)
  end)

  it("refuses an invalid limit, and files that cannot be replaced", function()
    for _, case in ipairs {
      { { switch_output = "10" }, "option 'switch_output': a size %(10M" }, { { switch_output = "0s" }, "a size" },
      { { switch_output = "1G", mode = "exclusive" }, "option 'switch_output': only with the mode replace" },
      { { switch_max_files = 2 }, "option 'switch_max_files': only with 'switch_output'" } } do
      local ok, message = pcall(perf.record, { "true" }, case[1])
      assert.is_false(ok)
      assert.matches("argument #2 to 'record'.*" .. case[2], message)
    end
    local ok, message, code = perf.record({ "true" }, { events = "dummy:u", output = "/dev/null", switch_output = "1G" })
    assert.is_nil(ok)
    assert.matches("^/dev/null: option 'switch_output': it is not a regular file", message)
    assert.equal("EINVAL", code)
  end)
end)

describe("luaperf record --switch-output", function()
  before_each(function() requires { perf_open = "user", nosan = true } end)

  local function try(command)
    local output
    util.with_directory(function(dir)
      util.write_file(dir .. "/a.lua", "")
      output = luaperf.shell(dir, command .. "\necho status $?; ls")
    end)
    return output
  end

  it("names the number of older files", function()
    local output = try "luaperf record -e dummy:u --switch-output 1B -- sh -c 'sleep 0.3'"
    assert.matches("0 samples in perf.data and %d+ older files? %]\nstatus 0", output)
    assert.matches("\nperf.data.%d+", output)
  end)

  it("is not for profiles by Lua line", function()
    assert.matches("%-%-switch%-output is for perf.data: a profile by Lua line.*status 129",
      try "luaperf record --switch-output 1M a.lua")
    assert.matches("a size .10M.*got '1x'.*status 129", try "luaperf record --switch-output 1x true")
    assert.matches("%-%-switch%-max%-files needs %-%-switch%-output.*status 129", try "luaperf record --switch-max-files 2 true")
  end)
end)
