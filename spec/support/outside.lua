--- Profiles of other processes: of children that wait until the profiler has started.
local assert = require "luassert"
local copy = require "perf.base.copy"
local kit = require "testkit"
local perf = require "perf"

local outside = {}

--- Checks the needs of the machine, and further ones, as `requires` does.
function outside.requires(more)
  requires(copy({ ext = { "bpf", "outside" }, bpf = true, perf_open = true, registers = true }, more))
  -- Children alone are counted. And with each one that ends, all others would get a copy of all pages of this process.
  kit.settle_after_forks(false)
end

--- A script of the shell that ends when the processes of its arguments have used some CPU time, 0.1 s or more each. A time of the
-- clock would not do: on a busy machine a process may not run for long.
outside.WORKED = [[
ticks() {
  read -r stat </proc/$1/stat || exit 1
  set -- ${stat##*) }
  echo $((${12} + ${13}))
}
for p; do
  until=$(($(ticks $p) + 10))
  while [ $(ticks $p) -lt $until ]; do sleep 0.02; done
done
]]

--- Profiles children of kit.start from their beginning to their end.
-- @param opts of perf.profiler, with their process ids
-- @return the Profile, and what the last child's function returned
function outside.profile_children(opts, ...)
  local p = assert(perf.profiler(opts))
  assert(p:start())
  local children, ended = { ... }, {}
  for _, child in ipairs(children) do child:go() end
  for i, child in ipairs(children) do ended[i] = { child:wait() } end
  local prof = assert(p:stop())
  p:close()
  for _, result in ipairs(ended) do assert.equal(0, result[1], result[2]) end
  return prof, ended[#ended][2]
end

--- Profiles a child that runs fn(...).
-- @param opts of perf.profiler
-- @return the Profile, and what fn returned
function outside.profile(opts, fn, ...)
  local child = assert(kit.start(fn, ...))
  opts.pid = child:pid()
  return outside.profile_children(opts, child)
end

return outside
