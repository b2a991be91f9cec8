-- The story: `luaperf report /dev/stdin` of a user who may not write to /tmp ended with "unable to generate a unique filename",
-- the error of os.tmpname, which names neither the pipe nor /tmp.
local load = require "perf.profile.load".all
local util = require "spec.support.util"

describe("a profile from a pipe", function()
  it("is refused with the reason where no temporary file can be made", function()
    local tmpname = os.tmpname
    finally(function() os.tmpname = tmpname end) -- luacheck: ignore 122
    util.with_directory(function(dir)
      local pipe = dir .. "/pipe"
      util.shell(("mkfifo %s; timeout 600 sh -c 'echo main 1 >%s' >/dev/null 2>&1 &"):format(pipe, pipe))
      os.tmpname = function() error "unable to generate a unique filename" end -- luacheck: ignore 122
      local list, message, code = load(pipe)
      assert.same({ nil, pipe .. ": a pipe is copied into a temporary file first, and none can be made in /tmp: name a file",
        "EACCES" }, { list, message, code })
    end)
  end)
end)
