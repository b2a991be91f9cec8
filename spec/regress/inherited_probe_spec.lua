-- perf.record of a shell by a uprobe said "sh: Cannot fork". A recording's events are inherited, and the kernel (6.18) reads
-- a probe's path, a pointer in its attr, again when a child inherits it: from the memory of the process that forks. After an
-- exec there is something else at that address, the event cannot be made, and fork gives ENOMEM.
local perf = require "perf"
local util = require "spec.support.util"

describe("a probe by name", function()
  before_each(function() requires {uprobe = true, root = true, ext = "symbols"} end)

  local function malloc()
    local path = util.read_file("/proc/self/maps"):match("(/%S*/libc[.-]%S*so%S*)")
    return assert(perf.uprobe {path = path, symbol = "malloc"})
  end

  it("is not recorded with the children, and that is said before anything runs", function()
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

  it("is recorded without them, and they run", function()
    util.with_tmpname(function(path)
      local file = path .. ".data"
      local r = assert(perf.record({"sh", "-c", "ls / >/dev/null; ls / >/dev/null; exit 7"},
        {events = {malloc()}, inherit = false, output = file}))
      local names, samples = {}, 0
      for rec in perf.data.open(file):records() do
        if rec.type == "comm" then names[rec.comm] = true end
        if rec.type == "sample" then samples = samples + 1 end
      end
      os.remove(file)
      assert.equal(7, r.status)
      assert.is_true(samples > 10) -- a shell's start takes some hundred
      assert.equal(samples, r.samples)
      assert.is_true(names.sh)
      assert.is_nil(names.ls)
    end)
  end)
end)
