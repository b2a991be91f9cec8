-- The story: a script under luaperf on Lua 5.1 sometimes died with "corrupted double-linked list" at its end. Lua 5.1 goes on
-- collecting within a finalizer once memory has doubled, and the objects that are finalized when the state closes are made white
-- again even if others refer to them: the collector freed an object that a later function still used, and then marked the freed
-- memory.
local util = require "spec.support.util"

it("no object is collected while the handlers at the end run", function()
  local script = [[
    kept = require "perf.base.at_exit"(function()
      local weak, all = setmetatable({ {} }, { __mode = "v" }), {}
      for i = 1, 10000 do all[i % 100 + 1] = { ("x"):rep(1000) .. i } end
      io.write(weak[1] and "kept" or "collected")
    end)
  ]]
  util.with_directory(function(dir)
    util.write_file(dir .. "/a.lua", script)
    assert.equal("kept", (util.shell(util.lua() .. " " .. dir .. "/a.lua")))
  end)
end)
