-- The story: a script under luaperf on Lua 5.1 died with "corrupted double-linked list" at its end, now and then. Lua 5.1 goes on
-- collecting within a finalizer once memory has doubled, and what was finalized when the state closes is made white again
-- whatever it hangs on: the collector freed it while a function that ran later still had it, and then marked what was freed.
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
