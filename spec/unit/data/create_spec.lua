-- Writing perf.data files: the files are read again, by this module and by perf.
local core = require "perf.core"
local data = require "perf.data"
local perfdata = require "spec.support.perfdata"
local util = require "spec.support.util"

local m = perfdata.maker(core.bytes("2", 1):byte(1) == 1 and "<" or ">")
local attr = {type = "software", config = 0, sample_period = 1000, sample_type = {"ip", "tid", "time", "period"},
  sample_id_all = true, mmap = true, mmap2 = true, comm = true, task = true}
local events = {{attr = attr, ids = {5, 6}, name = "cpu-clock"}}

local function tail(pid, tid, time) return m.u32(pid) .. m.u32(tid) .. m.u64(time) end
local function sample(ip, time) return m.record(9, 2, m.u64(ip), tail(100, 101, time), m.u64(1000)) end
local function comm(name) return m.record(3, 0, m.u32(100), m.u32(101), m.text(name), tail(100, 101, 1)) end
local function map(name, prot)
  return m.record(10, 2, m.u32(100), m.u32(101), m.u64s{0x10000, 0x10000, 0}, m.u32(0), m.u32(0), m.u64s{0, 0}, m.u32(prot),
    m.u32(2), m.text(name), tail(100, 101, 1))
end

local function with_path(fn)
  util.with_tmpname(function(path)
    os.remove(path)
    fn(path)
  end)
end

