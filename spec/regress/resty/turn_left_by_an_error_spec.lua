-- The story: an error in the log phase left the turn open until the next request. If the worker only waited for events meanwhile,
-- it was reported as blocked, in the system call epoll_wait.
local opened = require "spec.support.accounting"

describe("a turn that an error has left", function()
  local ffi, accounting
  before_each(function() ffi, accounting = opened.open() end)
  after_each(opened.close)

  it("is not reported as blocked while the worker waits for events", function()
    pcall(ffi.cdef, "int epoll_create1(int flags); int epoll_wait(int set, void *events, int n, int ms); int close(int fd);")
    local set, events, r = ffi.C.epoll_create1(0), ffi.new "char[64]", ffi.cast("void *", 4096)
    assert.is_true(accounting.watch(5e6, false))
    for _ = 1, 5 do
      assert.equal(0, accounting.admit(r, 0, 0, 0))
      assert.equal(1, accounting.enter(r, 5))
      ffi.C.epoll_wait(set, events, 1, 50)
      accounting.finish(r)
      local found = accounting.blocked() -- a busy machine may have kept this thread from running before it waited
      assert.not_equal("epoll_wait", found and found.call)
    end
    ffi.C.close(set)
  end)
end)
