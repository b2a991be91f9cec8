-- perf.symbols on this process and this kernel: offsets that uprobes hit, stacks that samples have, maps of a JIT.
-- Twice: the files and the kernel are read in C, the same for each interpreter.
local as_nobody = require "spec.support.nobody"
local kit = require "testkit"
local util = require "spec.support.util"
local core = require "perf.core"

local symbols

local function need(more)
  more = more or {}
  more.ext = "symbols"
  requires(more)
  symbols = require "perf.symbols"
end

-- The path in the kernel's form.
local function real(path)
  return (util.shell("realpath " .. path):gsub("\n", ""))
end

-- The hits of a uprobe while fn runs in this thread.
local function hits(path, offset, fn)
  local uprobe = tonumber(util.read_file("/sys/bus/event_source/devices/uprobe/type"))
  local ev = assert(core.open({type = uprobe, uprobe_path = path, probe_offset = offset, disabled = true}, 0, -1))
  assert(ev:enable())
  fn()
  assert(ev:disable())
  local n = ev:scan()[1].value
  ev:close()
  return n
end

local program = [[
#include <stdlib.h>
__attribute__((noinline)) void target(void) { __asm__ volatile(""); }
static __attribute__((noinline)) void hidden(void) { __asm__ volatile(""); }
int main(int argc, char **argv)
{
  for (int i = 0; i < atoi(argv[1]); i++) target();
  for (int i = 0; i < atoi(argv[2]); i++) hidden();
  return 0;
}
]]

-- Calls fn with the path of the program, built with these flags.
local function with_program(flags, fn)
  local path = os.tmpname()
  util.write_file(path .. ".c", program)
  local out, status = util.shell(("gcc -O1 -g %s -o %s.bin %s.c"):format(flags, path, path))
  local ok, err = pcall(function()
    assert(status == 0, out)
    fn(path .. ".bin")
  end)
  for _, suffix in ipairs{"", ".c", ".bin"} do os.remove(path .. suffix) end
  if not ok then error(err, 0) end
end

describe("perf.symbols.offset", function()
  it("gives an offset at which a uprobe counts 41 calls of 41", function()
    need{uprobe = true}
    local _, path, name = kit.probe_place()
    local offset, addr = symbols.offset(path, name)
    assert.is_number(addr)
    assert.equal(41, hits(path, assert(offset), function() kit.probe(41) end))
  end)

  for _, flags in ipairs{"-no-pie -fno-pie", "-pie -fPIE", "-pie -fPIE -s -Wl,--export-dynamic", "-no-pie -static"} do
    it("is right in a program built with " .. flags, function()
      need{uprobe = true, cmd = "gcc"}
      with_program(flags, function(path)
        local uprobe = tonumber(util.read_file("/sys/bus/event_source/devices/uprobe/type"))
        local stripped = flags:find("-s ", 1, true)
        local function count(name)
          local offset = assert(symbols.offset(path, name))
          -- The event is not inherited: after an exec the kernel would read uprobe_path again from the memory of the forking
          -- process.
          local list, n = {}, 0
          for i, cpu in ipairs(kit.cpus()) do
            list[i] = assert(core.open({type = uprobe, uprobe_path = path, probe_offset = offset}, -1, cpu))
          end
          util.shell(path .. " 17 23")
          for _, ev in ipairs(list) do
            n = n + ev:scan()[1].value
            ev:close()
          end
          return n
        end
        assert.equal(17, count("target"))
        if stripped then
          assert.equal("ENOENT", select(3, symbols.offset(path, "hidden")))
        else
          assert.equal(23, count("hidden"))
        end
      end)
    end)
  end

  it("finds versions of a symbol of the C library", function()
    need()
    local libc
    for line in io.lines("/proc/self/maps") do libc = libc or line:match("(/%S*/libc%.so%S*)") end
    if not libc then return pending("needs: glibc as a shared library") end
    assert.is_number((symbols.offset(libc, "malloc")))
    local new, old = symbols.offset(libc, "posix_spawn"), symbols.offset(libc, "posix_spawn@GLIBC_2.2.5")
    if old then assert.is_true(new ~= old) end -- machines newer than 2012 have one version
    assert.equal("ENOENT", select(3, symbols.offset(libc, "posix_spawn@GLIBC_1.0")))
  end)
end)

