-- The story: `require "resty.perf"` in a plain interpreter failed in a file of lua-resty-core: "attempt to index global 'ngx'".
local util = require "spec.support.util"

describe("resty.perf outside nginx", function()
  it("says that it needs nginx's Lua module", function()
    local output, status = util.shell(util.lua() .. [[ -e 'require "resty.perf"' 2>&1]])
    assert.equal(1, status)
    assert.matches("resty.perf needs nginx's Lua module: require it in OpenResty's init_by_lua_block", output, 1, true)
    assert.not_matches("attempt to index", output, 1, true)
  end)
end)
