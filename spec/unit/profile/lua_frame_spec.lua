local lua_frame = require "perf.profile.lua_frame"

describe("a frame of Lua code", function()
  it("has its place and its function in its name", function()
    for name, frame in pairs {
      ["a.lua:3 f"] = lua_frame.new("a.lua", 3, nil, "f"),
      ["/b c:9:d.lua:3-17 x.y"] = lua_frame.new("/b c:9:d.lua", 3, 17, "x.y"),
      ['[string "x"]:1 main chunk'] = lua_frame.new('[string "x"]', 1, nil, "main chunk"),
    } do
      assert.equal(name, frame.name)
      assert.same(frame, lua_frame.parse(name))
      assert.is_true(lua_frame.is(frame))
      assert.equal(frame.lastline and "range" or "lua", frame.kind)
    end
  end)

  it("is not made of another name", function()
    for _, name in ipairs { "", "memcpy (libc.so.6)", "a.lua: f", "a.lua:3", "a.lua:3-f", "std::sort<int>" } do
      assert.is_nil(lua_frame.parse(name), name)
    end
    for _, kind in ipairs { "c", "builtin", "native", "state" } do assert.is_false(lua_frame.is { kind = kind }) end
  end)
end)