local function read(path, fn)
  local file = assert(data.open(path))
  local records = {}
  for rec in file:records() do records[#records + 1] = rec end
  local ok, err = pcall(fn, file, records)
  assert.is_nil(file:error())
  file:close()
  if not ok then error(err, 0) end
end

describe("perf.data.create", function()
  it("writes a file that perf.data.open reads", function()
    with_path(function(path)
      local w = assert(data.create(path, {events = events, hostname = "a host", cmdline = {"a", "b c"}, total_mem = false}))
      assert.is_true(w:write(comm "a name"))
      assert.is_true(w:write(sample(1, 1000) .. sample(2, 500) .. sample(3, 2000)))
      assert.same({samples = 3, records = 4}, {samples = w:stats().samples, records = w:stats().records})
      assert.is_true(w:close())
      assert.is_true(w:close())
      read(path, function(file, records)
        assert.same({"comm", "sample", "sample", "sample"}, {records[1].type, records[2].type, records[3].type, records[4].type})
        assert.equal("a name", records[1].comm)
        assert.equal(3, records[4].ip)
        assert.equal("cpu-clock", records[4].event)
        local e = file.attrs[1]
        assert.same({5, 6}, e.ids)
        assert.equal("cpu-clock", e.name)
        assert.same(core.unpack(core.pack(attr)), e.attr)
        local f = file.features
        assert.equal("a host", f.hostname)
        assert.same({"a", "b c"}, f.cmdline)
        assert.is_nil(f.total_mem)
        assert.equal(core.uname(), f.osrelease)
        assert.equal((select(2, core.uname())), f.arch)
        assert.same({first = 500, last = 2000}, f.sample_time)
        assert.equal("cpu-clock", f.event_desc[1].name)
        assert.is_nil(next(file.damaged))
      end)
    end)
  end)

  it("accepts names, attr tables and open Events", function()
    requires{perf_open = true}
    local ev = assert(require "perf".open("page-faults"))
    with_path(function(path)
      local w = assert(data.create(path, {events = {"context-switches:u", {type = "software", config = 1}, ev}}))
      assert.is_true(w:close())
      read(path, function(file)
        assert.equal("context-switches:u", file.attrs[1].name)
        assert.equal(1, file.attrs[2].config)
        assert.equal("page-faults", file.attrs[3].name)
        assert.same({ev:id()}, file.attrs[3].ids)
      end)
    end)
    ev:close()
  end)

  it("writes every feature as it was read", function()
    local features = {hostname = "h", osrelease = "6", version = "v", arch = "x86_64", nrcpus = {available = 4, online = 2},
      cpudesc = "a CPU", cpuid = "V,1,2,3", total_mem = 12345, cmdline = {"perf", "record", ""},
      cpu_topology = {cores = {"0-1"}, threads = {"0", "1"}, dies = {"0-1"}, cpus = {{core_id = 0, socket_id = 0, die_id = 0},
        {core_id = 1, socket_id = 0, die_id = 0}, {core_id = 2, socket_id = 1, die_id = 1}, {core_id = 3, socket_id = 1,
        die_id = 1}}}, numa_topology = {{node = 0, mem_total = 5, mem_free = 4, cpus = "0-1"}}, branch_stack = true,
      pmu_mappings = {{type = 1, name = "software"}, {type = 4, name = "cpu"}}, group_desc = {{name = "{a,b}", leader = 0,
        members = 2}}, stat = true, cache = {{level = 1, line_size = 64, sets = 64, ways = 8, type = "Data", size = "32K",
        cpus = "0"}}, sample_time = {first = 1, last = 2}, clockid = 1, clock_data = {version = 1, clockid = 1, wall_ns = 5,
        clock_ns = 6}, mem_topology = {version = 1, block_size = 134217728, nodes = {{node = 0, size = 70, blocks = {0, 1, 69}}}},
      cpu_pmu_caps = {branches = "32", max_precise = "3"}, pmu_caps = {{name = "cpu_core", caps = {branches = "32"}}},
      hybrid_topology = {{pmu = "cpu_core", cpus = "0-3"}}, e_machine = {machine = 62, flags = 0}, tracing_data = "trace",
      bpf_prog_info = "info", bpf_btf = "btf", cpu_domain_info = "domains", cln_size = "\64\0\0\0",
      build_id = {{pid = -1, misc = 32770, build_id = "0123456789abcdef0123456789abcdef01234567", filename = "/bin/sh"},
        {pid = 7, misc = 32769, build_id = "0123456789abcdef", filename = "[kernel.kallsyms]"}},
      event_desc = {{name = "x", ids = {5, 6}, attr = core.unpack(core.pack(attr))}}}
    with_path(function(path)
      local w = assert(data.create(path, {events = events, features = features}))
      assert.is_true(w:close())
      read(path, function(file)
        for name, value in pairs(features) do assert.same(value, file.features[name], name) end
        assert.is_nil(next(file.damaged))
        assert.is_nil(file.features.auxtrace)
      end)
    end)
  end)

  it("uses nothing of this machine for a copy of another machine's file", function()
    with_path(function(path)
      local w = assert(data.create(path, {events = events, features = {hostname = "elsewhere"}}))
      assert.is_true(w:write(map("/bin/sh", 5)))
      assert.is_true(w:close())
      read(path, function(file)
        local names = {}
        for name in pairs(file.features) do names[#names + 1] = name end
        table.sort(names)
        assert.same({"event_desc", "hostname"}, names)
      end)
    end)
  end)

  it("writes the build ids of executable mappings, from the record or the mapped file", function()
    requires{file = "/bin/sh", cmd = "readelf"}
    local expected = util.shell("readelf -n /bin/sh | sed -n 's/.*Build ID: //p'"):gsub("%s", "")
    with_path(function(path)
      local w = assert(data.create(path, {events = events}))
      local own = m.record(10, 2 + 16384, m.u32(100), m.u32(101), m.u64s{0x10000, 0x10000, 0}, m.u8(20, 0, 0, 0),
        ("\1"):rep(20), m.u32(5), m.u32(2), m.text "/gone", tail(100, 101, 1))
      for _, bytes in ipairs{map("/bin/sh", 5), map("/etc/passwd", 5), map("/bin/ls", 1), own, map("//anon", 5),
        map("/dev/zero", 5), map("/no/such/file", 5), map("[vdso]", 5), map("/bin/sh", 5)} do
        assert.is_true(w:write(bytes))
      end
      assert.is_true(w:close())
      read(path, function(file)
        local ids = {}
        for i, b in ipairs(file.features.build_id) do ids[i] = b.filename .. " " .. b.build_id end
        assert.same({"/bin/sh " .. expected, "/gone " .. ("01"):rep(20)}, ids)
      end)
    end)
  end)

  it("writes an auxtrace record's data after it, and its position into the index", function()
    with_path(function(path)
      local w = assert(data.create(path, {events = events}))
      local aux = m.record(71, 0, m.u64s{16, 0, 0}, m.u32(0), m.u32(0), m.u32(0), m.u32(0))
      assert.is_true(w:write(aux))
      assert.has_error(function() w:write(sample(1, 1)) end)
      assert.is_true(w:payload "12345678")
      assert.error_matches(function() w:payload "123456789" end, "more than the record before it announced")
      assert.is_true(w:payload "abcdefgh")
      assert.is_true(w:write(sample(1, 1)))
      assert.is_true(w:close())
      local file = assert(data.open(path))
      assert.equal("auxtrace", file:read_record().type)
      assert.equal("12345678abcdefgh", file:payload())
      assert.equal(1, file:read_record().ip)
      assert.same({{offset = file.header.data_offset, size = 48}}, file.features.auxtrace)
      file:close()
    end)
  end)

  it("copies records of another byte order", function()
    local big = perfdata.maker(m.u16(1):byte(1) == 1 and ">" or "<")
    with_path(function(path)
      util.write_file(path, big.file{attrs = {{attr = big.attr{sample_type = 1 + 2, sample_id_all = true}, ids = {9}}},
        data = big.record(9, 2, big.u64({5, 6}), big.u32(7), big.u32(8))})
      local file = assert(data.open(path))
      with_path(function(copy)
        local w = assert(data.create(copy, {events = file.attrs, features = file.features}))
        for rec in file:records() do assert(w:write(rec)) end
        assert(w:close())
        read(copy, function(second, records)
          assert.not_equal(file.header.endian, second.header.endian)
          assert.same({core.u64(5, 6), 7, 8}, {records[1].ip, records[1].pid, records[1].tid})
        end)
      end)
      file:close()
    end)
  end)

  it("copies a pipe's records, except those that describe the file", function()
    local pipe = m.pipe(m.record(64, 0, m.attr{sample_type = 1 + 2}, m.u64(1)) .. m.record(68, 0)
      .. m.record(67, 2, m.u32(-1), ("\1"):rep(20), m.u32(0), m.text "/bin/a") .. m.record(9, 2, m.u64(5), m.u32(7), m.u32(8)))
    with_path(function(path)
      util.write_file(path, pipe)
      local file = assert(data.open(path))
      local list = {}
      for rec in file:records() do list[#list + 1] = rec end
      with_path(function(copy)
        local w = assert(data.create(copy, {events = file.attrs, features = {}, build_ids = true}))
        for _, rec in ipairs(list) do assert(w:write(rec)) end
        assert(w:close())
        read(copy, function(second, records)
          assert.same({"finished_round", "sample"}, {records[1].type, records[2].type})
          assert.equal("/bin/a", second.features.build_id[1].filename)
        end)
      end)
      file:close()
    end)
  end)

  it("refuses a string that is not a record", function()
    with_path(function(path)
      local w = assert(data.create(path, {events = events}))
      for _, bytes in ipairs{"x", sample(1, 1):sub(1, -2), sample(1, 1) .. "x", ("\0"):rep(8), m.record(9, 2, "1234")} do
        assert.error_matches(function() w:write(bytes) end, "no whole record at byte")
      end
      assert.error_matches(function() w:write(m.record(81, 0, "1234")) w:write(m.record(68, 0, "1234")) end, "multiple of 8")
      assert.error_matches(function() w:write(5) end, "Record or string expected, got number")
      assert.is_true(w:close())
      assert.error_matches(function() w:write(sample(1, 1)) end, "closed")
    end)
  end)

  it("checks its arguments", function()
    local function refused(opts, text)
      assert.error_matches(function() data.create("/tmp/never", opts) end, text)
    end
    assert.error_matches(function() data.create(5, {}) end, "string expected, got number")
    refused(nil, "table of options expected, got nil")
    refused({}, "events: a list expected, got nil")
    refused({events = {}}, "events: none given")
    refused({events = {5}}, "events%[1%]: an event expected, got number")
    refused({events = {io.stdout}}, "events%[1%]: an event expected, got userdata")
    refused({events = {"no-such-event"}}, "no%-such%-event")
    refused({events = events, hostnam = "x"}, "unknown option 'hostnam'")
    refused({events = events, features = {hostnam = "x"}}, "unknown feature 'hostnam'")
    refused({events = events, mode = "append"}, "mode")
    assert.is_nil(io.open "/tmp/never")
  end)

  it("names the feature and the field of a value that does not fit", function()
    for name, case in pairs{
      nrcpus = {{online = 5}, "available: integer expected, got nil"}, hostname = {5, "value: string expected, got number"},
      cmdline = {{"perf", 5}, "value: string expected, got number"}, cache = {{5}, "element: table expected, got number"},
      cpu_topology = {{cores = {}, threads = {}}, "cpus: table expected, got nil"},
      pmu_caps = {{{name = "cpu"}}, "caps: table expected, got nil"}, event_desc = {{{}}, "attr: table expected, got nil"},
      mem_topology = {{version = 1, block_size = 1, nodes = {{node = 0, size = 1, blocks = {"x"}}}},
        "blocks: integer expected, got string"},
      build_id = {{{build_id = "zz"}}, "build_id: lower%-case hexadecimal string expected"},
    } do
      with_path(function(path)
        local w = assert(data.create(path, {events = events, features = {[name] = case[1]}}))
        assert.error_matches(function() w:close() end, "feature '" .. name .. "': " .. case[2])
      end)
    end
  end)
end)

describe("the file that perf.data.create makes", function()
  local function create(path, mode)
    local w, msg, code = data.create(path, {events = events, mode = mode})
    if not w then return nil, msg, code end
    w:write(sample(1, 1))
    return w:close()
  end

  it("is readable by its owner alone, and replaces an existing file", function()
    requires{cmd = "stat"}
    with_path(function(path)
      util.write_file(path, ("old"):rep(10000))
      assert.is_true(create(path))
      assert.equal("600\n", (util.shell("stat -c %a '" .. path .. "'")))
      read(path, function(_, records) assert.equal(1, #records) end)
    end)
  end)

  it("is not written through a symbolic link, except on request", function()
    requires{cmd = "ln"}
    with_path(function(path)
      local target = path .. ".target"
      util.write_file(target, "precious")
      util.execute(("ln -s '%s' '%s'"):format(target, path))
      assert.is_true(create(path))
      assert.equal("precious", util.read_file(target))
      read(path, function(_, records) assert.equal(1, #records) end)
      os.remove(path)
      util.execute(("ln -s '%s' '%s'"):format(target, path))
      assert.is_true(create(path, "overwrite"))
      assert.equal("PERFILE2", util.read_file(target):sub(1, 8))
      os.remove(target)
    end)
  end)

  it("is refused with mode exclusive if the file exists", function()
    with_path(function(path)
      assert.is_true(create(path, "exclusive"))
      assert.same({nil, path .. ": File exists", "EEXIST"}, {create(path, "exclusive")})
    end)
  end)

  it("is reported as failed on a full disk, whenever the error occurs", function()
    requires{file = "/dev/full"}
    local w = assert(data.create("/dev/full", {events = events}))
    local ok, msg, code
    for _ = 1, 10000 do
      ok, msg, code = w:write(sample(1, 1))
      if not ok then break end
    end
    assert.same({nil, "write: No space left on device", "ENOSPC"}, {ok, msg, code})
    assert.same({nil, "write: No space left on device", "ENOSPC"}, {w:write(sample(1, 1))})
    assert.equal("ENOSPC", (select(3, w:close())))
    w = assert(data.create("/dev/full", {events = events}))
    assert.same({nil, "/dev/full: write: No space left on device", "ENOSPC"}, {w:close()})
    assert.is_true(w:close())
  end)

  it("is reported as failed if the system refuses it", function()
    assert.same({nil, "/no/such/directory/x: No such file or directory", "ENOENT"}, {create "/no/such/directory/x"})
    assert.equal("EISDIR", (select(3, create "/tmp")))
    with_path(function(path)
      for _, call in ipairs{"write", "pwrite", "fstat", "open"} do
        os.remove(path)
        core.fault(call, "EIO", 0)
        local ok, _, code = create(path)
        core.fault()
        assert.is_nil(ok, call)
        assert.equal("EIO", code, call)
      end
    end)
  end)

  it("is unfinished if the writer is collected, and can be read up to its last record", function()
    with_path(function(path)
      local w = assert(data.create(path, {events = events}))
      assert.is_true(w:write(sample(1, 1)))
      w = nil -- luacheck: ignore
      collectgarbage()
      collectgarbage()
      read(path, function(file, records)
        assert.is_true(file.header.unfinished)
        assert.equal(1, #records)
      end)
    end)
  end)

  it("can be read by perf", function()
    requires{cmd = "perf"}
    with_path(function(path)
      local w = assert(data.create(path, {events = events, hostname = "a-host-of-mine", cmdline = {"my", "command"}}))
      w:write(comm "my-program" .. map("/bin/sh", 5))
      for i = 1, 50 do w:write(sample(0x10000 + i, 1000000000 + i * 1000)) end
      assert.is_true(w:close())
      local script, status = util.shell(("perf script -F comm,pid,tid,time,period,event,ip -i '%s'"):format(path))
      assert.equal(0, status, script)
      local n = 0
      for line in script:gmatch("[^\n]+") do
        n = n + 1
        local name, pid, tid, time, period, event, ip = line:match("^%s*(%S+)%s+(%d+)/(%d+)%s+([%d.]+):%s+(%d+)%s+(%S+):%s+(%x+)")
        assert.same({"my-program", "100", "101", ("1.%06d"):format(n), "1000", "cpu-clock", ("%x"):format(0x10000 + n)},
          {name, pid, tid, time, period, event, ip})
      end
      assert.equal(50, n)
      local header = util.shell(("perf report --header-only -I -i '%s'"):format(path))
      assert.matches("# hostname : a%-host%-of%-mine\n", header)
      assert.matches("# cmdline : my command", header)
      assert.matches("name = cpu%-clock", header)
      assert.matches("id = { 5, 6 }", header)
      local report = util.shell(("perf report --stdio -s comm -i '%s' 2>/dev/null"):format(path))
      assert.matches("100.00%%  my%-program", report)
      local ids = util.shell(("perf buildid-list -i '%s'"):format(path))
      local id = core.build_id "/bin/sh"
      if id then assert.truthy(ids:find(id, 1, true), ids) end
    end)
  end)
end)

describe("core.build_id", function()
  it("gives the reason if there is none", function()
    assert.same({nil, "/etc/passwd: not an ELF file", "ENOEXEC"}, {core.build_id "/etc/passwd"})
    assert.equal("ENOEXEC", (select(3, core.build_id "/dev/null")))
    assert.equal("ENOENT", (select(3, core.build_id "/no/such/file")))
    assert.equal("ENOEXEC", (select(3, core.build_id "/tmp")))
  end)

  it("reads ELF files of either width and byte order, damaged ones too", function()
    -- A header, one program header of type PT_NOTE, and the note.
    local function elf(order, wide)
      local o = perfdata.maker(order)
      local word = wide and o.u64 or o.u32
      local note = o.u32(4) .. o.u32(1) .. o.u32(1) .. "GNU\0" .. "x\0\0\0" .. o.u32(4) .. o.u32(20) .. o.u32(3) .. "GNU\0"
        .. "abcdefghijklmnopqrst"
      local ehdr = "\127ELF" .. string.char(wide and 2 or 1, order == "<" and 1 or 2, 1) .. ("\0"):rep(9) .. o.u16(2) .. o.u16(62)
        .. o.u32(1) .. word(0) .. word(wide and 64 or 52) .. word(0) .. o.u32(0) .. o.u16(wide and 64 or 52)
        .. o.u16(wide and 56 or 32) .. o.u16(1) .. o.u16(wide and 64 or 40) .. o.u16(0) .. o.u16(0)
      local at = #ehdr + (wide and 56 or 32)
      local phdr = wide and o.u32(4) .. o.u32(4) .. o.u64s{at, 0, 0, #note, #note, 4}
        or o.u32(4) .. o.u32(at) .. o.u32(0) .. o.u32(0) .. o.u32(#note) .. o.u32(#note) .. o.u32(4) .. o.u32(4)
      return ehdr .. phdr .. note
    end
    for _, order in ipairs{"<", ">"} do
      for _, wide in ipairs{true, false} do
        local bytes = elf(order, wide)
        with_path(function(path)
          util.write_file(path, bytes)
          assert.equal("6162636465666768696a6b6c6d6e6f7071727374", (core.build_id(path)))
          for n = 0, #bytes - 1 do
            util.write_file(path, bytes:sub(1, n))
            assert.is_nil((core.build_id(path)))
          end
        end)
      end
    end
  end)
end)
