-- The story: a file of folded stacks or a speedscope file that begins with an empty line was called a pprof file, since one of
-- these begins with the same byte.
local load = require "perf.profile.load"
local util = require "spec.support.util"

describe("a profile's file that begins with an empty line", function()
  local function loaded(text)
    local list, message
    util.with_directory(function(dir)
      util.write_file(dir .. "/file", text)
      list, message = load.all(dir .. "/file")
    end)
    return list and list[1].total, message and message:match ": (.*)"
  end

  it("is read", function()
    assert.equal(3, (loaded "\nmain;f 3\n"))
    assert.equal(3, (loaded "\n\nmain;f 3\n"))
    local prof = assert(load.decode "main;f 3\n")
    assert.equal(3, (loaded("\n" .. prof:speedscope())))
  end)

  it("is no pprof file, which is recognized, compressed or not", function()
    util.with_directory(function(dir)
      for _, name in ipairs { "x.pb", "x.pb.gz" } do
        for _, text in ipairs { "main;f 3\n", "f 1\n", "a;b;c;d;e 1\na;f;g 2\n" } do
          local path = dir .. "/" .. name
          assert(load.decode(text):pprof(path))
          assert.same({ nil, path .. ": a pprof file, which go tool pprof reads", "EBADMSG" }, { load.all(path) })
        end
      end
    end)
  end)
end)
