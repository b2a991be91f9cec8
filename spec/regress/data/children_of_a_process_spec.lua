-- The stories: perf.record of a process left out the children that the process had already, and those that it started after its
-- threads had been listed and before the events were open. One that started after that, and before the events were enabled, had
-- no name and no mappings. Twice: what a process runs has no part in it.
local core = require "perf.core"
local host = require "perf.kernel.host"
local kit = require "testkit"
local perf = require "perf"
local synthesize = require "perf.data.synthesize"
local util = require "spec.support.util"

describe("perf.record of a process", function()
  local fifo, data
  before_each(function()
    fifo, data = os.tmpname(), os.tmpname() -- first, since after_each removes them although the spec is pending
    requires { perf_open = "user" }
    os.remove(fifo)
    assert(util.shell("mkfifo " .. fifo) == "")
  end)

  after_each(function()
    os.remove(fifo)
    os.remove(data)
  end)

  -- Record a process. The recording watches its events once it has begun: then `begun` is called.
  local function record(pid, opts, begun)
    local watch = core.watch
    core.watch = function(...) -- luacheck: ignore 122
      core.watch = watch -- luacheck: ignore 122
      begun()
      return watch(...)
    end
    opts.events = { { event = "page-faults:u", sample_type = { "addr" } } }
    opts.period, opts.output = 1, data
    local result, message = perf.record(pid, opts)
    core.watch = watch -- luacheck: ignore 122
    return assert(result, message).lost
  end

  -- The number of pages with exactly one fault of a process, its number of faults, and whether the file has its name and its
  -- mappings, or the record of its fork, by which they are those of its parent. A fault that is recorded twice does not count.
  -- The process has more faults than those of touch_pages: it copies pages of its parent, all of them if a collection marks them.
  local function recorded(pid)
    local pages, once, n, has = {}, 0, 0, {}
    local file = assert(perf.data.open(data))
    for rec in file:records() do
      if rec.pid == pid then
        has[rec.type] = true
        if rec.type == "sample" then
          local page = tostring(rec.addr)
          n, pages[page] = n + 1, (pages[page] or 0) + 1
        end
      end
    end
    file:close()
    for _, faults in pairs(pages) do once = once + (faults == 1 and 1 or 0) end
    return once, n, has.fork or has.comm and has.mmap2 or false
  end

  -- A process that starts a child, which uses 300 pages once the fifo is open.
  local function parent()
    local function in_child()
      io.open(fifo, "r"):close()
      kit.touch_pages(300)
    end
    return assert(kit.start(function() assert(kit.fork(in_child) == 0) end))
  end

  local function go_on() io.open(fifo, "w"):close() end

  -- Record a process with one child, whose number is known when the recording has ended.
  local function check(process, child)
    local lost = record(process:pid(), {}, go_on)
    assert.equal(0, (process:wait()))
    local once, n, is_known = recorded(child())
    assert.is_true(is_known)
    assert.is_true(once + lost >= 290, once .. " of " .. n) -- an address of the heap may have been used before
  end

  it("has the children that exist already, unless they are not to be followed", function()
    for _, inherit in ipairs { true, false } do
      local child = parent()
      child:go()
      local pids
      repeat pids = host.descendants(child:pid()) until #pids == 1
      local lost = record(child:pid(), { inherit = inherit }, go_on)
      assert.equal(0, (child:wait()))
      local once, n, is_known = recorded(pids[1])
      assert.equal(inherit, is_known)
      assert.is_true(inherit and once + lost >= 290 or not inherit and n == 0, once .. " of " .. n)
    end
  end)

  it("has a child that starts while the events are opened, once", function()
    local child, list = parent(), host.with_descendants
    finally(function() host.with_descendants = list end)
    local started
    function host.with_descendants(pids)
      local found = list(pids)
      if not started then
        child:go()
        repeat started = host.descendants(child:pid())[1] until started -- the child has started after its parent was listed
      end
      return found
    end
    check(child, function() return started end)
  end)

  it("has a child that starts while the state of the process is written", function()
    local child, write = parent(), synthesize.process
    finally(function() synthesize.process = write end)
    local started
    function synthesize.process(...)
      write(...)
      child:go()
      repeat started = host.descendants(child:pid())[1] until started
    end
    check(child, function() return started end)
  end)

  it("ends with the process, though a child of it runs on", function()
    local pipe = assert(io.popen(("sleep 1000 >/dev/null 2>&1 & echo $$ $!; exec 2>&-; read x <%s"):format(fifo)))
    local pid, child = pipe:read("*n", "*n")
    finally(function()
      os.execute("kill " .. child)
      pipe:close()
    end)
    repeat until #host.descendants(pid) == 1
    record(pid, {}, go_on)
    assert.is_true(host.is_running(child))
  end)
end)
