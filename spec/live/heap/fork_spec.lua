--- perf.heap {fork = true}: the child of a fork takes the snapshot.
-- Long: make test runs this file on LuaJIT and Lua 5.4, make test-long on the other interpreters.
local kit = require "testkit"
local perf = require "perf"
local util = require "spec.support.util"

local newproxy = rawget(_G, "newproxy") -- 5.1 and LuaJIT, whose tables have no finalizers

describe("a snapshot by a fork", function()
  before_each(function()
    requires { heap = true }
    perf.heap():close()
  end)

  it("has the heap of the moment of the fork", function()
    -- After a spec that refuses memory, LuaJIT's own count is wrong in the whole process, so that no snapshot adds up.
    local before_fork = perf.heap()
    local exact = before_fork.exact
    before_fork:close()
    _G.heap_before = { ("x"):rep(1e5) }
    local h = assert(perf.heap { fork = true })
    finally(function()
      _G.heap_before, _G.heap_after = nil, nil
      h:close()
    end)
    local before = _G.heap_before
    _G.heap_after, _G.heap_before = { ("y"):rep(1e5) }, nil
    assert.is_true(h:wait())
    assert.is_true(h:wait(0))
    assert.equal(exact, h.exact)
    local sum = 0
    for _, row in ipairs(h:types()) do sum = sum + row.bytes end
    assert.equal(h.total, sum)
    local who = assert(h:who(before))
    assert.equal("_G.heap_before", who.path)
    assert.is_true(who.retained > 1e5 and who.retained < 1e5 + 1000)
    for _, row in ipairs(h:paths(1000)) do assert.is_nil(row.path:find("heap_after", 1, true)) end
  end)

  -- The story: a signal that arrived during the wait ended it, and the Heap was closed.
  it("waits on after a signal", function()
    local core = require "perf.core"
    local h = assert(perf.heap { fork = true })
    core.fault("poll", "EINTR")
    local ok, message = h:wait(60)
    core.fault()
    assert.is_true(ok, message)
    assert.is_true(h.total > 0)
    h:close()
  end)

  it("waits at the first use of a result, and can be compared", function()
    local old = assert(perf.heap { fork = true })
    local h = assert(perf.heap { fork = true })
    assert.is_true(h.total > 0 and h.objects > 0)
    assert.match("^[+-]?[%d,]+ bytes\n", tostring(h:diff(old, 3)))
    assert.equal(h.total - old.total, h:diff(old).total)
    h:close()
    old:close()
    assert.has_error(function() h:wait() end, "calling 'wait' on bad self (the Heap is closed)")
  end)

  -- The children of this process. They include ended ones that have not been waited for, which earlier specs may have left.
  local function children() return util.read_file(("/proc/%d/task/%d/children"):format(kit.getpid(), kit.getpid())) end

  it("leaves no process if it is closed, or collected, before it is ready", function()
    local before = children()
    assert(perf.heap { fork = true }):close()
    assert(perf.heap { fork = true })
    assert.not_equal(before, children())
    collectgarbage()
    collectgarbage()
    assert.equal(before, children())
  end)

  it("calls no finalizers in the child, and leaves the program's own children alone", function()
    local path = os.tmpname()
    finally(function() os.remove(path) end)
    local function finalize()
      local f = io.open(path, "a")
      f:write "finalized\n"
      f:close()
    end
    local proxy = newproxy and newproxy(true) or setmetatable({}, { __gc = finalize })
    if newproxy then getmetatable(proxy).__gc = finalize end
    proxy = nil
    local h = assert(perf.heap { fork = true })
    assert.is_true(h:wait())
    h:close()
    collectgarbage()
    assert.equal("finalized\n", util.read_file(path))
    assert.is_nil(proxy)
  end)

  -- The story: a signal to the whole process group could call the program's handler in the child, with the program's descriptors.
  it("runs no handler of the program in the child", function()
    local out, status = util.shell("setsid -w " .. util.lua() .. [[ -e '
      local kit, perf = require "testkit", require "perf"
      perf.heap():close()
      kit.flood()
      for _ = 1, 30 do
        local h = assert(perf.heap { fork = true })
        h:wait()
        h:close()
      end
      print(select(2, kit.flood()))']])
    assert.same({ "0\n", 0 }, { out, status })
  end)

  -- The story: if the snapshot was larger than the limit on the size of files, a signal ended the child, which left a core file.
  -- The message was that of a child that was killed.
  it("raises its limit on the size of files, and reports a limit that it cannot raise", function()
    local function taken(limit)
      return (util.shell("ulimit -c 0; ulimit " .. limit .. "; " .. util.lua() .. [[ -e '
        local perf = require "perf"
        kept = {}
        for i = 1, 5000 do kept[i] = {} end
        local h = assert(perf.heap { fork = true })
        local ok, message, code = h:wait()
        io.write(tostring(ok or message), " ", tostring(code))' | cat]]))
    end
    assert.equal("heap: File too large EFBIG", taken "-f 64")
    assert.equal("true nil", taken "-S -f 64")
  end)

  it("reports a child that was ended", function()
    local before, pid = " " .. children(), nil
    local h = assert(perf.heap { fork = true })
    for child in children():gmatch "%d+" do
      if not before:find(" " .. child .. " ", 1, true) then pid = tonumber(child) end
    end
    kit.kill(pid, 9) -- it may have ended by itself
    local ok, message, code = h:wait()
    assert.is_true(ok or code == "ECHILD", message)
    h:close()
  end)
end)
