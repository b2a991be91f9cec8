-- The story: perf.record of a shell with a uprobe ended in "sh: Cannot fork". A recording's events are inherited, and the kernel
-- (6.18) reads a probe's path, a pointer in its attr, again when a child inherits it: from the memory of the process that forks.
-- After an exec something else is at that address, the event cannot be made, and fork returns ENOMEM. Twice: the kernel inherits
-- the probe.
local kit = require "testkit"
local perf = require "perf"
local util = require "spec.support.util"

describe("a probe by name", function()
  before_each(function() requires {uprobe = true, root = true, ext = "symbols"} end)

  local function malloc()
    local path = util.read_file("/proc/self/maps"):match("(/%S*/libc[.-]%S*so%S*)")
    return assert(perf.uprobe {path = path, symbol = "malloc"})
  end

  it("is refused with children, before any program runs", function()
    util.with_tmpname(function(path)
      local file = path .. ".data"
      local r, message, code = perf.record({"sh", "-c", "touch " .. path .. ".ran"}, {events = {malloc()}, output = file})
      assert.is_nil(r)
      assert.equal("EOPNOTSUPP", code)
      assert.matches("uprobe:.*: a probe is not inherited .*: record with inherit = false", message)
      assert.is_nil(io.open(file))
      assert.is_nil(io.open(path .. ".ran"))
    end)
  end)

  it("is recorded without children, which still run", function()
    requires { perf_open = "user" }
    local _, path, symbol = kit.probe_place()
    util.with_tmpname(function(name)
      local file = name .. ".data"
      local code = [[require "testkit".probe(37)
        require "spec.support.util".execute "sh -c 'sh -c true && ls / >/dev/null'"
        os.exit(7)]]
      local r = assert(perf.record({util.lua(), "-e", code},
        {events = {assert(perf.uprobe {path = path, symbol = symbol})}, inherit = false, output = file}))
      os.remove(file)
      assert.equal(7, r.status)
      assert.equal(37, r.samples)
    end)
  end)
end)
