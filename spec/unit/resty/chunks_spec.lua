-- The chunks of nginx's configuration, which run by hooks from their first run on. The key is nginx's.
local kit = require "testkit"

describe("resty.perf.chunks", function()
  local chunks, real, log

  before_each(function()
    requires { lua = "luajit" }
    real, log = rawget(_G, "ngx"), {}
    rawset(_G, "ngx", { get_phase = function() return "ssl_cert" end })
    chunks = require "resty.perf.chunks"
  end)
  after_each(function() rawset(_G, "ngx", real) end)

  local INLINE = "content_by_lua_nhli_0123456789abcdef0123456789abcdef"
  local FILE = "nhlf_0123456789abcdef0123456789abcdef"

  local function hook(name)
    return function(f, ...)
      log[#log + 1] = name
      return f(...)
    end
  end

  local function install(keeps)
    local cache = {}
    assert.is_true(chunks.install({ content = hook "content", ssl_certificate = hook "certificate" }, cache, keeps))
    return cache
  end

  local function chunk(...) return select("#", ...), ... end

  for _, indexed in ipairs { true, false } do
    it("run by the hook of their directive or phase, " .. (indexed and "with" or "without") .. " an index", function()
      local cache = install(true)
      for i, key in ipairs { INLINE, FILE } do
        local first, index = kit.store_chunk(cache, key, chunk, indexed)
        assert.same({ 2, nil, "b" }, { first(nil, "b") })
        assert.equal(i == 1 and "content" or "certificate", log[i])
        assert.equal(first, cache[indexed and index or key])
        if indexed then assert.equal(index, cache[key]) end
      end
      assert.equal(2, #log)
    end)

    it("that are made for each run too, " .. (indexed and "with" or "without") .. " an index", function()
      local cache = install(false)
      local made = 0
      local function make()
        made = made + 1
        return function() return mark end -- luacheck: ignore
      end
      local first = kit.store_chunk(cache, INLINE, make, indexed)
      for i = 1, 3 do
        local run = first()
        setfenv(run, { mark = i })
        assert.equal(i, run())
        assert.equal(i, made)
      end
      assert.same({ "content", "content", "content" }, log)
    end)
  end

  it("run as they are if a phase has no hook", function()
    local cache = install(true)
    rawset(_G, "ngx", { get_phase = function() return "another" end })
    assert.equal(0, (kit.store_chunk(cache, FILE, chunk, true)()))
    assert.same({}, log)
  end)

  it("are stored as they are if wrapping fails", function()
    for _, wrap in ipairs { function() error "x" end, function() end, function() return 5 end } do
      for _, indexed in ipairs { true, false } do
        local cache = {}
        assert.is_true(require "perf.core".wrap_chunks(cache, wrap))
        local first, index = kit.store_chunk(cache, INLINE, chunk, indexed)
        assert.equal(chunk, first)
        assert.equal(chunk, cache[indexed and index or INLINE])
      end
    end
  end)

  it("other values are stored too, at any depth of calls", function()
    local cache = install(true)
    cache.x, cache[FILE], cache[7] = 5, 70, true
    assert.same({ 5, 70, true }, { cache.x, cache[FILE], cache[7] })
    cache[INLINE] = chunk
    assert.is_true(cache[INLINE] ~= chunk)
    coroutine.wrap(function() assert.is_true(kit.store_chunk(cache, "set_by_lua_nhli_0", chunk, true) ~= chunk) end)()
  end)

  it("are left alone if the cache is unknown or has a metatable", function()
    assert.same({ nil, "this version of nginx's Lua module has no known cache of chunks" }, { chunks.install {} })
    assert.same({ nil, "another module watches nginx's cache of chunks" }, { chunks.install({}, setmetatable({}, {}), true) })
  end)
end)