describe("perf.symbols.build_id", function()
  it("is the same as readelf prints", function()
    need{cmd = "readelf"}
    local _, path = kit.probe_place()
    local printed = util.shell("readelf -n " .. path):match("Build ID: (%x+)")
    assert.equal(printed, symbols.build_id(path))
  end)

  it("of the kernel comes from its notes", function()
    need{file = "/sys/kernel/notes"}
    local id = assert(symbols.build_id("[kernel]"))
    assert.matches("^%x+$", id)
    local bytes = id:gsub("%x%x", function(two) return string.char(tonumber(two, 16)) end)
    assert.is_truthy(util.read_file("/sys/kernel/notes"):find(bytes, 1, true))
  end)
end)

describe("a resolver of this process", function()
  it("finds its functions, files and lines", function()
    need()
    local addr, path, name = kit.probe_place()
    local r = assert(symbols.open{pid = 0})
    local frame = assert(r:resolve(addr))
    assert.same({addr, name, 0, real(path)}, {frame.addr, frame.symbol, frame.offset, frame.module})
    local number, found = 0, nil
    for line in io.lines("spec/support/testkit.c") do
      number = number + 1
      if line == "void testkit_probe(void)" then found = number end
    end
    assert.matches("testkit%.c$", frame.file)
    assert.is_true(frame.line >= found and frame.line <= found + 3) -- up to its first statement
    local mine
    for _, m in ipairs(r:modules()) do if m.file == real(path) then mine = m end end
    assert.equal(symbols.build_id(path), mine.build_id)
    assert.equal(addr - mine.start, frame.module_offset)
    r:close()
  end)

  it("gives the same from the mappings of a recording", function()
    need()
    local addr, path, name = kit.probe_place()
    local maps = {}
    for line in io.lines("/proc/self/maps") do
      local from, to, x, offset, file = line:match("^(%x+)%-(%x+) ..(.). (%x+) %S+ %d+%s+(/.*)$")
      if x == "x" then
        maps[#maps + 1] = {addr = tonumber(from, 16), len = tonumber(to, 16) - tonumber(from, 16),
          pgoff = tonumber(offset, 16), filename = file}
      end
    end
    local r = assert(symbols.open{maps = maps})
    assert.same({}, r.problems)
    local frame = assert(r:resolve(addr))
    assert.same({name, real(path)}, {frame.symbol, frame.module})
    assert.matches("testkit%.c$", frame.file)
    r:close()
  end)

  it("finds a library that was loaded later", function()
    need()
    local r = assert(symbols.open{pid = 0})
    local before = #r:modules()
    assert.is_true(r:refresh())
    assert.equal(before, #r:modules())
    r:close()
  end)

  it("has the symbols that a JIT wrote to /tmp/perf-PID.map", function()
    need()
    local path = ("/tmp/perf-%d.map"):format(kit.getpid())
    local cell = kit.cell()
    local addr = cell:addr()
    local r = assert(symbols.open{pid = 0, kernel = false})
    assert.is_nil(r:resolve(addr))
    util.write_file(path, ("%x 40 jitted function\n"):format(addr))
    util.shell("chmod 600 " .. path)
    assert.is_true(r:refresh())
    local ok, err = pcall(function()
      local frame = assert(r:resolve(addr + 5))
      assert.same({"jitted function", 5, "[jit]"}, {frame.symbol, frame.offset, frame.module})
      assert.is_nil(r:resolve(addr + 0x40))
      -- A map that others may write to is not used.
      util.shell("chmod 666 " .. path)
      r:refresh()
      assert.is_nil(r:resolve(addr + 6))
    end)
    os.remove(path)
    r:close()
    assert(ok, err)
  end)

  it("reports a process that does not exist, or belongs to another user", function()
    need()
    assert.same({nil, "no process 2147483646", "ESRCH"}, {symbols.open{pid = 2147483646}})
    requires{root = true}
    assert.equal("EACCES", util.in_child(function()
      assert(kit.drop())
      local r, message, code = symbols.open{pid = 1}
      assert(not r and message:find("CAP_SYS_PTRACE", 1, true), message)
      return code
    end))
  end)
end)

describe("unwinding a sample's stack", function()
  -- All general registers, as the machine numbers them.
  local masks = {x86_64 = 0xff01ff, aarch64 = 0x1ffffffff}

  it("gives the functions of the call chain, from the fault to the program's start", function()
    need{perf_open = "user"}
    local mask = masks[select(2, core.uname())]
    local r = assert(symbols.open{pid = 0})
    if not mask then return pending("needs: a machine whose stacks are unwound") end
    local perf = require "perf"
    local ev = assert(perf.open({event = "page-faults:u", sample_period = 1, sample_regs_user = mask,
      sample_stack_user = 16384, sample_type = {"ip", "tid", "regs_user", "stack_user"}}))
    assert(ev:map{pages = 64})
    assert(ev:enable())
    kit.touch_pages(3)
    assert(ev:disable())
    local seen = 0
    while ev:has_record() do
      local rec = assert(ev:read_record(0))
      if rec.type == "sample" then
        seen = seen + 1
        local frames = assert(r:unwind{regs = rec.user_regs, stack = rec.user_stack})
        assert.equal(rec.ip, frames[1].addr)
        local at = frames[1].symbol == "tk_touch_pages" and 1 or 2 -- or in a function that it calls
        assert.equal("tk_touch_pages", frames[at].symbol)
        assert.equal("kit_touch_pages", frames[at + 1].symbol)
        assert.matches("testkit%.c$", frames[at + 1].file)
        -- Beyond these is the interpreter, whose symbols may be stripped.
        assert.is_true(#frames > at + 5)
      end
    end
    assert.equal(3, seen)
    ev:close()
    r:close()
  end)
end)

describe("the running kernel's symbols", function()
  it("are the same as in /proc/kallsyms", function()
    need{root = true, nostress = true}
    local k = assert(symbols.kernel())
    local own, checked = 0, 0
    for line in io.lines("/proc/kallsyms") do
      local addr, kind, name = line:match("^(%x+) (%a) (%S+)")
      if not kind:find("[AaU]") then
        own = own + (line:find("[bpf]", 1, true) and 0 or 1)
        if kind == "T" and own % 500 == 0 then
          local value = core.u64(tonumber(addr:sub(9), 16), tonumber(addr:sub(1, 8), 16))
          local frame = assert(k:resolve(value))
          -- Several names may stand for one address.
          assert.equal(0, frame.offset)
          assert.equal(core.hex(value), core.hex((assert(k:address(frame.symbol)))))
          assert.is_truthy(frame.symbol == name or name:find("^_") or core.hex(k:address(name)) == core.hex(value))
          checked = checked + 1
        end
      end
    end
    -- BPF programs come and go meanwhile, some hundred at once.
    assert.is_true(k:count() >= own and k:count() < own + 5000)
    assert.is_true(checked > 20)
    k:close()
  end)

  it("are hidden from ordinary users, with a message that says so", function()
    need{root = true, cmd = "flock"}
    local restrict = util.read_file("/proc/sys/kernel/kptr_restrict"):match("%d+")
    assert.equal("EPERM", as_nobody(2, function()
      local k, message, code = symbols.kernel()
      assert(not k and message:find("the kernel hides its addresses (kernel.kptr_restrict is " .. restrict, 1, true), message)
      return code
    end))
  end)

  it("name the kernel's functions in a call chain", function()
    need{root = true, perf_open = true}
    local r = assert(symbols.open{pid = 0})
    local k = assert(symbols.kernel())
    local addr = k:address("__x64_sys_getppid") or k:address("__arm64_sys_getppid")
    if not addr then return pending("needs: a kernel whose getppid is known by name") end
    assert.matches("sys_getppid$", r:resolve(addr).symbol)
    assert.equal("[kernel.kallsyms]", r:resolve(addr).module)
    k:close()
    r:close()
  end)
end)
