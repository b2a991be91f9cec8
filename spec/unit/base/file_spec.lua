-- Reports as files: complete or absent, whatever fails.
local core = require "perf.core"
local file = require "perf.base.file"
local kit = require "testkit"
local profiles = require "spec.support.profiles"
local util = require "spec.support.util"

local with_directory = util.with_directory

local function names(dir)
  local list = assert(core.listdir(dir))
  table.sort(list)
  return list
end

local function hello(put)
  put "hello "
  put "world"
end

describe("a report's file", function()
  it("is written, and replaces another", function()
    with_directory(function(dir)
      local path = dir .. "/a"
      assert.is_true(file.write(path, hello))
      assert.equal("hello world", util.read_file(path))
      assert.is_true(file.write(path, function(put) put "again" end))
      assert.equal("again", util.read_file(path))
      assert.same({ "a" }, names(dir))
    end)
  end)

  it("replaces a symbolic link and not its target", function()
    with_directory(function(dir)
      util.write_file(dir .. "/victim", "precious")
      util.execute(("ln -s victim %s/a && ln -s nowhere %s/b"):format(dir, dir))
      assert.is_true(file.write(dir .. "/a", hello))
      assert.is_true(file.write(dir .. "/b", hello))
      assert.equal("precious", util.read_file(dir .. "/victim"))
      assert.equal("hello world", util.read_file(dir .. "/a"))
      assert.same({ "a", "b", "victim" }, names(dir))
    end)
  end)

  it("is written into a descriptor by its name, after the bytes in it", function()
    with_directory(function(dir)
      util.write_file(dir .. "/a.lua", "io.write 'first\\n' io.stdout:flush() "
        .. "assert(require 'perf.base.file'.write('/proc/self/fd/1', function(put) put 'then' end))")
      assert.equal("", (util.shell(util.lua() .. " " .. dir .. "/a.lua > " .. dir .. "/out")))
      assert.equal("first\nthen", util.read_file(dir .. "/out"))
    end)
  end)

  it("names the refusal, and leaves nothing behind", function()
    local function refused(code, path)
      local ok, message, got = file.write(path, hello)
      assert.is_nil(ok)
      assert.equal(code, got)
      assert.equal(path .. ": ", message:sub(1, #path + 2))
    end
    refused("ENOSPC", "/dev/full")
    refused("ENOENT", "/no/such/directory/a")
    refused("ENOENT", "")
    refused("EISDIR", "/tmp")
    refused("ENAMETOOLONG", "/tmp/" .. ("x"):rep(300))
    assert.error_matches(function() file.write("a\0b", hello) end, "zero bytes")
  end)

  it("needs permission to write", function()
    requires { root = true }
    with_directory(function(dir)
      util.write_file(dir .. "/mine", "kept")
      util.execute("chmod 0644 " .. dir .. "/mine; chmod 0777 " .. dir)
      local code = util.in_child(function()
        assert(kit.drop(65534))
        local _, _, code = file.write(dir .. "/mine", hello)
        return code
      end)
      assert.equal("EACCES", code)
      assert.equal("kept", util.read_file(dir .. "/mine"))
      util.execute("chmod 0555 " .. dir)
      code = util.in_child(function()
        assert(kit.drop(65534))
        local _, _, second = file.write(dir .. "/new", hello)
        return second
      end)
      assert.equal("EACCES", code)
      assert.same({ "mine" }, names(dir))
    end)
  end)

  it("that fails in the middle leaves the old one unchanged", function()
    for _, call in ipairs { "write", "rename", "open" } do
      with_directory(function(dir)
        util.write_file(dir .. "/a", "old")
        core.fault(call, "EIO", call == "write" and 1 or 0)
        local ok, message, code = file.write(dir .. "/a", hello)
        core.fault()
        assert.is_nil(ok, call)
        assert.equal("EIO", code)
        assert.equal(dir .. "/a: ", message:sub(1, #dir + 4))
        assert.equal("old", util.read_file(dir .. "/a"))
        assert.same({ "a" }, names(dir), call)
      end)
    end
  end)

  it("passes on the error of the function that writes it, and leaves nothing", function()
    with_directory(function(dir)
      local err = {}
      local ok, got = pcall(file.write, dir .. "/a", function(put)
        put "x"
        error(err, 0)
      end)
      assert.is_false(ok)
      assert.equal(err, got)
      assert.same({}, names(dir))
    end)
  end)

  it("may be a device or a pipe", function()
    assert.is_true(file.write("/dev/null", hello))
    with_directory(function(dir)
      util.execute("mkfifo " .. dir .. "/pipe")
      local reader = assert(io.popen("cat " .. dir .. "/pipe"))
      local ok, _, code
      repeat ok, _, code = file.write(dir .. "/pipe", hello) until code ~= "ENXIO" -- no process reads yet
      assert.is_true(ok)
      assert.equal("hello world", reader:read "*a")
      reader:close()
      assert.same({ "pipe" }, names(dir))
    end)
  end)

  it("that fails leaves the profile, which can be written elsewhere", function()
    local prof = profiles.program()
    for _, name in ipairs { "folded", "flamegraph", "pprof", "speedscope", "perf_data" } do
      local ok, message, code = prof[name](prof, "/dev/full")
      assert.is_nil(ok, name)
      -- The second file of perf_data is /dev/full.symbols, which only root can make, and in some containers not even root.
      local refused = name == "perf_data" and (code == "EACCES" or code == "EROFS")
      assert.equal(refused and code or "ENOSPC", code, name)
      assert.matches(refused and "^/dev/full%.symbols: " or "^/dev/full: ", message)
      with_directory(function(dir)
        assert.is_true(prof[name](prof, dir .. "/a"))
        assert.is_true(#util.read_file(dir .. "/a") > 100)
        assert.same(name == "perf_data" and { "a", "a.symbols" } or { "a" }, names(dir))
      end)
      assert.error_matches(function() prof[name](prof, 5) end,
        "bad argument #2 to '" .. name .. "' %(string expected, got number%)")
    end
  end)
end)
