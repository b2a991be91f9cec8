-- perf.bpf without the kernel: its arguments, and files that are not BPF objects.
local util = require "spec.support.util"

describe("perf.bpf.load", function()
  local bpf
  before_each(function()
    requires{ext = "bpf"}
    bpf = require "perf.bpf"
  end)

  it("raises an error for a path that is not a string", function()
    assert.error_matches(function() bpf.load() end, "#1 to 'load' %(string expected, got nil%)")
    assert.error_matches(function() bpf.load({}) end, "string expected, got table")
  end)

  it("raises an error for a path with a zero byte", function()
    assert.error_matches(function() bpf.load("a\0b") end, "zero byte")
  end)

  it("raises an error for options that are unknown or of the wrong type", function()
    assert.error_matches(function() bpf.load("x.o", {maxentries = {}}) end,
      "#2 to 'load' %(unknown option 'maxentries'; did you mean 'max_entries'%?%)")
    assert.error_matches(function() bpf.load("x.o", {globals = 1}) end, "option 'globals': table expected, got number")
    assert.error_matches(function() bpf.load("x.o", "x") end, "#2 to 'load' %(table of options expected, got string%)")
  end)

  it("returns ENOENT for a file that does not exist", function()
    local obj, message, code = bpf.load("/no/such/file.o")
    assert.is_nil(obj)
    assert.equal("ENOENT", code)
    assert.matches("^/no/such/file%.o: bpf: cannot be read: No such file or directory", message)
  end)

  it("says how to build a BPF object if given another file", function()
    util.with_tmpname(function(path)
      util.write_file(path, "int main() {}\n")
      local obj, message, code = bpf.load(path)
      assert.is_nil(obj)
      assert.equal("ENOEXEC", code)
      assert.matches("clang %-O2 %-g %-target bpf %-c", message)
      assert.matches("libbpf: elf:", message) -- in the message, and so not on the terminal
    end)
  end)

  it("prints no messages of libbpf", function()
    local out, status = util.shell(util.lua() .. [[ -e 'print((require "perf.bpf".load("/no/such/file.o")))']])
    assert.equal(0, status)
    assert.equal("nil\n", out)
  end)
end)

describe("a library that was missing when the module was built", function()
  it("is named, with the package to install", function()
    local extension = require "perf.base.optional"
    local ok, message = pcall(extension.load, "nosuch", "libnosuch", "libnosuch-dev", "perf.nosuch")
    assert.is_false(ok)
    assert.matches(": perf.nosuch: not built (libnosuch's headers were missing: apt-get install libnosuch-dev, then make)",
      message, 1, true)
  end)

  it("is not named for a module that exists and fails", function()
    local extension = require "perf.base.optional"
    package.preload["perf.ext.broken"] = function() error("libx.so.1: cannot open shared object file", 0) end
    local ok, message = pcall(extension.load, "broken", "libx", "libx-dev", "perf.broken")
    package.preload["perf.ext.broken"] = nil
    assert.is_false(ok)
    assert.matches(": perf%.broken: .*libx%.so%.1: cannot open shared object file", message)
  end)
end)
