-- The story: ^C did nothing while luaperf searched the memory of a large process for Lua states, which takes seconds.
local luaperf = require "spec.support.luaperf"
local outside = require "spec.support.outside"
local util = require "spec.support.util"

it("the search of a process's memory ends by ^C", function()
  outside.requires { root = true, lua = "luajit", ffi = true }
  local dir = util.new_directory()
  finally(function() util.remove_directory(dir) end)
  -- Mappings of 1 GiB with a page between each two. The search reads pages to which nothing was written, and the kernel makes
  -- 2 MiB of page tables for each GiB of them.
  util.write_file(dir .. "/large.lua", [[
    local ffi = require "ffi"
    ffi.cdef "void *mmap(void *, size_t, int, int, int, long); int mprotect(void *, size_t, int);"
    for _ = 1, 7 do
      local at = ffi.C.mmap(nil, 2 ^ 30, 3, 0x4022, -1, 0)
      assert(at ~= ffi.cast("void *", -1) and ffi.C.mprotect(at, 4096, 0) == 0)
    end
    io.stdout:write "runs\n" io.stdout:flush() io.read()]])
  local output = luaperf.shell(dir, ([[
    mkfifo input output; %s large.lua <input >output & p=$!; exec 3>input; read line <output
    tables() { sed -n 's/^VmPTE:[^0-9]*\([0-9]*\).*/\1/p' /proc/$p/status; }
    before=$(tables)
    env --default-signal=INT $root/bin/luaperf record -p $p -o x.json 2>&1 & q=$!
    until [ $(tables) -gt $((before + 1000)) ]; do :; done # it searches
    kill -INT $q; wait $q; echo $?
    [ $(tables) -lt $((before + 13000)) ] && echo ended
    ls x.json 2>&-; exec 3>&-; wait $p]]):format(util.lua()))
  assert.matches("^130\nended\n$", output)
end)
