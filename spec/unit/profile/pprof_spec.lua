-- pprof's files, decoded by a separate decoder; spec/reports reads them with go tool pprof. Twice: numbers are the
-- same in Lua 5.1 to LuaJIT, and have a subtype in Lua 5.3 and 5.4.
local profiles = require "spec.support.profiles"

-- The fields of a message: array of {number, value}, where value is a number or the bytes.
local function fields(s)
  local list, at = {}, 1
  local function varint()
    local v, scale = 0, 1
    while true do
      local b = assert(s:byte(at), "the message ends within a number")
      at = at + 1
      v, scale = v + b % 128 * scale, scale * 128
      if b < 128 then return v end
    end
  end
  while at <= #s do
    local tag = varint()
    local number, wire = math.floor(tag / 8), tag % 8
    if wire == 0 then
      list[#list + 1] = { number, varint() }
    else
      assert.equal(2, wire)
      local size = varint()
      assert.is_true(at + size - 1 <= #s)
      list[#list + 1] = { number, s:sub(at, at + size - 1) }
      at = at + size
    end
  end
  return list
end

local function message(s)
  local t = setmetatable({}, { __index = function() return {} end })
  for _, f in ipairs(fields(s)) do
    if rawget(t, f[1]) == nil then t[f[1]] = {} end
    table.insert(t[f[1]], f[2])
  end
  return t
end

-- The numbers of a packed field.
local function packed(s)
  local list, v, scale = {}, 0, 1
  for i = 1, #s do
    local b = s:byte(i)
    v, scale = v + b % 128 * scale, scale * 128
    if b < 128 then
      list[#list + 1] = v
      v, scale = 0, 1
    end
  end
  assert.equal(1, scale)
  return list
end

-- Without compression, as if lua-zlib were not installed.
local function plain(prof)
  local loaded, preload = package.loaded.zlib, package.preload.zlib
  package.loaded.zlib, package.preload.zlib = nil, function() error "not here" end
  local ok, bytes = pcall(prof.pprof, prof)
  package.loaded.zlib, package.preload.zlib = loaded, preload
  assert(ok, bytes)
  return bytes
end

local function decode(bytes)
  local m = message(bytes)
  local p = { m = m, strings = m[6], functions = {}, locations = {}, mappings = {}, samples = {} }
  local function str(list) return p.strings[(list[1] or 0) + 1] end
  for _, s in ipairs(m[5]) do
    local f = message(s)
    p.functions[f[1][1]] = { name = str(f[2]), file = str(f[4]), start = f[5][1] }
  end
  for _, s in ipairs(m[3]) do
    local f = message(s)
    p.mappings[f[1][1]] = str(f[5])
  end
  for _, s in ipairs(m[4]) do
    local f = message(s)
    local line = message(f[4][1])
    p.locations[f[1][1]] = { fn = p.functions[line[1][1]], line = line[2][1], mapping = p.mappings[f[2][1]], address = f[3][1] }
  end
  for i, s in ipairs(m[2]) do
    local f = message(s)
    local stack = {}
    for k, id in ipairs(packed(f[1][1])) do stack[k] = assert(p.locations[id]) end
    local label = f[3][1] and message(f[3][1])
    p.samples[i] = { stack = stack, values = packed(f[2][1]), label = label and { str(label[1]), str(label[2]) } }
  end
  p.types = {}
  for i, s in ipairs(m[1]) do
    local f = message(s)
    p.types[i] = str(f[1]) .. "/" .. str(f[2])
  end
  p.str = str
  return p
end

describe("perf.profile.report.pprof", function()
  it("writes samples with their stacks, the innermost first, and both values", function()
    local p = decode(plain(profiles.program()))
    assert.equal("", p.strings[1])
    assert.same({ "samples/count", "task-clock/nanoseconds" }, p.types)
    assert.equal(6, #p.samples)
    local s = p.samples[2]
    local names = {}
    for i, l in ipairs(s.stack) do names[i] = l.fn.name .. ":" .. (l.line or 0) end
    assert.same({ "string.find:0", "parse:14", "main:31", "main chunk:40" }, names)
    assert.same({ 20, 20e6 }, s.values)
    assert.same({ "zone", "input" }, s.label)
    assert.is_nil(p.samples[1].label)
    assert.same({ "app.lua", 10 }, { s.stack[2].fn.file, s.stack[2].fn.start })
    -- Lines of one function are locations of it.
    assert.equal(p.samples[1].stack[1].fn, s.stack[2].fn)
  end)

  it("names the file of native code, and the time of the profile", function()
    local p = decode(plain(profiles.program()))
    local s = p.samples[3]
    assert.equal("/usr/lib/libmemcpy.so", s.stack[2].mapping)
    assert.equal(4096, s.stack[2].address)
    assert.equal("luajit", p.mappings[1])
    assert.equal("luajit", s.stack[3].mapping)
    assert.near(1700000000.5e9, p.m[9][1], 1e3)
    assert.equal(2e9, p.m[10][1])
    assert.equal("task-clock", p.str(p.m[14]))
    assert.equal(math.floor(1e9 / 999), p.m[12][1])
  end)

  it("has addresses and weights of 64 bits", function()
    local core = require "perf.core"
    local prof = profiles.new { event = "x", unit = "", { weight = 2 ^ 53 - 1, "N:f" }, { weight = 300, "K:g" } }
    prof:samples()[1].stack[1].address = core.u64(0x12345678, 0x9abcdef0)
    prof:samples()[2].stack[1].address = core.u64(0, 0xffffffff)
    local bytes = plain(prof)
    local p = decode(bytes)
    assert.equal(2 ^ 53 - 1, p.samples[1].values[2])
    assert.equal(300, p.samples[2].values[2])
    -- 64 bits are ten bytes: 0xffffffff00000000, and exactly 0x9abcdef012345678.
    assert.truthy(bytes:find("\24\128\128\128\128\240\255\255\255\255\1", 1, true))
    assert.truthy(bytes:find("\24\248\172\209\145\129\222\183\222\154\1", 1, true))
    assert.equal("x/count", p.types[2])
  end)

  -- The story: the event of folded stacks is called "samples", as the number of samples was, and go tool pprof refuses a file
  -- with two values of one name: "profiles have empty common sample type list".
  it("has one value for an event that is called samples", function()
    local p = decode(plain(profiles.new { event = "samples", unit = "", { weight = 10, "N:a" }, { weight = 5, "N:b" } }))
    assert.same({ "samples/count" }, p.types)
    assert.same({ 10 }, p.samples[1].values)
    assert.same({ 5 }, p.samples[2].values)
    assert.equal("samples", p.str(p.m[14]))
  end)

  it("has Go's names and values for profiles of memory", function()
    local p = decode(plain(profiles.new { event = "alloc", unit = "bytes", { weight = 64, count = 2, "app.lua:12 parse" } }))
    assert.same({ "alloc_objects/count", "alloc_space/bytes" }, p.types)
    assert.same({ 2, 64 }, p.samples[1].values)
    assert.equal("alloc_space", p.str(p.m[14]))
    local prof = profiles.new { event = "heap", unit = "bytes", { weight = 64, count = 2, "app.lua:12 parse" } }
    p = decode(plain(prof)) -- as of a file, which has only what lives
    assert.same({ "inuse_objects/count", "inuse_space/bytes" }, p.types)
    assert.same({ 2, 64 }, p.samples[1].values)
    local sample = prof:samples()[1]
    sample.allocated, sample.allocated_count = 320, 10
    prof.freed = { { stack = sample.stack, weight = 0, count = 0, allocated = 96, allocated_count = 3 } }
    p = decode(plain(prof))
    assert.same({ "alloc_objects/count", "alloc_space/bytes", "inuse_objects/count", "inuse_space/bytes" }, p.types)
    assert.same({ 10, 320, 2, 64 }, p.samples[1].values)
    assert.same({ 3, 96, 0, 0 }, p.samples[2].values)
    assert.equal("inuse_space", p.str(p.m[14]))
  end)

  it("accepts any name", function()
    local p = decode(plain(profiles.nasty()))
    for i, name in ipairs(profiles.names) do
      assert.equal((name:gsub("[\255\128]", function(c)
        return name:find "bad" and ("\\x%02x"):format(c:byte()) or c
      end)), p.samples[i].stack[1].fn.name)
    end
  end)

  it("of a profile without samples has no samples", function()
    local p = decode(plain(profiles.empty()))
    assert.equal(0, #p.samples)
    assert.equal("task-clock/nanoseconds", p.types[2])
  end)

  it("is compressed by lua-zlib", function()
    requires { module = "zlib" }
    local prof = profiles.large(6000)
    local bytes = prof:pprof()
    assert.equal("\31\139", bytes:sub(1, 2))
    local inflated = require "zlib".inflate()(bytes)
    assert.equal(plain(prof), inflated)
  end)

  it("is not deceived by another module of that name", function()
    local loaded = package.loaded.zlib
    local function with(module)
      package.loaded.zlib = module
      local ok, bytes = pcall(profiles.program().pprof, profiles.program())
      package.loaded.zlib = loaded
      assert(ok, bytes)
      return bytes
    end
    assert.equal(6, #decode(with { deflate = function() return "no stream" end }).samples)
    assert.equal(6, #decode(with { deflate = function() error "other arguments" end }).samples)
    assert.equal(6, #decode(with(true)).samples)
  end)
end)
