--- Profiles of other processes: of children that wait until the profiler has started.
local assert = require "luassert"
local copy = require "perf.base.copy"
local kit = require "testkit"
local perf = require "perf"

local outside = {}

--- Checks the needs of the machine, and further ones, as `requires` does.
function outside.requires(more)
  requires(copy({ ext = { "bpf", "outside" }, bpf = true, perf_open = true, registers = true }, more))
end

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
