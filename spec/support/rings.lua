--- For specs of rings and records: events that write a known number of records, and functions that read them.
local compiled = require "spec.support.compiled"
local kit = require "testkit"
local perf = require "perf"

local rings = {}

local opened = {}
local jit = rawget(_G, "jit")
jit = jit and jit.status() and jit

--- Turns LuaJIT's compiler off or on. The compiler allocates memory, which an enabled event would count. off also discards
-- compiled code; LuaJIT 2.1.0-beta3 crashes in it when an allocation fails.
function rings.compiler(on)
  if not jit then return end
  jit[on and "on" or "off"]()
  if not on then jit.flush() end
end

--- For specs of compiled code: pending without LuaJIT's compiler.
function rings.needs_compiler()
  requires { jit = true, ffi = true, nosan = true, nostress = true }
end

--- Checks that fn runs compiled: no trace is aborted in files of that name.
function rings.compiled(name, fn)
  jit.flush()
  local aborts, traces = {}, 0
  local function watch(what, _, func, pc, why)
    if what == "stop" then traces = traces + 1 end
    if what ~= "abort" then return end
    local reason, where = require "jit.vmdef".traceerr[why], require "jit.util".funcinfo(func, pc).loc
    -- The compiler often leaves an inner loop while it records it. That is not a failure.
    if reason ~= "leaving loop in root trace" and (where:find(name, 1, true) or where:find("each", 1, true)) then
      aborts[#aborts + 1] = reason .. " at " .. where
    end
  end
  jit.attach(watch, "trace")
  compiled.by_default(fn) -- this resets the counters that earlier loops have left
  jit.attach(watch)
  if aborts[1] then error(table.concat(aborts, "; "), 2) end
  if traces == 0 then error("nothing was compiled", 2) end
end

--- Marks an object to be closed at the end of the spec.
function rings.keep(object)
  opened[#opened + 1] = object
  return object
end

--- Closes all objects of `keep`; for after_each.
function rings.close_all()
  for i = #opened, 1, -1 do
    opened[i]:close()
    opened[i] = nil
  end
end

--- An event with a ring. map = false leaves it without one; a table has options for map.
function rings.open(attr, opts, map)
  requires { perf_open = "user" }
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

--- Causes n page faults while the event is enabled.
function rings.touch(ev, n)
  assert(ev:enable())
  kit.touch_pages(n)
  assert(ev:disable())
end

--- Reads all records: {type = number of records}.
function rings.count(ev, opts)
  local n = {}
  for rec in ev:records(opts) do n[rec.type] = (n[rec.type] or 0) + 1 end
  return n
end

--- All records that fn causes while the event is enabled.
function rings.records_of(ev, fn, ...)
  assert(ev:enable())
  fn(...)
  assert(ev:disable())
  local list = {}
  for rec in ev:records() do list[#list + 1] = rec end
  return list
end

--- Checks that fn raises an error that contains this text.
function rings.raises(text, fn, ...)
  local ok, err = pcall(fn, ...)
  if ok then error("did not raise: " .. text, 2) end
  if not tostring(err):find(text, 1, true) then error(("raised '%s' and not '%s'"):format(tostring(err), text), 2) end
end

return rings
