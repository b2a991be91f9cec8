-- The story: luaperf report --diff of a profile of task-clock and one of page-faults printed figures of both as if they were of
-- one event.
local luaperf = require "spec.support.luaperf"
local profiles = require "spec.support.profiles"
local util = require "spec.support.util"

it("luaperf report --diff refuses profiles of two events", function()
  util.with_directory(function(dir)
    assert(profiles.new({ { weight = 5, "a.lua:1 f" } }):speedscope(dir .. "/time.json"))
    assert(profiles.new({ event = "page-faults", { weight = 5, "a.lua:1 f" } }):speedscope(dir .. "/faults.json"))
    local output = luaperf.shell(dir, "luaperf report --diff time.json faults.json 2>&1; echo status $?")
    assert.equal("luaperf: time.json is of task-clock, but faults.json of page-faults\nstatus 129\n", output)
  end)
end)
