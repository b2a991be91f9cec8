-- README.md: its blocks of Lua run as they stand, its prompts too, and what it names is there.
local needs = require "spec.support.needs"
local util = require "spec.support.util"

local readme = util.read_file "README.md"

-- What the blocks take as given.
local SETUP = [[
perf = require "perf"
function fn(...) return ... end
function f() return ("x"):rep(100) end
function g() return ("x"):rep(200) end
pay, parse, text = fn, fn, ""
your_tracer = { start_span = function() return { set_tag = fn, finish = fn, context = fn } end, extract = fn, inject = fn }
]]

local function pmu() return needs.unmet { pmu = true }[1] == nil end

-- What is only an example of a name, by what this machine has.
local function here(text, file)
  local function put(from, to)
    local at, last = text:find(from, 1, true)
    while at do
      text = text:sub(1, at - 1) .. to .. text:sub(last + 1)
      at, last = text:find(from, at + #to, true)
    end
  end
  put("pid = 1234", "pid = 0")
  put('"perf.data"', ("%q"):format(file))
  put('{"make", "-s"}', '{"true"}')
  if not pmu() then
    put("cycles:u", "task-clock:u")
    put("instructions:u", "page-faults:u")
  end
  return text
end

local function run(code)
  local output, status
  util.with_tmpname(function(script)
    local file = script .. ".data"
    util.write_file(script, SETUP .. here(code, file))
    output, status = util.shell(util.lua() .. " " .. script .. " one two")
    os.remove(file)
  end)
  assert.equal(0, status, output)
  return output
end

-- Blocks of Lua by the heading that they stand under.
local blocks = {}
do
  local heading, block = nil, nil
  for line in readme:gmatch "([^\n]*)\n" do
    if block then
      if line == "```" then block = nil else blocks[block] = blocks[block] .. line .. "\n" end
    elseif line == "```lua" then
      block = heading
      assert(not blocks[block], "a second block under " .. block)
      blocks[block] = ""
    elseif line:find "^#+ " then
      heading = line:match "^#+ (.*)"
    end
  end
end

describe("README", function()
  it("has the blocks that run here", function()
    local names = {}
    for name in pairs(blocks) do names[#names + 1] = name end
    table.sort(names)
    assert.same({ "Events, groups, sets", "Measuring", "Profiling", "Records", "Tracing", "lua-perf" }, names)
  end)

  describe("runs:", function()
    before_each(function() requires { perf_open = true, nostress = true } end)

    it("the first example", function()
      local status = io.open "/var/lib/dpkg/status"
      if not status then pending "needs: /var/lib/dpkg/status" return end
      status:close()
      local output = run(blocks["lua-perf"])
      assert.matches("^%d+ different words\n", output)
      assert.matches("page%-faults", output)
      assert.matches("ms elapsed\n", output)
    end)

    it("measuring", function()
      requires { tracepoint = "syscalls:sys_enter_read" }
      local output = run(blocks["Measuring"])
      assert.matches("\npage%-faults\t0\t0\t%d+\t%d+\t", output) -- label, value, raw, enabled_ns, running_ns
      assert.matches("page%-faults", output)
    end)

    it("events, groups, sets", function()
      requires { paranoid = 0 }
      local output = run(blocks["Events, groups, sets"])
      assert.matches("^%d+\n", output)
      assert.matches("elapsed\n", output)
      assert.matches("\n%d+\t%d+\n$", output)
    end)

    it("records", function()
      local output = run((blocks["Records"]:gsub("%-%- %.%.%. touch memory %.%.%.", 'local text = ("x"):rep(1e6) .. "y"')))
      assert.matches("sample\t%d+\t0x%x+\n", output)
      assert.matches("\n0\ttable: ", output) -- none lost
      assert.matches("comm true", output)
    end)

    it("profiling", function()
      local output = run(blocks["Profiling"])
      assert.matches("^task%-clock: .* at %d+ Hz\n", output)
      assert.matches("\npage%-faults: ", output)
      assert.matches("\ncontext%-switches: ", output)
    end)

    it("tracing", function()
      assert.matches("^42\t.*task%-clock", run(blocks["Tracing"]))
    end)

    it("what is typed at the prompt", function()
      requires { module = "cjson" }
      local lines = {}
      for line in readme:match("In the REPL:\n\n```\n(.-)```"):gmatch "[^\n]+" do
        lines[#lines + 1] = line:gsub("^> =(.-)%s*%-%-.*$", "print((%1))"):gsub("^> =(.*)$", "print((%1))"):gsub("^> ", "")
      end
      assert.equal(5, #lines)
      local output = run(table.concat(lines, "\n"))
      assert.matches("page%-faults OR faults +software", output)
      assert.matches("task%-clock", output)
    end)
  end)

  it("shows messages as they are", function()
    local perf = require "perf"
    local mistake, refusal = readme:match '\n    > =perf%.open "cyclse"\n%s+([^\n]+)\n    > =perf%.open "cycles"\n(.-)\n\n'
    local ok, message = pcall(function()
      local ev = perf.open "cyclse"
      return ev
    end)
    assert.is_false(ok)
    assert.equal(mistake, (message:gsub("^.-:%d+: ", "")))
    local ev
    ev, message = perf.open "cycles"
    if ev then ev:close() end
    if message and message:find("this virtual machine has no", 1, true) then
      assert.equal((refusal:gsub("%s+", " ")), (" nil  " .. message .. "  ENOENT"):gsub("%s+", " "))
    end
  end)

  it("names files that are there", function()
    requires { file = "csrc/binding/core.c" } -- a guest has what it runs only
    local seen = 0
    local function check(path)
      local name = util.shell("ls -d " .. path)
      assert.is_nil(name:find("No such file", 1, true), name)
      seen = seen + 1
    end
    for path in readme:gmatch "%]%(([^)#:]+)%)" do check(path) end
    for path in readme:gmatch "`([%w_.*-]+/[%w_./*-]+)`" do
      local ours = path:find "^[cslrt.]" and not path:find "^cpu/"
      if ours and not path:find "^L?%.?%./" then check(path) end
    end
    assert.is_true(seen > 8)
  end)

  it("names targets that make has", function()
    local makefile = util.read_file "Makefile"
    for path in util.shell("ls mk/*.mk"):gmatch "%S+" do makefile = makefile .. "\n" .. util.read_file(path) end
    local seen = 0
    for target in readme:gmatch "[`\n]make ([a-z][a-z0-9-]*)" do
      assert.is_truthy(makefile:find("\n" .. target:gsub("%-", "%%-") .. ":"), target)
      seen = seen + 1
    end
    assert.is_true(seen > 8)
  end)

  it("names events that are known", function()
    local perf = require "perf"
    local text = readme:match "An event is a name as `perf stat %-e` takes it, with its modifiers: (.-); or a table"
    local seen = 0
    for name in text:gmatch "`([^`]+)`" do
      local ok, message = pcall(perf.attr, name)
      assert.is_true(ok or tostring(message):find("cpu", 1, true) ~= nil, tostring(message)) -- this machine may have no such PMU
      seen = seen + 1
    end
    assert.equal(6, seen)
  end)
end)
