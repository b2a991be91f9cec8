-- perf.profile.load: the kernel's names in a recording, damaged files, and files that can be read only once.
local bytes = require "spec.support.bytes"
local data = require "perf.data"
local load = require "perf.profile.load"
local profiles = require "spec.support.profiles"
local util = require "spec.support.util"

local b = bytes.native
local SAMPLE, KERNEL = 9, 1

-- Writes samples of one address; sample_type ip, tid.
local function recording(path, addr, n, opts)
  opts.events = { { attr = { type = "software", config = 0, sample_period = 1, sample_type = { "ip", "tid" } }, ids = {} } }
  local w = assert(data.create(path, opts))
  assert(w:write(b.record(SAMPLE, KERNEL, b.u64(addr), b.u32(7), b.u32(7)):rep(n)))
  assert(w:close())
end

describe("a recording's kernel", function()
  local symbols, addr, ours

  before_each(function()
    requires { ext = "symbols", root = true, file = "/sys/kernel/notes", kernel_addresses = true }
    symbols = require "perf.symbols"
    local kernel = assert(symbols.kernel())
    addr = assert(kernel:address "vfs_read")
    kernel:close()
    ours = assert(symbols.build_id "[kernel]")
  end)

  local function name_with(features)
    local name
    util.with_tmpname(function(path)
      recording(path, addr, 1, { features = features })
      name = assert(load.all(path))[1]:top().lines[1].name
    end)
    return name
  end

  local function built(id)
    return { build_id = { { pid = -1, build_id = id, filename = "[kernel.kallsyms]", misc = KERNEL } } }
  end

  it("is recognized as this machine's by its build id, or else by release and host", function()
    assert.equal("vfs_read", name_with(built(ours)))
    assert.equal("[kernel.kallsyms]", name_with(built(("12"):rep(20))))
    local here = { osrelease = (require "perf.core".uname()),
      hostname = (require "perf.kernel.host".line "/proc/sys/kernel/hostname") }
    assert.equal("vfs_read", name_with(here))
    assert.equal("[kernel.kallsyms]", name_with { osrelease = here.osrelease, hostname = "elsewhere" })
    assert.equal("[kernel.kallsyms]", name_with { osrelease = "3.4.0", hostname = here.hostname })
    assert.equal("[kernel.kallsyms]", name_with {})
    here.build_id = built(("12"):rep(20)).build_id
    assert.equal("[kernel.kallsyms]", name_with(here))
  end)

  it("has no names of this machine's kernel if it was another machine's", function()
    requires { corpus = "perf.data.raw-3.4" }
    local list = assert(load.all(util.corpus_path "perf.data.raw-3.4"))
    for _, s in ipairs(list[1]:samples()) do
      for _, frame in ipairs(s.stack) do
        assert.is_true(frame.kind ~= "kernel" or frame.name == "[kernel.kallsyms]", frame.name)
      end
    end
  end)
end)

describe("a damaged recording", function()
  it("is shown in part, with a warning", function()
    util.with_tmpname(function(path)
      recording(path, 4096, 100, { features = {} })
      local list, message = load.all(path)
      assert.same({ 100 }, { list[1].sample_count, message })
      local text = util.read_file(path)
      util.write_file(path, text:sub(1, #text / 2))
      list, message = load.all(path)
      assert.is_true(list[1].sample_count < 100)
      assert.matches("^" .. path .. ": the data ends within a record", message)
    end)
  end)
end)

describe("a pipe", function()
  -- The result of loading a FIFO to which another process writes a file.
  local function through_fifo(path)
    local list, message, code
    util.with_directory(function(dir)
      util.execute(("mkfifo %s/fifo && { cat %s >%s/fifo & }"):format(dir, path, dir))
      list, message, code = load.all(dir .. "/fifo")
      message = message and message:gsub(dir, "DIR")
    end)
    return list, message, code
  end

  it("is read as the file would be", function()
    util.with_tmpname(function(path)
      local prof = profiles.program()
      assert(prof:speedscope(path))
      assert.equal(tostring(prof), tostring(assert(through_fifo(path))[1]))
      recording(path, 4096, 3, { features = {} })
      assert.equal(3, assert(through_fifo(path))[1].sample_count)
      util.write_file(path, "{")
      assert.same({ nil, "DIR/fifo: not valid JSON: byte 2: a name expected", "EBADMSG" }, { through_fifo(path) })
    end)
  end)
end)

describe("a file of another format", function()
  it("is recognized by its first bytes", function()
    assert.same({ nil, "/dev/zero: neither a profile nor a perf.data file", "EBADMSG" }, { load.all "/dev/zero" })
  end)
end)
