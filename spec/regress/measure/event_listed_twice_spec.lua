-- The story: luaperf stat -p and -a added up the threads or the CPUs by the event's label, so that an event that was listed twice
-- had twice its count, in one row where perf stat has two. Now it adds up by position.
local json = require "perf.base.json"
local luaperf = require "spec.support.luaperf".shell
local util = require "spec.support.util"

local PAGES = 3000

describe("an event that is asked for twice", function()
  before_each(function() requires { perf_open = "user", nosan = true } end)

  it("is counted twice by luaperf stat -p, in the order of the list", function()
    util.with_directory(function(dir)
      util.write_file(dir .. "/a.lua", ([[
        local function wait(name) repeat local f = io.open(name) until f end
        io.open("ready", "w"):close()
        wait "go"
        require "testkit".touch_pages(%d)
        io.open("done", "w"):close()
        wait "end"]]):format(PAGES))
      util.write_file(dir .. "/meanwhile", ">go; while ! [ -e done ]; do sleep 0.01; done")
      local output, status = luaperf(dir, "$LUA a.lua & p=$!; while ! [ -e ready ]; do sleep 0.01; done; "
        .. "luaperf stat -o out.json -e page-faults:u,no_such_pmu/event=1/,page-faults:u -p $p sh meanwhile; "
        .. ">end; wait $p")
      assert.equal(0, status, output)
      local events = assert(json.decode(util.read_file(dir .. "/out.json"))).events
      assert.equal(3, #events)
      for _, i in ipairs { 1, 3 } do
        assert.equal("page-faults:u", events[i].label)
        assert.is_true(events[i].value >= PAGES and events[i].value < 1.5 * PAGES, tostring(events[i].value))
      end
      assert.equal("no_such_pmu/event=1/", events[2].label)
      assert.is_nil(events[2].value)
    end)
  end)
end)
