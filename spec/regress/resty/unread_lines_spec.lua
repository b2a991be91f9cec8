-- The story: the watcher of blocked turns wrote its line about a turn that goes on under its mutex. If standard error was a pipe
-- that nobody read, the worker waited for ever at the end of its turn, and at its own end.
local core = require "perf.core"
local opened = require "spec.support.accounting"
local util = require "spec.support.util"

describe("a line about a blocked turn", function()
  local ffi, accounting
  before_each(function() ffi, accounting = opened.open() end)
  after_each(opened.close)

  it("is not written to a full pipe, which would block the worker too", function()
    assert.equal("ended", (util.in_child(function()
      ffi.cdef [[int pipe(int to[2]); int dup2(int from, int to); long write(int fd, const void *text, size_t n);
        int fcntl(int fd, int command, ...); unsigned alarm(unsigned seconds);]]
      ffi.C.alarm(60) -- ends a child that hangs
      local ends, text, NONBLOCK, SETFL = ffi.new "int[2]", ("x"):rep(4096), 0x800, 4
      assert(ffi.C.pipe(ends) == 0 and ffi.C.dup2(ends[1], 2) == 2)
      assert(ffi.C.fcntl(2, SETFL, ffi.cast("int", NONBLOCK)) == 0)
      while ffi.C.write(2, text, #text) > 0 do end
      assert(ffi.C.fcntl(2, SETFL, ffi.cast("int", 0)) == 0)

      opened.open()
      assert.is_true(accounting.watch(1e6, true))
      opened.turn(1.3e9) -- a line is due after one second
      assert.is_table(accounting.blocked())
      opened.close()
      return "ended"
    end)))
  end)

  -- The story: another process that wrote to the same pipe could fill it after the watcher had found room in it. Then the
  -- watcher waited, and the worker at its own end. The watcher also called localtime_r, which locks a mutex that a forked child
  -- would find locked.
  it("is tried again if the pipe has become full, and has the local time", function()
    local text = util.in_child(function()
      ffi.cdef [[int pipe(int to[2]); int dup2(int from, int to); long read(int fd, void *text, size_t n);
        int setenv(const char *name, const char *value, int replace); unsigned alarm(unsigned seconds);]]
      ffi.C.alarm(60)
      local ends, line = ffi.new "int[2]", ffi.new "char[4096]"
      assert(ffi.C.pipe(ends) == 0 and ffi.C.dup2(ends[1], 2) == 2)
      ffi.C.setenv("TZ", "XST-5:30", 1)
      local first = os.date "%Y/%m/%d %H:%M:%S"
      opened.open()
      assert.is_true(accounting.watch(1e6, true))
      core.fault("write_now", "EAGAIN", 0)
      local r = ffi.cast("void *", 4096)
      assert.equal(0, accounting.admit(r, 0, 0, 0))
      assert.equal(1, accounting.enter(r, 4))
      local n = tonumber(ffi.C.read(ends[0], line, 4096)) -- the turn goes on until the line is there
      accounting.exit(r, 0)
      local calls, last = core.fault(), os.date "%Y/%m/%d %H:%M:%S"
      opened.close()
      line = ffi.string(line, n)
      local time = line:match "^(%d%d%d%d/%d%d/%d%d %d%d:%d%d:%d%d) %[warn%] .*, in the system call read\n$"
      return tostring(calls >= 2 and time and first <= time and time <= last or line)
    end)
    assert.equal("true", text)
  end)
end)
