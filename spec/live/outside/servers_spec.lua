-- Profiles of programs that embed Lua, as Debian has them: with Lua in a library, or linked into the program, without symbols.
-- Each runs the same functions, one of which is called three times as often as the other, until the process has used some CPU
-- time.
local perf = require "perf"
local outside = require "spec.support.outside"
local profiling = require "spec.support.profiling"
local util = require "spec.support.util"

local own = require("perf.outside.seen").own()

-- The loops begin on the lines 3 and 9.
local FUNCTIONS = [[
local function often(n)
  local t = {}
  for i = 1, n do
    t[i % 10 + 1] = i .. "x"
  end
end
local function rarely(n)
  local t = {}
  for i = 1, n do
    t[i % 10 + 1] = i .. "x"
  end
end
local function round()
  often(3000)
  often(3000)
  rarely(3000)
  often(3000)
end
]]

-- The CPU time of a process, in ticks; nil if it has ended.
local function ticks(pid)
  local f = io.open(("/proc/%d/stat"):format(pid))
  local user, system = (f and f:read "*l" or ""):match "%) %S+ %d+ %d+ %d+ %d+ %-?%d+ %d+ %d+ %d+ %d+ %d+ (%d+) (%d+)"
  if f then f:close() end
  return user and user + system
end

-- Wait for the process to use some CPU time.
local function works(pid, n)
  local from = assert(ticks(pid))
  repeat
    os.execute "exec sleep 0.05"
  until assert(ticks(pid), "the process has ended") - from >= n
end

describe("the profile of a program that embeds Lua", function()
  local dir, pid

  before_each(function()
    outside.requires()
    dir = util.new_directory()
  end)

  after_each(function()
    if pid then util.shell(("kill -9 %d; while kill -0 %d 2>&-; do sleep 0.05; done"):format(pid, pid)) end
    util.remove_directory(dir)
    dir, pid = nil, nil
  end)

  local function needs(program, interpreter)
    requires { cmd = program }
    if own ~= interpreter then requires { cmd = ("%s under %s"):format(program, interpreter) } end
  end

  -- Start a program in the background. Its output goes to a file, so that the shell need not wait for it.
  local function start(command)
    pid = tonumber((util.shell(("cd %s; %s >out 2>&1 & echo $!"):format(dir, command))))
  end

  -- begun: a file that exists when the functions run
  local function check(file, begun)
    if begun then util.shell(("for i in $(seq 1000); do [ -e %s/%s ] && break; sleep 0.05; done"):format(dir, begun)) end
    works(pid, 10)
    local p = assert(perf.profiler { pid = pid, freq = 2000 })
    assert(p:start())
    works(pid, 110)
    local prof = assert(p:stop())
    p:close()
    local text = profiling.text(prof)
    local a = prof.accounting
    assert.equal(a.samples, a.resolved + a.labelled + a.dropped, text)
    assert.is_true(a.resolved >= 0.98 * (a.samples - a.dropped), text)
    local sums = { [3] = 0, [9] = 0 }
    for _, s in ipairs(prof:samples()) do
      for _, f in ipairs(s.stack) do
        if f.file and f.file:find(file, 1, true) and sums[f.linedefined + 2] then
          assert.is_true(f.line >= f.linedefined and f.line <= f.linedefined + 5, f.name)
          sums[f.linedefined + 2] = sums[f.linedefined + 2] + s.weight
        end
      end
    end
    assert.is_true(sums[3] + sums[9] > 0.9 * profiling.sum(prof), text)
    -- Three of four samples are expected there. Of some 2,000 samples, five standard errors are 4.8 %.
    assert.is_true(math.abs(sums[3] / (sums[3] + sums[9]) - 0.75) < 0.05, text)
  end

  it("redis-server, which has Lua 5.1 in itself", function()
    needs("redis-server", "lua5.1")
    util.write_file(dir .. "/work.lua", FUNCTIONS .. "while true do round() end\n")
    start "redis-server --port 0 --unixsocket s --save '' --lua-time-limit 0"
    util.shell(("cd %s; while ! redis-cli -s s ping; do sleep 0.05; done; redis-cli -s s --eval work.lua >run 2>&1 &")
      :format(dir))
    assert.equal("lua5.1", (require("perf.outside.seen").interpreter(pid)))
    check "user_script"
  end)

  it("haproxy, which has Lua 5.3 in a library", function()
    needs("haproxy", "lua5.3")
    util.write_file(dir .. "/work.lua",
      FUNCTIONS .. "core.register_task(function() io.open('" .. dir .. "/begun', 'w'):close()\n"
      .. "while true do round() core.yield() end end)\n")
    util.write_file(dir .. "/config", ("global\n  lua-load %s/work.lua\n  nbthread 1\ndefaults\n  mode http\n"
      .. "  timeout client 1s\n  timeout server 1s\n  timeout connect 1s\nfrontend f\n  bind unix@%s/s\n"):format(dir, dir))
    start "haproxy -f config"
    check("work.lua", "begun")
  end)

  local function check_neovim(command)
    util.write_file(dir .. "/work.lua", FUNCTIONS .. "io.open('begun', 'w'):close() while true do round() end\n")
    start(command .. " --headless -u NONE -i NONE -c 'luafile work.lua'")
    check("work.lua", "begun")
  end

  it("Neovim, which has LuaJIT in a library", function()
    needs("nvim", "luajit")
    check_neovim "nvim"
  end)

  -- The threads of this LuaJIT are smaller than those of Debian's LuaJIT.
  it("a newer Neovim, which has another LuaJIT linked statically", function()
    needs("nvim", "luajit")
    local newer = util.shell [[ls -d "${NVIM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/lua-perf/nvim}"/*/*/install/bin/nvim 2>&-]]
    if newer == "" then return pending "needs: the newer Neovim that make test-nvim fetches" end
    check_neovim(newer:match "[^\n]+")
  end)
end)
