-- The story: prof:zone(name, x) called x, a parameter that only the library uses, for each sample: an error of a line of the
-- library if x was not a function. As everywhere in Lua, an argument too many has no effect.
local perf = require "perf"
local util = require "spec.support.util"

describe("the samples of one zone", function()
  it("are the same with an argument too many", function()
    local prof
    util.with_directory(function(dir)
      util.write_file(dir .. "/a.json", [=[{"shared": {"frames": [{"name": "zone"}, {"name": "f"}]},
        "profiles": [{"type": "sampled", "samples": [[1], [1]], "weights": [2, 3], "zones": ["one", "two"], "zone": [0, 1]}]}]=])
      prof = assert(perf.load(dir .. "/a.json"))
    end)
    assert.equal(5, prof.total)
    for _, extra in ipairs { 5, "x", true, {} } do assert.equal(3, prof:zone("two", extra).total) end
    assert.equal(3, prof:zone("two").total)
  end)
end)
