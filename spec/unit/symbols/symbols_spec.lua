-- perf.symbols on files made here: ELF of two machines, kernel symbols, JIT maps. Twice: C reads the files.
local util = require "spec.support.util"
local elf = require "spec.support.elf"
local core = require "perf.core"
local kit = require "testkit"

local symbols

local function with_file(text, fn)
  util.with_tmpname(function(path)
    util.write_file(path, text)
    fn(path)
  end)
end

-- Calls fn with the n-th allocation refused, for some n. LuaJIT 2.1.0-beta3 does not survive that in compiled code.
local function each_allocation(times, fn)
  local jit = rawget(_G, "jit")
  if jit then
    jit.off()
    jit.flush()
  end
  local total = kit.fail_alloc(0, fn)
  for n = 1, total, math.max(1, math.floor(total / times)) do kit.fail_alloc(n, fn) end
  if jit then jit.on() end
end

local function need()
  requires{ext = "symbols"}
  symbols = require "perf.symbols"
end

describe("perf.symbols.offset", function()
  before_each(need)

  local function offset_in(spec, name)
    local result
    with_file(elf.build(spec), function(path)
      result = {symbols.offset(path, name)}
    end)
    return result[1], result[2], result[3]
  end

  it("is the offset in the file, whatever address the code is linked to", function()
    for _, base in ipairs{0, 0x10000, 0x400000} do
      for _, kind in ipairs{"dyn", "exec"} do
        for _, dynamic in ipairs{true, false} do
          local spec = {base = base, type = kind, dynamic = dynamic,
            symbols = {{name = "other", addr = base + 0x1000, size = 16}, {name = "wanted", addr = base + 0x1230, size = 16}}}
          local offset, addr = offset_in(spec, "wanted")
          assert.equal(0x1230, offset)
          assert.equal(base + 0x1230, addr)
        end
      end
    end
  end)

  it("prefers functions to symbols without a type, and global symbols to weak and local ones", function()
    local list = {{name = "f", addr = 0x1010, kind = "notype"}, {name = "f", addr = 0x1020, bind = "local"},
      {name = "f", addr = 0x1030, bind = "weak"}, {name = "f", addr = 0x1040}}
    for n = 1, #list do
      local some = {}
      for i = n, 1, -1 do some[#some + 1] = list[i] end
      assert.equal(list[n].addr, (offset_in({symbols = some}, "f")))
    end
  end)

  -- The story: the definitions of versions are a list in which each has the offset of the next. That offset was added to a signed
  -- number, so the next one could come before: a file of a few KB was searched for 8 seconds for each symbol, and libc has 3,000.
  it("is found if the definitions of versions form a circle", function()
    local function definition(index, distance)
      return elf.int(1, 2) .. elf.int(0, 2) .. elf.int(index, 2) .. elf.int(0, 2) .. elf.int(0, 4) .. elf.int(20, 4)
        .. elf.int(distance, 4)
    end
    local symbols_of_it = {}
    for i = 1, 500 do symbols_of_it[i] = {name = "f" .. i, addr = 0x1000 + i} end
    symbols_of_it[501] = {name = "f", addr = 0x1230}
    local offset = offset_in({symbols = symbols_of_it, dynamic = true,
      versions = {of_all = 7, count = 4294967295, definitions = definition(1, 20) .. definition(2, -20)}}, "f")
    assert.equal(0x1230, offset)
  end)

  it("understands versions in a name", function()
    local list = {{name = "f@OLD_1", addr = 0x1010}, {name = "f@@NEW_2", addr = 0x1020}, {name = "f2", addr = 0x1030}}
    assert.equal(0x1020, (offset_in({symbols = list}, "f")))
    assert.equal(0x1010, (offset_in({symbols = list}, "f@OLD_1")))
    assert.equal(0x1020, (offset_in({symbols = list}, "f@NEW_2")))
    assert.equal(0x1020, (offset_in({symbols = list}, "f@@NEW_2")))
    assert.equal("ENOENT", select(3, offset_in({symbols = list}, "f@OLDER")))
  end)

  it("gives the reason if there is none", function()
    local list = {{name = "twice", addr = 0x1010, bind = "local"}, {name = "twice", addr = 0x1020, bind = "local"},
      {name = "chosen", addr = 0x1030, kind = "ifunc"}, {name = "data", addr = 0x1040, kind = "object"},
      {name = "imported"}, {name = "nowhere", addr = 0x7fffffff}, {name = "same", addr = 0x1050, bind = "local"},
      {name = "same", addr = 0x1050, bind = "local"}}
    local function refused(name, code, pattern)
      local offset, message, got = offset_in({symbols = list}, name)
      assert.is_nil(offset)
      assert.equal(code, got)
      assert.matches(pattern, message)
    end
    refused("twice", "EEXIST", "several functions are named 'twice'")
    refused("chosen", "EOPNOTSUPP", "'chosen' is an indirect function")
    refused("data", "ENOENT", "no function 'data'")
    refused("imported", "ENOENT", "uses 'imported' but does not define it")
    refused("nowhere", "ENODATA", "'nowhere' has no bytes in this file")
    refused("missing", "ENOENT", "no function 'missing'$")
    assert.equal(0x1050, (offset_in({symbols = list}, "same")))
    assert.equal("ENOEXEC", select(3, offset_in({type = "rel", symbols = list}, "same")))
  end)

  it("reads ELF files only", function()
    with_file("no ELF", function(path)
      assert.equal("ENOEXEC", select(3, symbols.offset(path, "f")))
    end)
    assert.same({nil, "/no/such/file: No such file or directory", "ENOENT"}, {symbols.offset("/no/such/file", "f")})
    assert.equal("EISDIR", select(3, symbols.offset("/tmp", "f")))
    assert.equal("EINVAL", select(3, symbols.offset("/dev/null", "f")))
    assert.error_matches(function() symbols.offset("/x") end, "#2 .*string expected")
    assert.error_matches(function() symbols.offset("/x", "") end, "empty name")
    assert.error_matches(function() symbols.offset("/x\0y", "f") end, "zero byte")
  end)

  it("survives damaged files", function()
    requires{nostress = true} -- it makes hundreds of files
    local whole = elf.build{symbols = {{name = "f", addr = 0x1010}}, build_id = "\1\2\3\4",
      frames = {{addr = 0x1010, size = 16, cfa = 16, ra = -8}}}
    local seed = 7
    local function random(n)
      seed = (seed * 1103515245 + 12345) % 2147483648
      return math.floor(seed / 65536) % n
    end
    util.with_tmpname(function(path)
      for round = 1, 300 do
        local bytes = whole
        if round % 3 == 0 then
          bytes = whole:sub(1, random(#whole))
        else
          for _ = 1, 4 do
            -- The headers and the tables, not the zeros of the code.
            local at = random(2) == 0 and random(232) + 1 or #whole - random(800)
            bytes = bytes:sub(1, at - 1) .. string.char(random(256)) .. bytes:sub(at + 1)
          end
        end
        util.write_file(path, bytes)
        symbols.offset(path, "f")
        symbols.build_id(path)
        local r = symbols.open{path = path}
        if r then
          r:resolve(0x1010)
          r:modules()
          r:close()
        end
      end
    end)
  end)
end)

describe("perf.symbols.build_id", function()
  before_each(need)

  it("is the bytes of the note in hexadecimal", function()
    with_file(elf.build{build_id = "\0\1\127\128\255" .. ("x"):rep(15)}, function(path)
      assert.equal("00017f80ff" .. ("78"):rep(15), symbols.build_id(path))
    end)
  end)

  it("reports a file without one", function()
    with_file(elf.build{}, function(path)
      assert.same({nil, path .. ": no build id", "ENODATA"}, {symbols.build_id(path)})
    end)
    assert.same({nil, "/proc/self/status: not an ELF file", "ENOEXEC"}, {symbols.build_id("/proc/self/status")})
    assert.equal("ENOENT", select(3, symbols.build_id("/no/such/file")))
  end)
end)

-- inner called from middle called from outer; each function is 64 bytes, its frame as below.
local function stacked(machine, base)
  local text = base + elf.TEXT
  return elf.build{machine = machine, base = base, build_id = "\1\2\3\4\5\6\7\8",
    symbols = {{name = "inner", addr = text, size = 64}, {name = "middle", addr = text + 64, size = 64},
      {name = "outer", addr = text + 128, size = 64}},
    frames = {{addr = text, size = 64, cfa = 96, ra = -24}, {addr = text + 64, size = 64, cfa = 176, ra = -16},
      {addr = text + 128, size = 64, cfa = 16, ra = -8}}}
end

-- The stack of these frames, with the code loaded at an address; the outermost returns to 0.
local function stack_of(text)
  local zero = elf.int(0, 8)
  return zero:rep(9) .. elf.int(text + 64 + 20, 8) .. zero:rep(2) -- 96 bytes: the return address at 72
    .. zero:rep(20) .. elf.int(text + 128 + 8, 8) .. zero -- 176 bytes, at 160
    .. zero .. zero -- 16 bytes, at 8
end

local SP = 0x7ffd12340000
local counter = {x86_64 = "ip", aarch64 = "pc"}

local function names(frames)
  local out = {}
  for i, f in ipairs(frames) do out[i] = f.symbol and f.symbol .. "+" .. f.offset or core.hex(f.addr) end
  return table.concat(out, " ")
end

describe("a resolver of one file", function()
  before_each(need)

  it("finds the symbol of an address", function()
    with_file(stacked("x86_64", 0x400000), function(path)
      local r = assert(symbols.open{path = path})
      local frame = r:resolve(0x401000)
      assert.same({0x401000, "inner", 0, path, 0x1000},
        {frame.addr, frame.symbol, frame.offset, frame.module, frame.module_offset})
      assert.equal("middle", r(0x401000 + 127).symbol)
      assert.equal(63, r(0x401000 + 127).offset)
      assert.equal(("middle+0x3f (%s)"):format(path), tostring(r(0x40107f)))
      -- The return address of a call belongs to the function of the call before it.
      assert.same({"inner", 64}, {r:resolve(0x401040, true).symbol, r:resolve(0x401040, true).offset})
      assert.same({"middle", 0}, {r:resolve(0x401040).symbol, r:resolve(0x401040).offset})
      assert.equal(r:resolve(0x401040), r:resolve(0x401040))
      -- Code without a symbol still has an offset in its module.
      local bare = r:resolve(0x401800)
      assert.is_nil(bare.symbol)
      assert.equal(("0x401800 (%s+0x1800)"):format(path), tostring(bare))
      assert.same({nil, "nothing is known of address 0x10", "ENOENT"}, {r:resolve(16)})
      assert.equal("ENOENT", select(3, r:resolve(0x900000)))
      local m = r:modules()
      assert.same({1, path, "0102030405060708", 0x400000}, {#m, m[1].file, m[1].build_id, m[1].start})
      r:close()
    end)
  end)

  it("accepts any 64-bit value as an address", function()
    with_file(stacked("x86_64", 0), function(path)
      local r = assert(symbols.open{path = path})
      assert.equal("ENOENT", select(3, r:resolve(-1)))
      assert.equal("ENOENT", select(3, r:resolve(core.u64(1, 0x80000000))))
      assert.equal("inner", r:resolve("0x1000").symbol)
      assert.error_matches(function() r:resolve("inner") end, "integer expected, got string")
      assert.error_matches(function() r:resolve() end, "integer expected, got n")
      r:close()
    end)
  end)

  it("closes once, and raises an error afterwards", function()
    with_file(stacked("x86_64", 0), function(path)
      local r = assert(symbols.open{path = path})
      r:close()
      r:close()
      assert.is_false(r:is_open())
      assert.error_matches(function() r:resolve(0) end, "Resolver is closed")
      assert.error_matches(function() r:modules() end, "Resolver is closed")
      assert.error_matches(function() r:unwind{} end, "Resolver is closed")
    end)
  end)

  it("is opened for exactly one file or process, which must exist", function()
    assert.error_matches(function() symbols.open{} end, "one of 'pid', 'path' and 'maps' expected")
    assert.error_matches(function() symbols.open{pid = 1, path = "/x"} end, "one of 'pid', 'path' and 'maps' expected")
    assert.error_matches(function() symbols.open{file = "/x"} end, "unknown option 'file'")
    assert.error_matches(function() symbols.open{maps = {{addr = 1}}} end, "%[1%]: field 'filename' expected")
    assert.error_matches(function() symbols.open{maps = {{addr = {}, filename = "/x"}}} end, "field 'addr': address expected")
    assert.same({nil, "/no/such/file: No such file or directory", "ENOENT"}, {symbols.open{path = "/no/such/file"}})
    assert.equal("EINVAL", select(3, symbols.open{path = "/dev/zero"}))
  end)

  it("leaks nothing when an allocation fails", function()
    requires{nostress = true} -- if there is no memory for the call of a finalizer, it is never called
    with_file(stacked("x86_64", 0), function(path)
      local function use()
        local r = assert(symbols.open{path = path})
        r:resolve(0x1000)
        r:unwind{regs = {ip = 0x1014, sp = SP}, stack = stack_of(0x1000), machine = "x86_64"}
        r:modules()
        symbols.build_id(path)
        r:close()
      end
      each_allocation(20, use)
    end)
  end)
end)

describe("a resolver of mappings", function()
  before_each(need)

  it("finds files at their mappings", function()
    with_file(stacked("x86_64", 0x10000), function(path)
      -- The mapping as in mmap records: the page of the code, at offset 4096 of the file.
      for _, map in ipairs{{addr = 0x7f0000001000, pgoff = 4096, len = 4096}, {addr = 0x7f0000000000, pgoff = 0, len = 8192}} do
        map.filename = path
        map.build_id = "0102030405060708"
        local r = assert(symbols.open{maps = {map, {addr = 0x1000, filename = "[heap]"}}})
        assert.same({}, r.problems)
        assert.equal("middle", r:resolve(0x7f0000001050).symbol)
        assert.equal(16, r:resolve(0x7f0000001050).offset)
        assert.is_nil(r:resolve(0x1050))
        r:close()
      end
    end)
  end)

  it("works without files that are missing or have changed, and reports them", function()
    with_file(stacked("x86_64", 0), function(path)
      local r = assert(symbols.open{maps = {
        {addr = 0x7f0000000000, filename = path, build_id = "ffff"}, {addr = 0x100000, filename = "/no/such/file"},
        {addr = 0x200000, filename = "/dev/null"}, {addr = 0x300000, filename = path, pgoff = 1048576}}})
      local codes = {}
      for i, p in ipairs(r.problems) do codes[i] = p.code end
      assert.same({"ESTALE", "ENOENT", "EINVAL", "ENODATA"}, codes)
      assert.is_nil(r:resolve(0x7f0000001000))
      r:close()
    end)
  end)

  for machine, pc in pairs(counter) do
    it("unwinds a stack of " .. machine, function()
      with_file(stacked(machine, 0x10000), function(path)
        local text = 0x7f0000001000
        local r = assert(symbols.open{maps = {{addr = text, pgoff = 4096, filename = path}}})
        local function unwind(t)
          t.regs = t.regs or {[pc] = text + 12, sp = SP, abi = 2}
          t.stack = t.stack or stack_of(text)
          t.machine = machine
          return r:unwind(t)
        end
        local frames, why = unwind{}
        assert.equal("inner+12 middle+20 outer+8", names(frames))
        assert.is_nil(why)
        assert.equal(text + 64 + 20, frames[2].addr)
        -- A limit, and a stack that was cut off.
        assert.equal("inner+12 middle+20", names((unwind{max = 2})))
        assert.equal("inner+12 middle+20", (names((unwind{stack = stack_of(text):sub(1, 120)})):match("^inner%S+ middle%S+")))
        assert.equal("inner+12", (names((unwind{stack = ""})):match("^inner%S+")))
        -- A pc that is in no module is still a frame.
        assert.equal("0x1234", (names((unwind{regs = {[pc] = 0x1234, sp = SP}})):match("^%S+")))
        r:close()
      end)
    end)
  end

  it("unwinds what it can, and gives the reason for the rest", function()
    with_file(stacked("x86_64", 0), function(path)
      local r = assert(symbols.open{path = path})
      local frames, message, code = r:unwind{regs = {}, stack = "", machine = "riscv64"}
      assert.same({nil, "stacks of riscv64 cannot be unwound here", "EOPNOTSUPP"}, {frames, message, code})
      assert.equal("EOPNOTSUPP", select(3, r:unwind{regs = {abi = 1}, stack = "", machine = "aarch64"}))
      assert.equal("EOPNOTSUPP", select(3, r:unwind{regs = {}, abi = "32", stack = "", machine = "x86_64"}))
      assert.equal("ENODATA", select(3, r:unwind{regs = {abi = 0}, stack = "", machine = "x86_64"}))
      assert.error_matches(function() r:unwind{regs = {}} end, "option 'stack': string expected")
      assert.error_matches(function() r:unwind{regs = {sp = 1}, stack = "", machine = "x86_64"} end, "register 'ip' expected")
      assert.error_matches(function() r:unwind{regs = {ip = 1}, stack = "", machine = "x86_64"} end, "register 'sp' expected")
      assert.error_matches(function() r:unwind{regs = {ip = 1, sp = "x"}, stack = "", machine = "x86_64"} end,
        "register 'sp': integer expected, got string")
      assert.error_matches(function() r:unwind{regs = {}, stack = "", registers = 1} end, "unknown option 'registers'")
      r:close()
    end)
  end)
end)

describe("the kernel's symbols", function()
  before_each(need)

  local text = [[
0000000000000000 A fixed_percpu_data
ffffffff81000000 T _stext
ffffffff81000000 T startup_64
ffffffff81000040 t local_one
ffffffff81000040 T global_one
ffffffff81000080 t __pfx_marked
ffffffff81000090 D some_data
ffffffffc0a01000 t ext4_readdir	[ext4]
ffffffffc0a01020 T ext4_last	[ext4]
]]

  it("are found by address and by name", function()
    with_file(text, function(path)
      local k = assert(symbols.kernel(path))
      assert.equal(8, k:count())
      local function at(low, high)
        local f = assert(k:resolve(core.u64(low, high or 0xffffffff)))
        return tostring(f)
      end
      assert.equal("startup_64 ([kernel.kallsyms])", at(0x81000000))
      assert.equal("startup_64+0x3f ([kernel.kallsyms])", at(0x8100003f))
      assert.equal("global_one ([kernel.kallsyms])", at(0x81000040))
      assert.equal("__pfx_marked+0x1 ([kernel.kallsyms])", at(0x81000081))
      assert.equal("ext4_readdir+0x1f ([ext4])", at(0xc0a0101f))
      assert.equal("ext4_last+0x100 ([ext4])", at(0xc0a01120))
      assert.equal("ENOENT", select(3, k:resolve(core.u64(0xc0c01020, 0xffffffff)))) -- 2 MB after the last
      assert.equal("ENOENT", select(3, k:resolve(4096)))
      assert.equal("0xffffffffc0a01000", core.hex(k:address("ext4_readdir")))
      assert.equal(-1063251968, k:address("ext4_readdir")) -- sign-extended
      assert.same({nil, path .. ": no symbol 'nope'", "ENOENT"}, {k:address("nope")})
      k:close()
      k:close()
      assert.error_matches(function() k:count() end, "Kernel is closed")
    end)
  end)

  it("say when the kernel hides them", function()
    with_file((text:gsub("ffffffff%x%x%x%x%x%x%x%x", "0000000000000000")), function(path)
      assert.same({nil, path .. ": the kernel hides its addresses", "EPERM"}, {symbols.kernel(path)})
    end)
    with_file("nothing of the kind\n", function(path)
      assert.same({nil, path .. ": no symbols in it", "EBADMSG"}, {symbols.kernel(path)})
    end)
    assert.equal("ENOENT", select(3, symbols.kernel("/no/such/file")))
    assert.error_matches(function() symbols.kernel(5) end, "string expected, got number")
  end)

  it("resolve a call chain's addresses of the kernel", function()
    with_file(text, function(path)
      with_file(stacked("x86_64", 0), function(file)
        local k = assert(symbols.kernel(path))
        local r = assert(symbols.open{path = file, kernel = k})
        assert.equal("global_one", r:resolve(core.u64(0x81000041, 0xffffffff)).symbol)
        assert.equal("[kernel.kallsyms]", r:resolve(core.u64(1, 0xffffffff)).module)
        r:close()
        assert.equal(8, k:count()) -- the map was ours
        k:close()
      end)
    end)
  end)
end)

describe("a JIT's map", function()
  local jitmap
  before_each(function()
    need()
    jitmap = require "perf.symbols.jitmap"
  end)

  it("is searched by address; the later of two lines is used", function()
    local list = jitmap.parse("7f0000001000 40 one\n7f0000001040 20 two words\nrubbish\n7f0000002000 0 empty\n" ..
      "7f0000001000 10 newer\n7f0000000f00 1000 old and long")
    local function at(addr)
      local e = jitmap.search(list, addr)
      return e and e[3]
    end
    assert.equal("newer", jitmap.search(jitmap.parse("1000 40 one\n1000 10 newer"), 0x100f)[3])
    assert.equal("one", jitmap.search(jitmap.parse("1000 40 one\n1000 10 newer"), 0x1010)[3])
    assert.equal("old and long", at(0x7f0000001050))
    assert.is_nil(at(0x7f0000000eff))
    assert.is_nil(at(0x7f0000001f00))
    assert.is_nil(jitmap.search({}, 5))
  end)

  it("may have 0x before its numbers, and lines of any length", function()
    assert.same({ { 0x1000, 0x1040, "one", 0 } }, jitmap.parse "0x1000 0x40 one\n")
    -- The story: the time to read such a line grew with the square of its length, and any user can write one.
    for _, line in ipairs { ("a"):rep(5e5), "a " .. ("a"):rep(5e5), ("0"):rep(5e5), (" "):rep(5e5), "1" .. (" "):rep(5e5) } do
      assert.same({ { 0x10, 0x18, "end", 0 } }, jitmap.parse(line .. "\n10 8 end"))
    end
  end)

  it("is not read if another user could have written it", function()
    requires{root = true}
    local read = require("perf.ext.symbols").read_owned
    util.with_tmpname(function(path)
      util.write_file(path, "1000 10 f\n")
      util.shell("chmod 644 " .. path)
      assert.equal("1000 10 f\n", read(path, 0))
      util.shell("chown 65534 " .. path)
      assert.equal("EPERM", select(3, read(path, 0)))
      assert.equal("1000 10 f\n", read(path, 65534))
      for _, mode in ipairs{"646", "664", "666"} do
        util.shell(("chmod %s %s"):format(mode, path))
        assert.equal("EPERM", select(3, read(path, 65534)))
      end
      util.shell(("chmod 644 %s; ln -s %s %s.link"):format(path, path, path))
      assert.equal("ELOOP", select(3, read(path .. ".link", 65534)))
      os.remove(path .. ".link")
      util.shell("mkfifo " .. path .. ".fifo")
      assert.equal("EINVAL", select(3, read(path .. ".fifo", 0)))
      os.remove(path .. ".fifo")
      assert.equal("ENOENT", select(3, read(path .. ".none", 0)))
    end)
  end)
end)
