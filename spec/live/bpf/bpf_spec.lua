-- BPF programs as objects: clang compiles them, libbpf loads them, and the values in their maps are exact.
local kit = require "testkit"
local util = require "spec.support.util"
local core = require "perf.core"
local sample = require "spec.support.bpf"

local bpf, object_path, refused_path

-- The object file, compiled once.
local function prepare()
  requires{ext = "bpf", bpf = true, cmd = "clang", file = "/usr/include/bpf/bpf_helpers.h"}
  bpf = require "perf.bpf"
  object_path = object_path or sample.compile(sample.source)
end

local function load(opts)
  return assert(bpf.load(object_path, opts))
end

teardown(function()
  if object_path then os.remove(object_path) end
  if refused_path then os.remove(refused_path) end
end)

describe("a BPF object", function()
  before_each(prepare)

  it("lists its programs with type, section, descriptor and id", function()
    local obj = load()
    local names = {}
    for i, p in ipairs(obj:programs()) do
      names[i] = p.name .. ":" .. p.type
      assert.is_true(p.fd > 2 and p.id > 0)
      assert.equal(obj, p.object)
    end
    table.sort(names)
    assert.same({"on_call:tracepoint", "on_overflow:perf_event", "on_probe:kprobe"}, names)
    assert.equal("kprobe/testkit_probe", obj:program("on_probe").section)
    assert.equal(obj:program("on_call"), obj:program("on_call"))
    obj:close()
  end)

  it("raises an error for a name that it does not have", function()
    local obj = load()
    assert.error_matches(function() obj:program("nope") end, "no program 'nope'")
    assert.error_matches(function() obj:map("nope") end, "no map 'nope'")
    assert.error_matches(function() obj:global("nope") end, "no global variable 'nope'")
    assert.error_matches(function() obj.program({}, "x") end, "BPF object expected, got table")
    obj:close()
  end)

  it("closes once, together with the descriptors of its programs, and raises an error afterwards", function()
    local obj = load()
    local program, map = obj:program("on_call"), obj:map("counts")
    local step = map:pairs()
    assert.is_true(obj:is_open())
    obj:close()
    obj:close()
    assert.is_false(obj:is_open())
    assert.is_nil(program.fd)
    assert.error_matches(function() obj:programs() end, "BPF object is closed")
    assert.error_matches(function() map:get(0) end, "BPF object of this map is closed")
    assert.error_matches(step, "BPF object of this map is closed")
    assert.equal("counts", map:info().name)
  end)

  it("is closed by the collector, but not before its last map and program", function()
    local map, program = load():map("counts"), load():program("on_call")
    collectgarbage()
    collectgarbage()
    assert.equal(0, map:get(0))
    assert.is_true(program.object:is_open())
  end)

  it("leaks nothing when an allocation fails", function()
    requires{nostress = true} -- a finalizer that cannot be called for lack of memory is lost
    local path = object_path
    local function use()
      local obj = assert(bpf.load(path, {programs = {"on_call"}}))
      obj:programs()
      obj:map("counts"):get(0)
      obj:close()
    end
    local jit = rawget(_G, "jit") -- LuaJIT 2.1.0-beta3 does not survive this in compiled code
    if jit then
      jit.off()
      jit.flush()
    end
    local total = kit.fail_alloc(0, use)
    for n = 1, total, math.max(1, math.floor(total / 12)) do kit.fail_alloc(n, use) end
    if jit then jit.on() end
  end)

  it("loads only the programs that are asked for", function()
    local obj = load{programs = {"on_call"}}
    assert.is_number(obj:program("on_call").fd)
    assert.is_nil(obj:program("on_probe").fd)
    obj:close()
    assert.error_matches(function() load{programs = {"nope"}} end, "option 'programs': no program 'nope'")
  end)

  it("creates maps of other sizes than the file has", function()
    local obj = load{max_entries = {counts = 9}}
    assert.equal(9, obj:map("counts"):info().max_entries)
    assert.is_true(obj:map("counts"):set(8, 1))
    obj:close()
    assert.error_matches(function() load{max_entries = {nope = 9}} end, "option 'max_entries': no map 'nope'")
    assert.error_matches(function() load{max_entries = {counts = "9"}} end, "option 'max_entries': integer expected")
  end)

  it("sets the program's global variables, and constants only before loading", function()
    local obj = load{globals = {limit = 12, small = 200, medium = 65535}}
    assert.equal(12, obj:global("limit"))
    assert.equal(200, obj:global("small"))
    assert.equal(65535, obj:global("medium"))
    assert.equal(0, obj:global("hits"))
    assert.equal(("\0"):rep(16), obj:global("wanted"))
    assert.is_true(obj:set_global("hits", 5))
    assert.equal(5, obj:global("hits"))
    assert.equal(65535, obj:global("medium"))
    assert.is_true(obj:set_global("medium", 2))
    assert.same({200, 2}, {obj:global("small"), obj:global("medium")})
    assert.error_matches(function() obj:set_global("limit", 1) end, "'limit' is a constant")
    assert.error_matches(function() obj:set_global("small", 256) end, "out of range")
    obj:close()
    assert.error_matches(function() load{globals = {limit = "x"}} end, "option 'globals': value: integer of 32 bits")
    assert.error_matches(function() load{globals = {wanted = "short"}} end, "string of 16 bytes expected, got one of 5")
  end)

  it("belongs to the process that loaded it", function()
    local obj = load{globals = {limit = 12}}
    local map = obj:map("counts")
    assert.is_true(map:set(0, 7))
    for _, raw in ipairs{false, true} do
      local pid = kit.split(raw)
      if pid == 0 then
        local function refused(what, fn, ...)
          local ok, err = pcall(fn, ...)
          return not ok and err:find(what .. " belongs to the parent process: it was opened before a fork", 1, true)
        end
        local ok = refused("BPF object", obj.programs, obj) and refused("BPF object", obj.set_global, obj, "small", 1)
          and refused("BPF map", map.get, map, 0) and refused("BPF map", map.set, map, 0, 1)
        obj:close()
        collectgarbage()
        collectgarbage()
        kit.exit(ok and load{}:map("counts"):get(0) == 0 and 0 or 1)
      end
      assert.equal(0, kit.reap(pid))
    end
    assert.equal(7, map:get(0))
    obj:close()
  end)

  it("returns the verifier's message when it is refused, and prints nothing", function()
    refused_path = refused_path or sample.compile(sample.refused_source)
    local obj, message, code = bpf.load(refused_path)
    assert.is_nil(obj)
    assert.equal("EACCES", code)
    assert.matches("cannot be loaded: Permission denied %(the kernel's verifier refused a program%)", message)
    assert.matches("invalid bpf_context access", message)
    local out = util.shell(("%s -e 'print((require %q.load(%q)))'"):format(util.lua(), "perf.bpf", refused_path))
    assert.equal("nil\n", out)
  end)

  it("names the capability that an unprivileged user lacks", function()
    local path = object_path
    util.shell("chmod 644 " .. path)
    requires{root = true}
    assert.equal("EPERM", util.in_child(function()
      assert(kit.drop())
      local obj, message, code = bpf.load(path)
      assert(not obj and message:find("CAP_BPF with CAP_PERFMON", 1, true), message)
      return code
    end))
  end)

  it("names the call that a sandbox refuses to root", function()
    local path = object_path
    requires{seccomp = true, root = true}
    assert.equal("EPERM", util.in_child(function()
      assert(kit.refuse("bpf", 1))
      local obj, message, code = bpf.load(path)
      assert(not obj and message:find("a seccomp filter, such as a container's, refuses bpf(2)", 1, true), message)
      return code
    end))
  end)
end)

