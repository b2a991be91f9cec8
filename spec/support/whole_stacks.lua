--- Runs a program in a new process, and checks that it says "whole": see sampled.say_whole.
local luassert = require "luassert"
local util = require "spec.support.util"

return function(text)
  requires { lua = "luajit", registers = true, perf_open = "user", nosan = true, nostress = true }
  util.with_tmpname(function(path)
    util.write_file(path, text)
    luassert.same({ "whole", 0 }, { util.shell(("%s %s"):format(util.lua(), path)) })
  end)
end
