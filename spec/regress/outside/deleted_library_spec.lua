-- The story: after an upgrade of a library, processes that have run since before it use the old file, which has no name any more.
-- The functions of that file had no symbols in a profile with native frames, only the file's name and an offset.
local luaperf = require "spec.support.luaperf"
local outside = require "spec.support.outside"
local util = require "spec.support.util"

-- Checks the names in a folded profile of 300 page faults in copy.so.
local function check(folded)
  local with, without = 0, 0
  for stack, n in folded:gmatch "([^\n]*) (%d+)\n" do
    if stack:find("touch_pages (copy.so", 1, true) then with = with + n end
    if stack:find "copy%.so[^;]*%+0x" then without = without + n end
  end
  assert.is_true(with >= 290, folded)
  assert.equal(0, without, folded)
end

local function with_copy(fn)
  util.with_directory(function(dir)
    util.execute(("cp %s/testkit.so %s/copy.so"):format(os.getenv "LUA_CPATH":match "^[^?]*", dir))
    fn(dir)
  end)
end

it("the functions of a library that was deleted have their symbols", function()
  outside.requires { root = true, ext = { "bpf", "outside", "symbols" } }
  with_copy(function(dir)
    util.write_file(dir .. "/touch.lua", [[
      local kit = assert(package.loadlib("./copy.so", "luaopen_testkit"))()
      os.remove "copy.so"
      print "runs" io.stdout:flush()
      for _ in io.lines() do kit.touch_pages(300) print 'done' io.stdout:flush() end
    ]])
    local folded = luaperf.shell(dir, ([[
      mkfifo input output; %s touch.lua <input >output & p=$!
      exec 3>input 4<output; read line <&4
      luaperf record -p $p -g -e page-faults -c 1 -o profile.folded -- sh -c 'echo go >&3; read line <&4' >&2
      exec 3>&-; wait $p; cat profile.folded]]):format(util.lua()))
    check(folded)
  end)
end)

it("so they have in a profile of the own process", function()
  requires { root = true, ext = { "symbols" }, perf_open = true }
  with_copy(function(dir)
    util.write_file(dir .. "/own.lua", [[
      local kit = assert(package.loadlib("./copy.so", "luaopen_testkit"))()
      os.remove "copy.so"
      local p = assert(require("perf").profiler { event = "page-faults", period = 1, native = true })
      p:start()
      kit.touch_pages(300)
      io.write(p:stop():folded(), "\n")
    ]])
    check(luaperf.shell(dir, util.lua() .. " own.lua"))
  end)
end)