describe("a BPF map", function()
  before_each(prepare)

  it("has integers of all bits for values of 4 and 8 bytes", function()
    local obj = load()
    local counts, words = obj:map("counts"), obj:map("words")
    assert.is_true(counts:set(3, 12345678901))
    assert.equal(12345678901, counts:get(3))
    assert.is_true(counts:set(0, core.u64(0xfffffffe, 0xffffffff)))
    assert.equal("0xfffffffffffffffe", core.hex(counts:get(0)))
    assert.is_true(counts:set(1, -1))
    assert.equal("0xffffffffffffffff", core.hex(counts:get(1)))
    assert.is_true(words:set(0, 4294967295))
    assert.equal(4294967295, words:get(0))
    assert.is_true(words:set(0, -2))
    assert.equal(4294967294, words:get(0))
    obj:close()
  end)

  it("raises an error for keys and values that do not fit", function()
    local obj = load()
    local words, structs = obj:map("words"), obj:map("structs")
    assert.error_matches(function() words:set(0, 4294967296) end, "#2 .*%(value: does not fit into 32 bits%)")
    assert.error_matches(function() words:set(0, -2147483649) end, "value: does not fit")
    assert.error_matches(function() words:set(0, 1.5) end, "value: integer of 32 bits expected, got number")
    assert.error_matches(function() words:get("a") end, "#1 .*%(key: integer of 32 bits expected, got string%)")
    assert.error_matches(function() words:get() end, "key: integer of 32 bits expected, got nil")
    assert.error_matches(function() structs:get("short") end, "key: string of 16 bytes expected, got one of 5")
    assert.error_matches(function() structs:set(("k"):rep(16), 5) end, "value: string of 12 bytes expected, got number")
    assert.error_matches(function() obj:map("ring"):get(0) end, "this BPF map has no keys")
    obj:close()
  end)

  it("has strings for values of other sizes", function()
    local obj = load()
    local structs = obj:map("structs")
    local key = "name" .. ("\0"):rep(12)
    assert.is_true(structs:set(key, "abcdefghijk\255"))
    assert.equal("abcdefghijk\255", structs:get(key))
    for k, v in structs:pairs() do
      assert.equal(key, k)
      assert.equal("abcdefghijk\255", v)
    end
    assert.is_true(structs:delete(key))
    local value, message, code = structs:get(key)
    assert.is_nil(value)
    assert.matches("no such key", message)
    assert.equal("ENOENT", code)
    assert.equal("ENOENT", select(3, structs:delete(key)))
    obj:close()
  end)

  it("has an array with the values of the CPUs, in order", function()
    local obj = load()
    for _, name in ipairs{"per_cpu", "per_cpu_words"} do
      local map = obj:map(name)
      local n = #obj:map("per_cpu"):get(0)
      assert.is_true(map:set(0, 9)) -- one value is for every CPU
      local values = {}
      for i = 1, n do values[i] = 9 end
      assert.same(values, map:get(0))
      for i = 1, n do values[i] = i * 1000 end
      assert.is_true(map:set(0, values))
      assert.same(values, map:get(0))
      values[n + 1] = 1
      assert.error_matches(function() map:set(0, values) end, "array of " .. n .. " values expected, one for each possible CPU")
    end
    obj:close()
  end)

  it("iterates over every key once, even if the loop deletes them", function()
    local obj = load()
    local map = obj:map("by_call")
    for k = 1, 500 do assert(map:set(k * 3, k)) end
    local sum, n = 0, 0
    for k, v in map:pairs() do
      assert.equal(k, v * 3)
      assert.is_true(map:delete(k))
      sum, n = sum + v, n + 1
    end
    assert.equal(500, n)
    assert.equal(125250, sum)
    assert.is_nil(map:pairs()())
    obj:close()
  end)

  it("skips keys in an iteration that others deleted meanwhile", function()
    local obj = load()
    local map = obj:map("by_call")
    for k = 1, 10 do assert(map:set(k, k)) end
    local n = 0
    for k in map:pairs() do
      if n == 0 then
        for other = 1, 10 do if other ~= k then map:delete(other) end end
      end
      n = n + 1
    end
    assert.equal(1, n)
    obj:close()
  end)

  it("accepts an Event or a program if its values are descriptors", function()
    requires{perf_open = true}
    local obj = load()
    local ev = assert(core.open({type = 1, config = 9, disabled = true}, 0, -1))
    assert.is_true(obj:map("events"):set(0, ev))
    assert.is_true(obj:map("events"):set(1, ev:fd()))
    assert.error_matches(function() obj:map("counts"):set(0, ev) end, "integer of 64 bits expected, got userdata")
    local value, message, code = obj:map("events"):get(0)
    assert.is_nil(value)
    assert.matches("not possible from user space", message)
    assert.equal("EOPNOTSUPP", code)
    ev:close()
    assert.error_matches(function() obj:map("events"):set(0, ev) end, "Event is closed")
    obj:close()
  end)

  it("describes itself", function()
    local obj = load()
    local info = obj:map("structs"):info()
    assert.same({"hash", 16, 12, 8}, {info.type, info.key_size, info.value_size, info.max_entries})
    assert.equal(info.fd, obj:map("structs"):fd())
    local names = {}
    for _, m in ipairs(obj:maps()) do names[m.name] = m.type end
    assert.equal("percpu_array", names.per_cpu)
    assert.equal("ringbuf", names.ring)
    obj:close()
  end)
end)
