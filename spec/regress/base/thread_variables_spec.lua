-- The story: handlers of signals read variables of their thread by __tls_get_addr, which may call malloc at a thread's first use
-- of them. So a late SIGTRAP in a thread that was in malloc could stop the thread for ever.
-- Once: it reads the core's file.
local util = require "spec.support.util"

describe("the variables of a thread", function()
  it("are in the block that glibc makes with the thread", function()
    local core = util.read_file(package.searchpath("perf.core", package.cpath))
    assert.is_truthy(core:find("pthread_once", 1, true)) -- the name of a function that it calls is in the file
    assert.is_nil(core:find("tls_get_addr", 1, true))
  end)
end)
