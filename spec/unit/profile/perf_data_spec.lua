-- A profile as perf.data, read by this module; spec/reports reads it with perf.
local data = require "perf.data"
local load = require "perf.profile.load"
local profiles = require "spec.support.profiles"
local util = require "spec.support.util"

local with_perf_data = profiles.with_perf_data

describe("perf.profile.report.perf_data", function()
  it("writes each stack as a sample with its weight", function()
    with_perf_data(profiles.program(), function(path)
      local file = assert(data.open(path))
      local samples, maps, comm = {}, {}, nil
      for rec in file:records() do
        if rec.type == "sample" then samples[#samples + 1] = rec end
        if rec.type == "mmap2" and rec.executable then maps[#maps + 1] = rec end
        if rec.type == "comm" then comm = rec.comm end
      end
      assert.is_nil(file:error())
      assert.equal("task-clock", file.attrs[1].name)
      file:close()
      assert.equal("luajit", comm)
      assert.equal(path .. ".symbols", maps[1].filename)
      assert.equal(6, #samples)
      assert.same({ 50e6, 4711, 4712 }, { samples[1].period, samples[1].pid, samples[1].tid })
      assert.equal(3 + 1, #samples[1].callchain + #(samples[1].callchain_contexts or {}))
      assert.equal(samples[1].ip, samples[1].callchain[samples[1].callchain[1] == samples[1].ip and 1 or 2])
    end)
  end)

  it("is read again with the names of the file of symbols beside it", function()
    requires { ext = "symbols" }
    with_perf_data(profiles.program(), function(path)
      local list = assert(load.all(path))
      assert.equal(1, #list)
      assert.equal(100e6, list[1].total)
      local lines = list[1]:top().lines
      assert.same({ "app.lua:12 parse", 50e6 }, { lines[1].name, lines[1].self })
      assert.same({ "app.lua:14 parse", 20e6 }, { lines[2].name, lines[2].self })
      assert.equal(#profiles.program():folded(), #list[1]:folded())
    end)
    with_perf_data(profiles.nasty(), function(path)
      assert.equal(#profiles.names, #assert(load.all(path))[1]:samples())
    end)
  end)

  it("has a sample's zone as the outermost frame", function()
    requires { ext = "symbols" }
    with_perf_data(profiles.new { { weight = 3, zone = "a" }, { weight = 2, zone = "a", "app.lua:1 main chunk" } }, function(path)
      local function named(_, sample)
        local names = {}
        for i, frame in ipairs(sample.stack) do names[i] = frame.name end
        return table.concat(names, " < ") .. " " .. sample.weight
      end
      local samples = assert(load.all(path))[1]:samples()
      assert.same({ "a 3", "app.lua:1 main chunk < a 2" }, { named(1, samples[1]), named(2, samples[2]) })
    end)
  end)

  it("of a profile without samples has none", function()
    with_perf_data(profiles.empty(), function(path)
      local list = assert(load.all(path))
      assert.same({ 0, "task-clock" }, { #list[1]:samples(), list[1].event })
    end)
  end)

  it("leaves nothing behind if one of its files cannot be written", function()
    util.with_tmpname(function(path)
      util.write_file(path, "kept")
      util.execute("mkdir " .. path .. ".symbols")
      local ok, message, code = profiles.program():perf_data(path)
      os.execute("rmdir " .. path .. ".symbols")
      assert.is_nil(ok)
      assert.equal("EISDIR", code)
      assert.equal(path .. ".symbols: ", message:sub(1, #path + 10))
      assert.equal("kept", util.read_file(path))
    end)
  end)

  it("accepts stacks that are deeper than a record can be", function()
    local stack = { weight = 5 }
    for i = 1, 20000 do stack[i] = "a.lua:" .. i % 10 + 1 .. " f" end
    with_perf_data(profiles.new { stack }, function(path)
      local file = assert(data.open(path))
      local n
      for rec in file:records() do
        if rec.type == "sample" then n = #rec.callchain end
      end
      assert.is_nil(file:error())
      file:close()
      assert.is_true(n >= 8000)
    end)
  end)
end)
