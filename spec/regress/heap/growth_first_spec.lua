-- The story: the module's own class had retained 376 KB, until compiled code held the same memory too. That fall was the first
-- row of a difference, before the leak of 300 KB.
local perf = require "perf"

it("a difference of heaps begins with what grew most, also if something else fell by more", function()
  requires { heap = true }
  perf.heap():close() -- it loads modules
  local kept = { falls = {}, grows = {} }
  _G.heap_kept = kept
  for i = 1, 6000 do kept.falls[i] = { i } end
  local before = assert(perf.heap())
  finally(function()
    before:close()
    _G.heap_kept = nil
  end)
  kept.falls = nil
  collectgarbage() -- else these tables are still in the heap, and the garbage is what grew most
  for i = 1, 3000 do kept.grows[i] = { i } end
  local after = assert(perf.heap())
  local difference = after:diff(before, 1000)
  after:close()
  -- Other paths of this process change too: what an earlier spec had kept may be collected, or be held by two paths now.
  local paths, at = difference.paths, {}
  for i, row in ipairs(paths) do at[row.path] = i end
  local grows, falls = at["_G.heap_kept.grows"], at["_G.heap_kept.falls"]
  assert.is_true(grows and falls and grows < falls, tostring(difference))
  assert.is_true(-paths[falls].bytes > paths[grows].bytes and paths[grows].bytes > 0)
  for i = 2, #paths do assert.is_true(paths[i - 1].bytes >= paths[i].bytes) end
  for i = 2, #difference.types do assert.is_true(difference.types[i - 1].bytes >= difference.types[i].bytes) end
end)
