--- Functions for specs that testkit does not have: children, temporary files, the corpus.
local luassert = require "luassert"
local kit = require "testkit"
local needs = require "spec.support.needs"

local util = {}

util.tracefs_dir = needs.tracefs_dir
util.cgroup_dir = needs.cgroup_dir

--- The page faults that this user may count: an ordinary user's exclude the kernel.
util.FAULTS = needs.unmet { perf_open = true }[1] and "page-faults:u" or "page-faults"

--- The path of a file of the corpus; call requires{corpus = name} first.
util.corpus_path = needs.corpus_path

--- Runs fn(...) in a child process and returns its first result as a string. Raises the child's errors, including failed
-- assertions.
function util.in_child(fn, ...)
  local status, text = kit.fork(fn, ...)
  if status ~= 0 then
    error("in the child (status " .. tostring(status) .. "): " .. tostring(text), 2)
  end
  return text
end

--- The size of a small alternate stack for `testkit.alternate_stack`: room for a signal and for a handler that does hardly
-- anything, which takes more with a sanitizer. Many programs have 8 KB.
function util.small_stack()
  return os.getenv "PERF_SAN" and 8192 or kit.signal_frame() + 1024
end

-- A sanitizer's malloc keeps what a count frees, and takes new pages instead, in steps of 64 KB for each size of object, and more
-- for each new call stack. These pages cannot be faulted in before, nor distinguished from other faults. So under a sanitizer the
-- count is tried several times: each time kit.settle gives back what the earlier tries have freed.
local TRIES = os.getenv "PERF_SAN" and 10 or 1

--- Calls fn so that only fn itself causes page faults and system calls: no collection is due, the heap has room, each mapped page
-- is present and not shared, and LuaJIT compiles nothing, which would take two calls of mprotect, or under a sanitizer one of
-- sigaltstack each time that LuaJIT gives up a trace. For exact counts, above all in a child, whose pages are all copy-on-write.
function util.settled(fn)
  local ok, result
  local jit = rawget(_G, "jit")
  local compiles = jit and jit.status()
  if compiles then jit.off() end
  for _ = 1, TRIES do
    collectgarbage()
    kit.settle()
    ok, result = pcall(fn)
    if ok then break end
  end
  if compiles then jit.on() end
  if not ok then error(result, 0) end
  return result
end

--- Calls attempt by `settled`, and checks that it returns the count n.
function util.exactly(n, attempt)
  util.settled(function()
    local got = attempt()
    if got ~= n then error(("counted %s, not %d"):format(tostring(got), n), 5) end
  end)
end

--- The online CPUs; this process may be limited to some of them.
function util.online_cpus()
  local cpus = {}
  for first, last in util.read_file("/sys/devices/system/cpu/online"):gmatch "(%d+)%-?(%d*)" do
    for cpu = tonumber(first), tonumber(last) or tonumber(first) do cpus[#cpus + 1] = cpu end
  end
  return cpus
end

--- Waits until condition() is true, at most ten seconds, and returns whether it is. For actions of other processes.
function util.eventually(condition)
  for _ = 1, 1000 do
    if condition() then return true end
    require("perf.core").watch({}, 0.01)
  end
  return false
end

--- The error that fn raises.
function util.message_of(fn, ...)
  local ok, message = pcall(fn, ...)
  if ok then error("no error", 2) end
  return message
end

--- Check the errors that functions raise: each begins with a line of the calling spec, and contains the words that are the
-- function's key in the table.
function util.check_mistakes(cases)
  local file = debug.getinfo(2, "S").short_src:match "[%w_]+%.lua$":gsub("%.", "%%.")
  for want, wrong in pairs(cases) do
    local message = util.message_of(wrong)
    luassert.matches("^[^\n]*" .. file .. ":%d+: ", message)
    luassert.matches(want, message, 1, true)
  end
end

--- The content of a file; raises if it cannot be read.
function util.read_file(path)
  local f = assert(io.open(path, "rb"))
  local text = f:read("*a")
  f:close()
  return text
end

--- Calls fn, and again until tracefs has the same tracepoints before and after the call: the kernel may load a module with
-- tracepoints meanwhile. Returns fn's first result, and the names of the tracepoints, one on each line.
function util.of_tracepoints(fn)
  local path, text, result = util.tracefs_dir() .. "/available_events"
  repeat text, result = util.read_file(path), fn() until util.read_file(path) == text
  return result, text
end

--- "FILE:LINE", without a directory, of the first line of a file that contains a text; raises if there is none.
function util.line_of(path, text)
  local n = 0
  for line in util.read_file(path):gmatch "([^\n]*)\n" do
    n = n + 1
    if line:find(text, 1, true) then return ("%s:%d"):format(path:match "[^/]*$", n) end
  end
  error("no line has " .. text)
end

--- Writes a file; replaces its content.
function util.write_file(path, text)
  local f = assert(io.open(path, "wb"))
  assert(f:write(text))
  f:close()
end

--- Makes a temporary directory; returns its path.
function util.new_directory()
  local dir = os.tmpname()
  os.remove(dir)
  assert(kit.make_directory(dir))
  return dir
end

--- Removes it with all its content. dir: nil if there is none.
function util.remove_directory(dir)
  if dir then kit.remove_directory(dir) end
end

--- Calls fn with a new directory, which is removed afterwards with all its content, also after an error.
function util.with_directory(fn)
  local dir = util.new_directory()
  local ok, err = pcall(fn, dir)
  util.remove_directory(dir)
  if not ok then error(err, 0) end
end

--- Calls fn with a name for a temporary file, which is removed afterwards, also after an error.
function util.with_tmpname(fn)
  local path = os.tmpname()
  local ok, err = pcall(fn, path)
  os.remove(path)
  if not ok then error(err, 0) end
end

--- A shell command's output (stdout and stderr) and exit status, or -n for signal n.
function util.shell(command)
  local pipe = assert(io.popen("exec 2>&1; (" .. command .. "\n); printf '\\n%d' $?", "r"))
  local text = pipe:read("*a")
  pipe:close()
  local output, status = text:match("^(.*)\n(%d+)$")
  status = tonumber(status)
  return output, status > 128 and 128 - status or status
end

--- Runs a shell command, and raises an error if it fails. `assert(os.execute(...))` asserts nothing on LuaJIT and Lua 5.1, where
-- os.execute returns a number.
function util.execute(command)
  local result = os.execute(command)
  if result ~= true and result ~= 0 then error("failed: " .. command, 2) end
end

--- The interpreter that runs this spec, as a word of a shell command. The environment lets it find the tree's modules.
function util.lua()
  local i = 0
  while arg and arg[i - 1] do i = i - 1 end
  return arg and arg[i] or "luajit"
end

--- Calls fn(...), and returns its first result. Meanwhile each collection of garbage begins as soon as the one before it has
-- ended. By default it begins when the heap has grown to twice its size. A spec that makes less garbage than the memory that
-- earlier specs have left would see no collection.
function util.collecting(fn, ...)
  local pause = collectgarbage("setpause", 100)
  collectgarbage() -- the collection after this one begins at once
  local ok, result = pcall(fn, ...)
  collectgarbage("setpause", pause)
  if not ok then error(result, 0) end
  return result
end

--- Makes an object that nothing holds, with a finalizer.
function util.finalized(finalizer)
  local newproxy = rawget(_G, "newproxy")
  if newproxy then
    getmetatable(newproxy(true)).__gc = finalizer -- Lua 5.1 finalizes userdata alone
  else
    setmetatable({}, { __gc = finalizer })
  end
end

return util
