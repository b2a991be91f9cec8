local profiles = require "spec.support.profiles"
local prof = profiles.program()

describe("Profile:tree", function()
  it("adds up the weights of the ways from the root", function()
    local tree = prof:tree()
    assert.same({ "all", 100e6, 0 }, { tree.root.name, tree.root.total, tree.root.self })
    local main = tree.root.children[1]
    assert.same({ "main chunk app.lua:40", 75e6 }, { main.name, main.total })
    local zone = tree.root.children[2]
    assert.same({ "input", "zone", 20e6 }, { zone.name, zone.kind, zone.total })
    local parse = main.children[1].children[1]
    assert.same({ "parse app.lua:10", 50e6, 50e6, 50, "app.lua", 10 },
      { parse.name, parse.self, parse.total, parse.count, parse.file, parse.line })
    local function check(node)
      local sum = node.self
      for _, child in ipairs(node.children) do
        sum = sum + child.total
        check(child)
      end
      assert.equal(node.total, sum)
    end
    check(tree.root)
    check(prof:tree { by = "line" }.root)
  end)

  it("prints the heaviest rows", function()
    assert.equal([[
task-clock: 100.000 ms in 100 samples at 999 Hz

     total      %       self     %  function
100.000 ms  100.0       0 ns   0.0  all
 75.000 ms   75.0       0 ns   0.0  |- main chunk app.lua:40
 75.000 ms   75.0       0 ns   0.0  |  main app.lua:30
 50.000 ms   50.0  50.000 ms  50.0  |  parse app.lua:10
 20.000 ms   20.0       0 ns   0.0  `- input
                                    ... and 12 lighter ones]], tostring(prof:tree { n = 5 }))
    assert.matches("\n 15%.000 ms   15%.0 +0 ns +0%.0  |     |%- app.lua:22 render\n", tostring(prof:tree { by = "line" }))
    assert.matches("\ntotal  %%  self  %%  function\n +0 ns  %- +0 ns  %-  all$", tostring(profiles.empty():tree()))
  end)

  it("refuses an invalid option", function()
    assert.has_error(function() prof:tree { by = "file" } end)
    assert.error_matches(function() prof:tree { depth = 1 } end, "unknown option 'depth'")
  end)
end)

describe("Profile:callers and callees", function()
  it("are the two sides of a function", function()
    local callers, callees = prof:callers "parse", prof:callees "parse"
    for _, tree in ipairs { callers, callees } do
      assert.same({ "parse app.lua:10" }, tree.functions)
      assert.same({ 70e6, 50e6 }, { tree.root.total, tree.self })
    end
    assert.equal(1, #callers.root.children)
    assert.same({ "main app.lua:30", 70e6 }, { callers.root.children[1].name, callers.root.children[1].total })
    assert.same({ "string.find", 20e6 }, { callees.root.children[1].name, callees.root.children[1].self })
    assert.equal("    total     %  callers\n70.000 ms  70.0  parse app.lua:10\n70.000 ms  70.0  main app.lua:30\n"
      .. "70.000 ms  70.0  main chunk app.lua:40", tostring(callers))
  end)

  it("count a stack once in which the function calls itself", function()
    for _, tree in ipairs { prof:callers "walk", prof:callees "walk" } do
      assert.same({ 10e6, 10e6 }, { tree.root.total, tree.self })
    end
    assert.equal("walk app.lua:20", prof:callees "walk".root.children[1].name)
    assert.equal("main app.lua:30", prof:callers "walk".root.children[1].name)
  end)

  it("find a function by any of its names, or name the nearest one", function()
    for _, name in ipairs { "render", "render app.lua:20", "app.lua:22 render" } do
      assert.equal(15e6, prof:callees(name).root.total, name)
    end
    assert.same({ "render app.lua:20", "walk app.lua:20" }, prof:callers "app.lua:20".functions)
    local found, message, code = prof:callers "rendr"
    assert.same({ nil, "no function is called 'rendr'; did you mean 'render'?", "ENOENT" }, { found, message, code })
    assert.has_error(function() prof:callers() end)
  end)
end)
