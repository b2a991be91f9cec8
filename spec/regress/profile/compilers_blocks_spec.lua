-- The story: once in ten runs, a profile showed one block of 4 KB too many for a program's closures. The block was LuaJIT's array
-- of all traces, which becomes longer when a trace starts, before the compiler says that it runs. Conversely, the tables that
-- compiled code puts off, and that LuaJIT makes when it leaves this code, had the frame `(JIT compiler)`, as if the compiler
-- needed them. And while a trace is recorded, the interpreter runs the instructions; the tables that it made then had this frame
-- too.
local util = require "spec.support.util"

-- Each program begins with this. It runs in a new process, which has few traces.
local HEAD = [[
  local perf = require "perf"
  local profiling = require "spec.support.profiling"
  -- The bytes that a chunk's lines allocate, and those that the compiler allocates there.
  local function bytes(prof, file)
    local own, compilers = 0, 0
    for _, s in ipairs(prof:samples()) do
      local inner = s.stack[1]
      if inner.file == file then own = own + s.weight end
      if inner.name == "(JIT compiler)" and profiling.place(s.stack).file == file then compilers = compilers + s.weight end
    end
    return tonumber(own), tonumber(compilers)
  end
  local info = require("jit.util").traceinfo
]]

local function run(text)
  local output, status
  util.with_tmpname(function(path)
    util.write_file(path, HEAD .. text)
    output, status = util.shell(util.lua() .. " " .. path)
  end)
  assert(status == 0, output)
end

describe("memory that LuaJIT allocates for a trace", function()
  before_each(function() requires { registers = true, lua = "luajit" } end)

  it("is the compiler's, also before the compiler says that it runs", function()
    run [[
      jit.opt.start("hotloop=2", "maxtrace=4000", "maxmcode=8192")
      local loops = {}
      for i = 1, 700 do loops[i] = loadstring("local s = 0 for i = 1, 200 do s = s + i end return s", "@loops") end
      local prof = assert(perf.profile({ event = "alloc", period = 1 }, function() for i = 1, #loops do loops[i]() end end))
      assert(info(513), "the array of traces did not become longer")
      local own, compilers = bytes(prof, "loops")
      assert(own == 0 and compilers >= 700 * 100 + 1024 * 8, profiling.text(prof))
    ]]
  end)

  it("is the compiler's, also while another trace is left", function()
    run [[
      jit.opt.start("hotloop=2", "hotexit=1", "maxtrace=4000", "maxside=1000", "maxmcode=8192")
      local branches, functions = {}, {}
      for i = 1, 100 do branches[i] = ("if k == %d then s = s + %d end "):format(i, i) end
      for i = 1, 6 do
        functions[i] = loadstring("local s = 0 for i = 1, 3000 do local k = i % 101 " .. table.concat(branches) ..
          "end return s", "@exits")
      end
      local prof = assert(perf.profile({ event = "alloc", period = 1 }, function()
        for i = 1, #functions do functions[i]() end
      end))
      assert(info(513), "the array of traces did not become longer")
      local own, compilers = bytes(prof, "exits")
      assert(own == 0 and compilers >= 513 * 100 + 1024 * 8, profiling.text(prof))
    ]]
  end)

  it("does not include the tables that the interpreter makes while a trace is recorded", function()
    run [[
      jit.off()
      local kept, loops = {}, {}
      for i = 1, 4000 do kept[i] = false end
      local text = "local kept, n = ... for i = n + 1, n + 20 do kept[i] = { i, i } end"
      for i = 1, 200 do loops[i] = loadstring(text, "@recorded") end
      collectgarbage "stop"
      local before = collectgarbage "count"
      for i = 1, 10 do kept[i] = { i, i } end
      local each = (collectgarbage "count" - before) * 1024 / 10
      jit.on()
      jit.opt.start("hotloop=2")
      local prof = assert(perf.profile({ event = "alloc", period = 1 }, function()
        for i = 1, #loops do loops[i](kept, 20 * (i - 1)) end
      end))
      local own, compilers = bytes(prof, "recorded")
      assert(own == 4000 * each and compilers >= 200 * 100, profiling.text(prof))
    ]]
  end)

  it("does not include the tables that are made when compiled code is left", function()
    run [[
      jit.opt.start("hotexit=1000000")
      local kept = {}
      for i = 1, 2000 do kept[i] = false end
      local make = loadstring("local kept = ...\n" .. [=[
        return function(n)
          for i = 1, n do
            local t = { i, i }
            if i % 10 == 0 then kept[i / 10] = t end
          end
        end]=], "@tables")(kept)
      make(20000)
      jit.opt.start("hotloop=30000") -- else a trace may begin at the function, if it shares a counter with a loop
      collectgarbage "stop"
      local before = collectgarbage "count"
      make(20000)
      local known = (collectgarbage "count" - before) * 1024
      assert(known >= 2000 * 64)
      for _, event in ipairs { "alloc", "heap" } do
        local prof = assert(perf.profile({ event = event, period = 1 }, make, 20000))
        local own, compilers = bytes(prof, "tables")
        assert(own == known and compilers == 0, profiling.text(prof))
      end
    ]]
  end)
end)
