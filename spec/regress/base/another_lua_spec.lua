-- The story: after eval "$(make -s env LUA=lua5.4)", luajit failed to load the module with "undefined symbol: lua_getiuservalue".
-- The message did not tell for which Lua the module was built.
local saved = { "perf.core", "perf.base.core" }

describe("a C library built for another Lua", function()
  local function loaded(message)
    local before = {}
    for _, name in ipairs(saved) do before[name], package.loaded[name] = package.loaded[name], nil end
    package.preload["perf.core"] = function() error(message, 0) end
    local ok, why = pcall(require, "perf.base.core")
    package.preload["perf.core"] = nil
    for _, name in ipairs(saved) do package.loaded[name] = before[name] end
    assert.is_false(ok)
    return why
  end

  it("is named, with advice", function()
    local why = loaded("error loading module 'perf.core' from file '/b/lua5.9/core.so':\n\t"
      .. "/b/lua5.9/core.so: undefined symbol: lua_x")
    assert.matches("/b/lua5.9/core.so is for another Lua, not for ", why, 1, true)
    assert.matches("eval \"%$%(make %-s env LUA=lua[%w.]+%)\"", why)
    assert.matches("(undefined symbol: lua_x)", why, 1, true)
  end)

  it("is not suspected if the loader gives another reason", function()
    assert.matches("no such file", loaded "error loading module 'perf.core' from file '/b/core.so':\n\tno such file", 1, true)
  end)
end)
