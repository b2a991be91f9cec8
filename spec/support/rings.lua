--- What specs of rings and records share: events that write a known number of records, and reading them.
local kit = require "testkit"
local perf = require "perf"

local rings = {}

local opened = {}
local jit = rawget(_G, "jit")
jit = jit and jit.status() and jit

--- LuaJIT's compiler allocates while it works, and an event that is on would count that too: off for such specs, with what
-- it has compiled, which LuaJIT 2.1.0-beta3 lets crash when an allocation fails.
function rings.compiler(on)
  if not jit then return end
  jit[on and "on" or "off"]()
  if not on then jit.flush() end
end

--- For specs of what LuaJIT compiles.
function rings.needs_compiler()
  requires { jit = true, ffi = true, nosan = true, nostress = true }
end

--- fn runs compiled: the compiler gives up on nothing in files of such a name. What runs beside it is no matter of this.
function rings.compiled(name, fn)
  jit.flush()
  local aborts, traces = {}, 0
  local function watch(what, _, func, pc, why)
    if what == "stop" then traces = traces + 1 end
    if what ~= "abort" then return end
    local reason, where = require "jit.vmdef".traceerr[why], require "jit.util".funcinfo(func, pc).loc
    -- To leave an inner loop while recording it is the compiler's everyday life; what it cannot compile is not.
    if reason ~= "leaving loop in root trace" and (where:find(name, 1, true) or where:find("each", 1, true)) then
      aborts[#aborts + 1] = reason .. " at " .. where
    end
  end
  jit.attach(watch, "trace")
  fn()
  jit.attach(watch)
  if aborts[1] then error(table.concat(aborts, "; "), 2) end
  if traces == 0 then error("nothing was compiled", 2) end
end

--- Closes with the others at the end of the spec.
function rings.keep(object)
  opened[#opened + 1] = object
  return object
end

--- For after_each.
function rings.close_all()
  for i = #opened, 1, -1 do
    opened[i]:close()
    opened[i] = nil
  end
end

--- An event with a ring; map = false leaves it without one, a table has map's options.
function rings.open(attr, opts, map)
  local ev = rings.keep(assert(perf.open(attr, opts)))
  if map ~= false then assert(ev:map(map)) end
  return ev
end

--- An event that writes one record for each page fault of this thread in user space: 16 bytes with the address.
function rings.faults(more, map, opts)
  local attr = { event = "page-faults:u", sample_period = 1, sample_type = { "addr" } }
  for k, v in pairs(more or {}) do attr[k] = v end
  return rings.open(attr, opts, map)
end

--- n page faults while the event is on.
function rings.touch(ev, n)
  assert(ev:enable())
  kit.touch_pages(n)
  assert(ev:disable())
end

--- Reads all records: {type = how many}.
function rings.count(ev, opts)
  local n = {}
  for rec in ev:records(opts) do n[rec.type] = (n[rec.type] or 0) + 1 end
  return n
end

--- Every record that fn makes while the event is on.
function rings.records_of(ev, fn, ...)
  assert(ev:enable())
  fn(...)
  assert(ev:disable())
  local list = {}
  for rec in ev:records() do list[#list + 1] = rec end
  return list
end

--- fn must raise something that has this text in it.
function rings.raises(text, fn, ...)
  local ok, err = pcall(fn, ...)
  if ok then error("did not raise: " .. text, 2) end
  if not tostring(err):find(text, 1, true) then error(("raised '%s' and not '%s'"):format(tostring(err), text), 2) end
end

return rings
