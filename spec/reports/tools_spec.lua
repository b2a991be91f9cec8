-- Reports opened by their tools: perf and go tool pprof.
local profiles = require "spec.support.profiles"
local util = require "spec.support.util"

local with_perf_data = profiles.with_perf_data

describe("perf", function()
  before_each(function() requires { cmd = "perf" } end)

  it("reports a profile by the names of its frames", function()
    with_perf_data(profiles.program(), function(path)
      local text, status = util.shell(("perf report --stdio --no-children -g none -i %s 2>&1"):format(path))
      assert.equal(0, status, text)
      assert.truthy(text:find("of event 'task-clock'", 1, true), text)
      assert.truthy(text:find("Event count (approx.): 100000000", 1, true), text)
      assert.matches("\n +50%.00%%  luajit   %S+%.symbols  %[%.%] app%.lua:12 parse", text)
      assert.matches("\n +20%.00%%  luajit   %S+%.symbols  %[%.%] string%.find", text)
      assert.matches("\n +10%.00%%  luajit   %S+%.symbols  %[%.%] app%.lua:25 walk", text)
    end)
  end)

  it("reports its callers", function()
    with_perf_data(profiles.program(), function(path)
      local text = util.shell(("perf report --stdio --children -g none -i %s 2>&1"):format(path))
      assert.matches("\n +95%.00%% +0%.00%%  luajit   %S+%.symbols  %[%.%] app%.lua:40 main chunk", text)
      assert.matches("\n +25%.00%% +0%.00%%  luajit   %S+%.symbols  %[%.%] app%.lua:32 main", text)
    end)
  end)

  it("prints its stacks", function()
    with_perf_data(profiles.program(), function(path)
      local text = util.shell(("perf script -F comm,event,period,ip,sym -i %s 2>/dev/null"):format(path))
      local stacks = {}
      for block in (text .. "\n"):gmatch "(luajit.-\n)\n" do
        local names = {}
        for name in block:gmatch "\n%s+%x+ ([^\n]+)" do names[#names + 1] = name end
        stacks[#stacks + 1] = table.concat(names, ";")
      end
      assert.same({ "app.lua:12 parse;app.lua:31 main;app.lua:40 main chunk",
        "string.find;app.lua:14 parse;app.lua:31 main;app.lua:40 main chunk;input" }, { stacks[1], stacks[2] }, text)
      assert.equal(6, #stacks)
    end)
  end)

  it("opens profiles without samples, with odd names, with many stacks", function()
    for _, prof in ipairs { profiles.empty(), profiles.nasty(), profiles.large(5000) } do
      with_perf_data(prof, function(path)
        local text = util.shell(("perf report --stdio -g none -i %s 2>&1 | grep -c .; perf script -i %s 2>&1 | head -3")
          :format(path, path))
        assert.is_nil(text:find "rror", text)
      end)
    end
  end)
end)

describe("go tool pprof", function()
  before_each(function() requires { cmd = "go" } end)

  local function top(prof, options)
    local text, status
    util.with_tmpname(function(path)
      assert.is_true(prof:pprof(path))
      text, status = util.shell(("HOME=${HOME:-/tmp} go tool pprof -symbolize=none %s %s"):format(options, path))
    end)
    assert.equal(0, status, text)
    return text
  end

  it("has the functions and their shares", function()
    local text = top(profiles.program(), "-top -nodecount=20")
    assert.matches("Type: task%-clock", text)
    assert.matches("100%% of 100ms total", text)
    assert.matches("50ms 50%.00%% +50%.00%% +70ms 70%.00%%  parse", text)
    assert.matches("20ms 20%.00%% +70%.00%% +20ms 20%.00%%  string%.find", text)
    assert.matches("0     0%% +%S+ +95ms 95%.00%%  main", text)
  end)

  it("has lines, samples and zones", function()
    assert.matches("50ms +50%.00%% +%S+ +50ms +50%.00%%  parse app%.lua:12", top(profiles.program(), "-top -lines"))
    assert.matches("50 50%.00%% +50%.00%% +70 70%.00%%  parse", top(profiles.program(), "-top -sample_index=samples"))
    assert.matches("zone: Total [%d.]+ms.*\n +[%d.]+ms %([%d. ]+%%%): input", top(profiles.program(), "-tags"))
  end)

  it("has what lives and what was allocated, in objects and bytes", function()
    requires { registers = true }
    local perf = require "perf"
    local kept = {}
    local function keep(i)
      kept[i] = { i, i }
      return kept
    end
    local function waste(i) kept[0] = { i, i } end
    local prof = assert(perf.profile({ event = "heap", period = 1 }, function()
      for i = 1, 4000 do
        keep(i)
        waste(i)
      end
      kept[0] = nil
      collectgarbage()
      collectgarbage()
    end))
    for _, index in ipairs { "inuse_objects", "inuse_space", "alloc_objects", "alloc_space" } do
      local text = top(prof, "-top -sample_index=" .. index)
      assert.truthy(text:find("Type: " .. index, 1, true), text)
      assert.truthy(text:find(" keep", 1, true), text)
      assert.equal(index:find "alloc" ~= nil, text:find(" waste", 1, true) ~= nil, text)
    end
    assert.truthy(top(prof, "-top"):find("Type: inuse_space", 1, true))
    prof = assert(perf.profile({ event = "alloc", period = 1 }, keep, 1))
    assert.truthy(top(prof, "-top"):find("Type: alloc_space", 1, true))
    assert.truthy(top(prof, "-top -sample_index=alloc_objects"):find("Type: alloc_objects", 1, true))
  end)

  it("opens profiles without samples, and with odd names", function()
    assert.matches("Type: task%-clock", top(profiles.empty(), "-top"))
    assert.matches("<script>alert%(1%)</script>", top(profiles.nasty(), "-top -nodecount=50"))
  end)
end)
