-- The story: a child that ended before its mappings were read got those of any process with the same Lua states. Two workers of
-- one server have the same states, and may have loaded different libraries at the same addresses. So the C functions of one
-- worker's child could get names from the other worker. Twice: the parent is found in C, by the pid that the BPF program gives.
local kit = require "testkit"
local outside = require "spec.support.outside"
local perf = require "perf"
local profiling = require "spec.support.profiling"

it("a child that has ended has the C functions of its parent, not those of its parent's sibling", function()
  local event = "syscalls:sys_enter_getppid"
  outside.requires { tracepoint = event }
  local sibling = assert(kit.start(function() end))
  local parent = assert(kit.start(function()
    for _ = 1, 2000 do kit.region "guarded" end -- many mappings: reading a child's takes longer than the child runs
    for _ = 1, 40 do kit.fork(function() kit.syscalls(5) end) end
  end))
  local p = assert(perf.profiler { pid = { sibling:pid(), parent:pid() }, event = event })
  local sampler, of_sibling, result, found = p.sampler, sibling:pid(), nil, 0
  function sampler:result()
    result = getmetatable(sampler).result(self)
    return result
  end
  assert(p:start())
  parent:go()
  assert.equal(0, (parent:wait()))
  sibling:go()
  sibling:wait()
  local prof = assert(p:stop())
  p:close()
  assert.equal(200, tonumber(prof.total), profiling.text(prof))
  for _, f in ipairs(result.frames) do
    if f.image then
      assert.not_equal(of_sibling, result.images[f.image].pid)
      found = found + 1
    end
  end
  assert.is_true(found > 0)
end)
