--- The accounting of resty.perf, open with two events for one test of a spec.
local assert = require "luassert"
local clock = require "perf.base.clock"
local names = require "perf.names"
local open_list = require "perf.measure.open_list"

local M = {}

local accounting

--- For before_each.
-- @func[opt] prepare is called before
-- @param[opt] host the host's functions
-- @return ffi, the module
function M.open(prepare, host)
  requires { lua = "luajit", perf_open = true, nostress = true }
  accounting = require "resty.perf.accounting" -- first: resty.perf in a made-up nginx uses the same one
  if prepare then prepare() end
  local events = { assert(names.resolve "page-faults:u"), assert(names.resolve "task-clock") }
  assert(accounting.open(assert(open_list.open(events)), host))
  assert.equal(0, accounting.route())
  accounting.set_slow(0) -- so `finish` tells requests that are not counted from unknown ones
  return require "ffi", accounting
end

--- Keeps the CPU busy for some nanoseconds.
function M.spin(ns)
  local to = clock.now() + ns
  while clock.now() < to do end
end

--- A request of the first route, with one turn in its content phase, which keeps the CPU busy for some nanoseconds.
function M.turn(ns)
  local r = require "ffi".cast("void *", 4096)
  assert.equal(0, accounting.admit(r, 0, 0, 0))
  assert.equal(1, accounting.enter(r, accounting.number.content))
  M.spin(ns)
  accounting.exit(r, 0)
  assert.equal(0, accounting.finish(r))
end

--- For after_each.
function M.close()
  if accounting then accounting.close() end
  accounting = nil
end

return M
