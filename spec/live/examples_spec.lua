-- The examples run to their end, and print what they promise.
local util = require "spec.support.util"

local function run(name, arguments)
  local output, status = util.shell(("%s examples/%s.lua %s"):format(util.lua(), name, arguments or ""))
  assert.equal(0, status, output)
  return output
end

describe("examples", function()
  before_each(function() requires { perf_open = true, nostress = true } end)

  it("measure", function()
    assert.matches("CPUs used: ", run "measure")
  end)

  it("group", function()
    assert.matches("After round 3 of 3:", run "group")
  end)

  it("bench", function()
    local output = run "bench"
    assert.matches("to concat", output)
    assert.matches("bytes of JSON\n?$", output)
  end)

  it("explore", function()
    assert.matches("did you mean 'page%-faults'%?", run "explore")
  end)

  it("demo", function()
    requires { module = { "cjson", "dkjson" } }
    local output = run("demo", "1e5")
    assert.matches("KB of JSON, decoded and encoded by cjson", output)
    assert.matches("cjson +dkjson +ratio", output)
    assert.matches("\n> perf = require \"perf\"\n", output)
  end)

  it("demo without libraries ends with status 1 and says why", function()
    local output, status = util.shell(util.lua() ..
      [[ -e 'package.preload.cjson = function() error "away" end package.preload.dkjson = package.preload.cjson']] ..
      " examples/demo.lua")
    assert.equal(1, status)
    assert.matches("cjson is not installed, so it is left out", output)
    assert.matches("demo: neither cjson nor dkjson is here: nothing to measure\n?$", output)
  end)
end)
