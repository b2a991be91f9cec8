-- perf.msr on a file in place of the device: 8 bytes at an offset, as /dev/cpu/N/msr returns a register.
local util = require "spec.support.util"
local core = require "perf.core"
local kit = require "testkit"
local msr = require "perf.kernel.msr"

local function with_registers(fn)
  util.with_tmpname(function(path)
    util.write_file(path, ("\0"):rep(16) .. "\1\2\3\4\5\6\7\136" .. "\42\0\0\0\0\0\0\0" .. "abc")
    fn(path)
  end)
end

describe("perf.msr", function()
  it("reads the 64 bits of a register", function()
    with_registers(function(path)
      local m = assert(msr.open(path))
      assert.equal("0x8807060504030201", core.hex(m:read(16)))
      assert.equal(42, m:read(24))
      assert.equal(0, m:read(0))
      m:close()
    end)
  end)

  it("names the register that it could not read", function()
    with_registers(function(path)
      local m = assert(msr.open(path))
      local value, message, code = m:read(0x1000)
      assert.is_nil(value)
      assert.equal("EIO", code)
      assert.equal(path .. ": MSR 0x1000: Input/output error " ..
        "(this CPU has no such register, or the host does not pass it on to this virtual machine)", message)
      assert.equal("EIO", select(3, m:read(32))) -- three bytes only
      core.fault("pread", "EPERM")
      value, message, code = m:read(16)
      core.fault()
      assert.is_nil(value)
      assert.equal("EPERM", code)
      assert.matches("MSR 0x10: Operation not permitted %(", message)
      m:close()
    end)
  end)

  it("raises an error for an invalid register, and when it is closed", function()
    with_registers(function(path)
      local m = assert(msr.open(path))
      assert.error_matches(function() m:read() end, "integer expected, got n")
      assert.error_matches(function() m:read(-1) end, "out of range")
      assert.error_matches(function() m:read(4294967296) end, "out of range")
      assert.error_matches(function() m:read(1.5) end, "integer expected")
      m:close()
      m:close()
      assert.error_matches(function() m:read(16) end, "Msr is closed")
    end)
  end)

  it("raises an error for an invalid CPU", function()
    for _, cpu in ipairs{-1, 1.5, 65536, "0", true} do
      assert.error_matches(function() msr.msr(cpu) end, "number of a CPU expected")
    end
    assert.error_matches(function() msr.msr() end, "got nil")
  end)

  it("gives the reason why a device does not open", function()
    local m, message, code = msr.open("/no/such/msr", 0)
    assert.is_nil(m)
    assert.equal("ENOENT", code)
    assert.matches("^/no/such/msr: No such file or directory %(.+%)$", message)
    m, message, code = msr.open("/no/such/msr", 60000)
    assert.is_nil(m)
    assert.equal("ENOENT", code)
    if select(2, core.uname()):find("86") then assert.matches("there is no CPU 60000", message) end
    core.fault("open", "EACCES")
    m, message, code = msr.open("/dev/null", 0)
    core.fault()
    assert.is_nil(m)
    assert.equal("EACCES", code)
    assert.matches("Permission denied %(", message)
  end)

  it("reports a device whose driver is missing", function()
    requires{root = true, cmd = "mknod"}
    local path = ("/dev/lua-perf-%d"):format(kit.getpid()) -- /tmp may be mounted with nodev, as on Debian 13
    finally(function() os.remove(path) end)
    local out, status = util.shell("mknod " .. path .. " c 202 60000")
    if status ~= 0 then return pending("needs: device nodes (" .. out .. ")") end
    local m, message, code = msr.open(path, 0)
    if m then m:close() end
    assert.is_nil(m)
    assert.equal("ENXIO", code)
    assert.matches("No such device or address %(", message)
  end)

  it("is closed by the collector", function()
    requires{nostress = true} -- a finalizer that cannot be called for lack of memory is lost
    with_registers(function(path)
      assert(msr.open(path))
      local jit = rawget(_G, "jit") -- LuaJIT 2.1.0-beta3 does not survive failing allocations in compiled code
      if jit then
        jit.off()
        jit.flush()
      end
      local total = kit.fail_alloc(0, msr.open, path)
      for n = 1, total do kit.fail_alloc(n, msr.open, path) end
      if jit then jit.on() end
    end)
  end)
end)

describe("perf.msr on this machine", function()
  it("reads the time stamp counter, which runs", function()
    requires{root = true, file = "/dev/cpu/0/msr"}
    local m = assert(require "perf".msr(0))
    local a = assert(m:read(0x10))
    local b = assert(m:read(0x10))
    local low_a, high_a = core.halves(a)
    local low_b, high_b = core.halves(b)
    assert.is_true(high_b > high_a or (high_b == high_a and low_b > low_a))
    m:close()
  end)

  it("is available as perf.msr", function()
    local m, message, code = require "perf".msr(0)
    if m then
      m:close()
    else
      assert.is_string(code)
      assert.matches("^/dev/cpu/0/msr: .+ %(.+%)$", message)
    end
  end)
end)
