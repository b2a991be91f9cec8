-- Records from bytes: every type except samples. spec/live/record/record_spec.lua has those that this machine's kernel can write;
-- sample_spec.lua has the samples.
local bytes = require "spec.support.bytes"
local core = require "perf.core"

local b = bytes.native
local T = {}
for _, row in ipairs(core.defs().record) do T[row.sym] = row.value end

local ID_ALL = { "tid", "time", "id", "stream_id", "cpu", "identifier" }

-- The trailer of sample_id_all with all of its fields.
local function trailer(o)
  return o.u32(71) .. o.u32(72) .. o.u64(7300) .. o.u64(74) .. o.u64(75) .. o.u32(3) .. o.u32(0) .. o.u64(74)
end

local function layouts(attr)
  local ls = core.layouts()
  ls:add(attr, { label = "dummy", attr = attr })
  return ls
end
local plain = layouts { sample_type = { "ip" } }
local full = layouts { sample_type = ID_ALL, sample_id_all = true, read_format = { "total_time_enabled", "id", "lost" } }

-- The record with this body, without and with sample_id_all, in both byte orders. make(o) returns type, misc and body.
local function every_way(make, check)
  for _, order in ipairs { "native", "swapped" } do
    local o = bytes[order]
    local type, misc, body = make(o)
    local swapped = order == "swapped"
    local rec = assert(plain:record(o.record(type, misc, body), swapped))
    assert.equal(8 + #body, rec.size)
    assert.equal(misc, rec.misc)
    assert.equal(type, rec.type_id)
    check(rec, false)
    local raw = o.record(type, misc, body, trailer(o))
    rec = assert(full:record(raw, swapped))
    assert.equal(#raw, rec.size)
    check(rec, true)
    assert.equal(74, rec.event_id)
    assert.equal(3, rec.cpu)
    if not swapped then assert.equal(raw, rec:bytes()) end
    assert.equal("dummy", rec.event)
    assert.is_string(tostring(rec))
  end
end

describe("a record", function()
  it("mmap", function()
    every_way(function(o)
      return T.MMAP, 2, o.u32(11) .. o.u32(12) .. o.u64s("0xffffffff81000000", 0x2000, 0x3000) .. o.text "/bin/true"
    end, function(rec, id)
      assert.equal("mmap", rec.type)
      assert.equal("user", rec.cpu_mode)
      assert.equal(11, rec.pid)
      assert.equal(12, rec.tid)
      assert.equal("0xffffffff81000000", core.hex(rec.addr))
      assert.equal(-0x7f000000, tonumber(rec.addr))
      assert.equal(0x2000, rec.len)
      assert.equal(0x3000, rec.pgoff)
      assert.equal("/bin/true", rec.filename)
      assert.is_true(rec.executable)
      assert.is_nil(rec.prot)
      assert.is_nil(rec.comm)
      assert.equal(id and 7300 or nil, rec.time)
      assert.equal(id and 75 or nil, rec.stream_id)
      assert.equal(id and 74 or nil, rec.id)
    end)
  end)

  it("mmap of data", function()
    local rec = plain:record(b.record(T.MMAP, 2 + 0x2000, b.u32(1), b.u32(1), b.u64s(1, 2, 3), b.text "x"))
    assert.is_false(rec.executable)
  end)

  it("mmap2 with the file's inode", function()
    every_way(function(o)
      return T.MMAP2, 2, o.u32(11) .. o.u32(12) .. o.u64(0x7f0000000000) .. o.u64(0x2000) .. o.u64(0x3000) .. o.u32(8) .. o.u32(1)
        .. o.u64(123456789012) .. o.u64(77) .. o.u32(5) .. o.u32(0x1002) .. o.text "/lib/x.so"
    end, function(rec)
      assert.equal("mmap2", rec.type)
      assert.equal(0x7f0000000000, rec.addr)
      assert.equal(8, rec.maj)
      assert.equal(1, rec.min)
      assert.equal(123456789012, rec.ino)
      assert.equal(77, rec.ino_generation)
      assert.equal(5, rec.prot)
      assert.equal(0x1002, rec.flags)
      assert.equal("/lib/x.so", rec.filename)
      assert.is_true(rec.executable)
      assert.is_nil(rec.build_id)
    end)
  end)

  it("mmap2 with a build id", function()
    local id = ""
    for i = 1, 20 do id = id .. string.char(200 + i) end
    every_way(function(o)
      return T.MMAP2, 2 + 0x4000, o.u32(11) .. o.u32(12) .. o.u64(0x7f0000000000) .. o.u64(0x2000) .. o.u64(0x3000) .. "\20\0\0\0"
        .. id .. o.u32(5) .. o.u32(2) .. o.text "/lib/x.so"
    end, function(rec)
      assert.equal("c9cacbcccdcecfd0d1d2d3d4d5d6d7d8d9dadbdc", rec.build_id)
      assert.equal(5, rec.prot)
      assert.equal("/lib/x.so", rec.filename)
      assert.is_nil(rec.ino)
      assert.is_nil(rec.maj)
    end)
    local short = b.record(T.MMAP2, 0x4002, b.u32(1), b.u32(1), b.u64s(1, 2, 3), "\8\0\0\0", id, b.u32(0), b.u32(0), b.text "")
    local ids = layouts { sample_type = { "ip" }, build_id = true }
    assert.equal("c9cacbcccdcecfd0", ids:record(short).build_id)
    assert.equal("", ids:record(short).filename)
  end)

  it("mmap2 with the file's inode, though its bit stands for a build id", function()
    for _, maj in ipairs { 0, 7, 8, 254, 259 } do
      every_way(function(o)
        return T.MMAP2, 2 + 0x4000, o.u32(11) .. o.u32(12) .. o.u64(0x7f0000000000) .. o.u64(0x2000) .. o.u64(0x3000)
          .. o.u32(maj) .. o.u32(1) .. o.u64(123456789012) .. o.u64(77) .. o.u32(5) .. o.u32(2) .. o.text "/lib/x.so"
      end, function(rec)
        assert.same({ maj, 1, 123456789012, 77 }, { rec.maj, rec.min, rec.ino, rec.ino_generation })
        assert.is_nil(rec.build_id)
        assert.equal("/lib/x.so", rec.filename)
      end)
    end
  end)

  it("lost", function()
    every_way(function(o) return T.LOST, 0, o.u64(5) .. o.u64(1000000) end, function(rec, id)
      assert.equal("lost", rec.type)
      assert.equal(5, rec.id)
      assert.equal(1000000, rec.lost)
      assert.equal(id and 71 or nil, rec.pid)
      assert.equal("unknown", rec.cpu_mode)
    end)
  end)

  it("comm", function()
    for _, exec in ipairs { true, false } do
      every_way(function(o) return T.COMM, exec and 0x2000 or 0, o.u32(1) .. o.u32(2) .. o.text "a process" end, function(rec)
        assert.equal("comm", rec.type)
        assert.equal("a process", rec.comm)
        assert.equal(exec, rec.exec)
        assert.equal(1, rec.pid)
        assert.equal(2, rec.tid)
      end)
    end
  end)

  it("fork and exit, which keep their own time and task", function()
    for _, type in ipairs { "FORK", "EXIT" } do
      every_way(function(o)
        return T[type], 0, o.u32(1) .. o.u32(2) .. o.u32(3) .. o.u32 "0xffffffff" .. o.u64(99)
      end, function(rec)
        assert.equal(type:lower(), rec.type)
        assert.equal(1, rec.pid)
        assert.equal(2, rec.ppid)
        assert.equal(3, rec.tid)
        assert.equal(-1, rec.ptid)
        assert.equal(99, rec.time)
      end)
    end
  end)

  it("throttle and unthrottle", function()
    for _, type in ipairs { "THROTTLE", "UNTHROTTLE" } do
      every_way(function(o) return T[type], 0, o.u64(1) .. o.u64(2) .. o.u64(3) end, function(rec)
        assert.equal(type:lower(), rec.type)
        assert.equal(1, rec.time)
        assert.equal(2, rec.id)
        assert.equal(3, rec.stream_id)
      end)
    end
  end)

  it("read", function()
    local values = layouts { sample_type = {}, read_format = { "total_time_enabled", "total_time_running", "id", "lost" } }
    local rec = values:record(b.record(T.READ, 0, b.u32(1), b.u32(2), b.u64s(1000, 20, 10, 5, 7)))
    assert.equal("read", rec.type)
    assert.equal(1, rec.pid)
    local one = { value = 1000, id = 5, lost = 7, label = "dummy" }
    assert.same({ enabled_ns = 20, running_ns = 10, dummy = 1000, one }, rec.counts)
    every_way(function(o)
      return T.READ, 0, o.u32(1) .. o.u32(2) .. o.u64(1000) .. o.u64(20) .. o.u64(5) .. o.u64(7)
    end, function(r, id)
      if id then
        assert.same({ enabled_ns = 20, dummy = 1000, one }, r.counts)
      else
        assert.same({ dummy = 1000, { value = 1000, label = "dummy" } }, r.counts)
      end
    end)
  end)

  it("read of a group", function()
    local values = layouts { read_format = { "group", "total_time_enabled", "id" } }
    local rec = values:record(b.record(T.READ, 0, b.u32(1), b.u32(2), b.u64s(2, 50, 1000, 5, 2000, 6)))
    assert.same({ enabled_ns = 50, { value = 1000, id = 5 }, { value = 2000, id = 6 } }, rec.counts)
    local named = core.layouts()
    named:add({ read_format = { "group", "total_time_enabled", "id" } }, { label = "a", labels = { "a", "b" } })
    rec = named:record(b.record(T.READ, 0, b.u32(1), b.u32(2), b.u64s(2, 50, 1000, 5, 2000, 6)))
    assert.same({ enabled_ns = 50, a = 1000, b = 2000, { value = 1000, id = 5, label = "a" },
      { value = 2000, id = 6, label = "b" } }, rec.counts)
    assert.is_nil(values:record(b.record(T.READ, 0, b.u32(1), b.u32(2), b.u64s(3, 50, 1000, 5, 2000, 6))))
    assert.is_nil(values:record(b.record(T.READ, 0, b.u32(1), b.u32(2), b.u64s("0xffffffffffffffff", 50, 1, 2))))
  end)

  it("aux", function()
    for flags, names in pairs { [0] = {}, [1] = { "truncated" }, [2] = { "overwrite" }, [4] = { "partial" },
      [8 + 0x100] = { "collision" }, [15] = { "truncated", "overwrite", "partial", "collision" } } do
      every_way(function(o) return T.AUX, 0, o.u64 "0xfffffffff000" .. o.u64(4096) .. o.u64(flags) end, function(rec)
        assert.equal("aux", rec.type)
        assert.equal(0xfffffffff000, rec.aux_offset)
        assert.equal(4096, rec.aux_size)
        assert.equal(flags, rec.flags)
        local set = {}
        for _, name in ipairs { "truncated", "overwrite", "partial", "collision" } do
          assert.is_boolean(rec[name])
          if rec[name] then set[#set + 1] = name end
        end
        assert.same(names, set)
      end)
    end
  end)

  it("itrace_start", function()
    every_way(function(o) return T.ITRACE_START, 0, o.u32(1) .. o.u32(2) end, function(rec)
      assert.equal("itrace_start", rec.type)
      assert.equal(1, rec.pid)
      assert.equal(2, rec.tid)
    end)
  end)

  it("lost_samples", function()
    every_way(function(o) return T.LOST_SAMPLES, 0, o.u64(12) end, function(rec)
      assert.equal("lost_samples", rec.type)
      assert.equal(12, rec.lost)
    end)
  end)

  it("switch", function()
    for misc, out in pairs { [0] = { false, false }, [0x2000] = { true, false }, [0x6000] = { true, true } } do
      every_way(function() return T.SWITCH, misc, "" end, function(rec)
        assert.equal("switch", rec.type)
        assert.equal(out[1], rec.out)
        assert.equal(out[2], rec.preempted)
        assert.is_nil(rec.exact_ip)
      end)
    end
  end)

  it("switch_cpu_wide", function()
    every_way(function(o) return T.SWITCH_CPU_WIDE, 0x2000, o.u32(1) .. o.u32 "0xffffffff" end, function(rec)
      assert.equal("switch_cpu_wide", rec.type)
      assert.is_true(rec.out)
      assert.is_false(rec.preempted)
      assert.equal(1, rec.next_prev_pid)
      assert.equal(-1, rec.next_prev_tid)
    end)
  end)

  it("namespaces", function()
    local names = { "net", "uts", "ipc", "pid", "user", "mnt", "cgroup" }
    every_way(function(o)
      local body = o.u32(1) .. o.u32(2) .. o.u64(8)
      for i = 1, 8 do body = body .. o.u64(3) .. o.u64(4026531840 + i) end
      return T.NAMESPACES, 0, body
    end, function(rec)
      local ns = rec.namespaces
      assert.equal("namespaces", rec.type)
      assert.equal(8, #ns)
      for i, name in ipairs(names) do
        assert.equal(name, ns[i].name)
        assert.equal(3, ns[name].dev)
        assert.equal(4026531840 + i, ns[name].ino)
      end
      assert.same({ dev = 3, ino = 4026531848 }, ns[8])
    end)
  end)

  it("ksymbol", function()
    for kind, name in pairs { [0] = "unknown", "bpf", "ool", "unknown" } do
      every_way(function(o)
        return T.KSYMBOL, 1, o.u64 "0xffffffffc0000000" .. o.u32(0x100) .. o.u16(kind) .. o.u16(kind % 2) .. o.text "bpf_prog_x"
      end, function(rec)
        assert.equal("ksymbol", rec.type)
        assert.equal("kernel", rec.cpu_mode)
        assert.equal("0xffffffffc0000000", core.hex(rec.addr))
        assert.equal(0x100, rec.len)
        assert.equal(name, rec.ksym_type)
        assert.equal(kind % 2 == 1, rec.unregister)
        assert.equal("bpf_prog_x", rec.name)
      end)
    end
  end)

  it("bpf_event, with the program's id", function()
    for kind, name in pairs { [0] = "unknown", "prog_load", "prog_unload" } do
      every_way(function(o)
        return T.BPF_EVENT, 0, o.u16(kind) .. o.u16(9) .. o.u32(42) .. "\1\35\69\103\137\171\205\239"
      end, function(rec, id)
        assert.equal("bpf_event", rec.type)
        assert.equal(name, rec.kind)
        assert.equal(9, rec.flags)
        assert.equal(42, rec.id)
        assert.equal("0123456789abcdef", rec.tag)
        assert.equal(id and 74 or nil, rec.event_id)
      end)
    end
  end)

  it("cgroup, with the cgroup's id", function()
    every_way(function(o) return T.CGROUP, 0, o.u64(5678) .. o.text "/user.slice" end, function(rec)
      assert.equal("cgroup", rec.type)
      assert.equal(5678, rec.id)
      assert.equal("/user.slice", rec.path)
      assert.is_nil(rec.cgroup)
    end)
  end)

  it("text_poke", function()
    every_way(function(o)
      return T.TEXT_POKE, 1, o.u64 "0xffffffff81234560" .. o.u16(5) .. o.u16(3) .. "\15\31\68\0\0abc" .. ("\0"):rep(4)
    end, function(rec)
      assert.equal("text_poke", rec.type)
      assert.equal("0xffffffff81234560", core.hex(rec.addr))
      assert.equal("\15\31\68\0\0", rec.old)
      assert.equal("abc", rec.new)
    end)
    local rec = plain:record(b.record(T.TEXT_POKE, 1, b.u64(1), b.u16(0), b.u16(4), "abcd"))
    assert.equal("", rec.old)
    assert.equal("abcd", rec.new)
  end)

  it("aux_output_hw_id", function()
    every_way(function(o) return T.AUX_OUTPUT_HW_ID, 0, o.u64(6) end, function(rec)
      assert.equal("aux_output_hw_id", rec.type)
      assert.equal(6, rec.hw_id)
    end)
  end)

  it("callchain_deferred", function()
    every_way(function(o)
      return T.CALLCHAIN_DEFERRED, 2, o.u64s(0x100000001, 3, "0xfffffffffffffe00", 0x1000, 0x2000)
    end, function(rec)
      assert.equal("callchain_deferred", rec.type)
      assert.equal(0x100000001, rec.cookie)
      assert.same({ 0x1000, 0x2000 }, rec.callchain)
      assert.same({ { index = 1, context = "user" } }, rec.callchain_contexts)
    end)
  end)

  it("has a spec above for each type of the kernel", function()
    local seen = {}
    for line in io.lines "spec/unit/record/record_spec.lua" do
      for sym in line:gmatch "T%.([%u%d_]+)" do seen[sym] = true end
      for sym in line:gmatch '"([%u_]+)"' do seen[sym] = true end
    end
    for sym in pairs(T) do
      if sym ~= "SAMPLE" then assert.is_true(seen[sym], sym) end
    end
  end)
end)

describe("a record of an unknown type", function()
  it("of a newer kernel keeps its bytes and what sample_id_all adds", function()
    local rec = full:record(b.record(63, 2, "12345678", trailer(b)))
    assert.equal("unknown", rec.type)
    assert.equal(63, rec.type_id)
    assert.equal("12345678", rec.body)
    assert.equal(7300, rec.time)
    assert.equal(71, rec.pid)
    assert.equal(74, rec.event_id)
    assert.is_truthy(tostring(rec):find("type 63", 1, true))
  end)

  it("of a tool's own keeps its bytes", function()
    local rec = plain:record(b.record(9999, 0, "123"))
    assert.equal("unknown", rec.type)
    assert.equal(9999, rec.type_id)
    assert.equal("123", rec.body)
    assert.is_nil(rec.time)
    assert.equal(64, core.layouts():record(b.record(64, 0)).type_id)
  end)

  it("of type 0 is invalid", function()
    assert.equal("unknown", plain:record(b.record(0, 0)).type)
  end)
end)

describe("Record", function()
  it("gives all its fields as a table", function()
    local rec = plain:record(b.record(T.COMM, 0x2000, b.u32(1), b.u32(2), b.text "sh"))
    assert.same({ type = "comm", type_id = 3, size = 24, misc = 0x2000, cpu_mode = "unknown", event = "dummy", comm = "sh",
      pid = 1, tid = 2, exec = true }, rec:totable())
  end)

  it("prints as one line", function()
    local rec = full:record(b.record(T.COMM, 0x2000, b.u32(1), b.u32(2), b.text "sh", trailer(b)))
    assert.equal("1/2 [003] 0.000007300: dummy: comm sh id=74 stream_id=75 exec", tostring(rec))
    rec = plain:record(b.record(T.MMAP, 2, b.u32(1), b.u32(2), b.u64s("0x7f0000000000", 4096, 0), b.text "/x"))
    assert.equal("1/2 dummy: mmap addr=0x7f0000000000 len=0x1000 pgoff=0x0 filename=/x executable (user)", tostring(rec))
  end)

  it("prints times of any length with all their digits", function()
    local ls = layouts { sample_type = { "time" } }
    for ns, text in pairs { ["0x1"] = "0.000000001", ["0x3b9aca00"] = "1.000000000", ["0x2386f26fc10000"] = "10000000.000000000",
      ["0x1fffffffffffff"] = "9007199.254740991", ["0x18d3a2b1f4c5d6e7"] = "1788952362.195736295",
      ["0xffffffffffffffff"] = "18446744073.709551615" } do
      assert.equal(text .. ": dummy: sample", tostring(ls:record(b.record(T.SAMPLE, 0, b.u64(ns)))))
    end
  end)

  it("has nil for absent fields, and raises for values that are not Records", function()
    local rec = plain:record(b.record(T.SWITCH, 0))
    assert.is_nil(rec.nothing)
    assert.is_nil(rec[1])
    assert.is_nil(rec.raw_fields)
    assert.has_error(function() rec.bytes {} end, "bad argument #1 to 'bytes' (Record expected, got table)")
    assert.has_error(function() return core.earlier(rec, 1) end)
  end)

  it("compares times to the last nanosecond", function()
    local ls = layouts { sample_type = { "time" } }
    local function at(t) return ls:record(b.record(T.SAMPLE, 0, b.u64(t))) end
    local a, z, none = at "0x18d3a2b1f4c5d6e7", at "0x18d3a2b1f4c5d6e8", plain:record(b.record(T.SWITCH, 0))
    assert.is_true(core.earlier(a, z))
    assert.is_false(core.earlier(z, a))
    assert.is_false(core.earlier(a, a))
    assert.is_true(core.earlier(none, a))
    assert.is_false(core.earlier(a, none))
  end)
end)

describe("a field of a Record", function()
  local rec = assert(plain:record(b.record(T.COMM, 0, b.u32(11) .. b.u32(12) .. b.text "lua")))

  it("is found however the program has made its name", function()
    for _, name in ipairs(core.record_fields()) do
      local made = {}
      for letter in name:gmatch "." do made[#made + 1] = letter end
      assert.same(rec[name], rec[table.concat(made)], name)
    end
    assert.equal(11, rec["p" .. "id"])
  end)

  it("is nil for any other key", function()
    for _, key in ipairs { 1, 0.5, true, "", "1", "pi", "pidd", ("pid"):rep(100), {}, print } do assert.is_nil(rec[key]) end
    for i = 1, 20000 do -- the collector frees earlier ones, and the next are at their addresses
      if rec["pid" .. i] ~= nil then error(i) end
    end
  end)

  it("is refused for another object", function()
    local index = getmetatable(rec).__index
    for _, object in ipairs { io.stdout, {}, 1, "pid" } do
      assert.error_matches(function() index(object, "pid") end, "Record expected, got " .. type(object))
    end
  end)
end)
