--- The accounting of resty.perf, open with two events for one test of a spec.
local assert = require "luassert"
local names = require "perf.names"
local open_list = require "perf.measure.open_list"

local M = {}

local accounting

--- For before_each.
-- @func[opt] prepare is called before
-- @return ffi, the module
function M.open(prepare)
  requires { lua = "luajit", perf_open = true, nostress = true }
  accounting = require "resty.perf.accounting" -- first: resty.perf in a made-up nginx uses the same one
  if prepare then prepare() end
  assert(accounting.open(assert(open_list.open { assert(names.resolve "page-faults:u"), assert(names.resolve "task-clock") })))
  assert.equal(0, accounting.route())
  return require "ffi", accounting
end

--- For after_each.
function M.close()
  if accounting then accounting.close() end
  accounting = nil
end

return M
