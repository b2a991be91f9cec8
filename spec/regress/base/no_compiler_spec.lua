-- The story: on a machine without a compiler, the first line that `make demo` and `make help` printed was "make: cc: No such file
-- or directory", although the first of them was about to install it and the second needs none.
local util = require "spec.support.util"

describe("make without a compiler", function()
  it("prints no error where none is needed", function()
    requires { cmd = "make" }
    local output = util.shell "LD_PRELOAD= make -s help CC=no-such-compiler 2>&1"
    assert.matches("install what is missing", output)
    assert.is_nil(output:find("no-such-compiler", 1, true), output)
  end)
end)
