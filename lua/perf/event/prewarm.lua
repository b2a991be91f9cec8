-- One event of each kind stays open.
--
-- When the first event of some kinds is opened, the kernel patches its own code, and it patches it back when the last one is
-- closed: that takes 10 to 90 us for page faults or context switches, 20 to 40 ms for a tracepoint. So when such an event is
-- opened, another of the same kind, which counts nothing, is opened too and kept. The next one then needs no patching.
--
-- Only `keep` keeps tracepoints of system calls: while one is open, each system call of each process takes about 50 ns more.
--
-- At most 32 descriptors are kept in a Lua state. An exec closes them. PERF_KEEP=0 keeps none.
local core = require "perf.core"
local pairs_of = require "perf.base.pairs"
local reclaim = require "perf.base.reclaim"

local M = {}

local MOST = 32

local kept, count = {}, 0 -- kind -> Event, or false if it was refused
local off = os.getenv "PERF_KEEP" == "0"

-- The configs of software events for which the kernel patches its code: all but the clocks, the dummy and BPF's output.
local patched = { [2] = true, [3] = true, [4] = true, [5] = true, [6] = true, [7] = true, [8] = true, [11] = true }

-- The kind of an event, or nil if it need not be kept. Type 2 is a tracepoint, whose label is its name.
local function kind_of(attr, label)
  if attr.type == 1 or attr.type == "software" then return patched[attr.config] and attr.config end
  if (attr.type == 2 or attr.type == "tracepoint") and type(label) == "string" then
    local system = label:match "^([%w_-]+):"
    return system and system ~= "syscalls" and system ~= "raw_syscalls" and "t" .. tostring(attr.config)
  end
end

-- When a resource runs out, events that no caller requested are closed, and are not opened again.
reclaim.register(function(what)
  if what ~= "any" then return false end
  for kind, ev in pairs_of(kept) do
    if ev and not tostring(kind):find "^k" then
      ev:close()
      kept[kind] = false
      return true
    end
  end
  return false
end)

-- Record an event that was opened: from now on one of its kind is kept.
function M.note(attr, label)
  local kind = kind_of(attr, label)
  if not kind or kept[kind] ~= nil or count >= MOST or off then return end
  -- An event that excludes the kernel needs no more permission than the one that was opened.
  kept[kind] = core.open({ type = attr.type, config = attr.config, disabled = true, exclude_kernel = attr.exclude_kernel }, 0, -1)
    or false
  count = count + 1
end

-- perf.keep adds the events that it opens, which only `_release` closes. Their kinds begin with "k".
function M.has(kind) return kept[kind] ~= nil end

function M.add(kind, ev) kept[kind], count = ev, count + 1 end

-- Close all kept events.
function M._release()
  for _, ev in pairs_of(kept) do
    if ev then ev:close() end
  end
  kept, count = {}, 0
end

return M
