-- Detects that lua_code_cache is off: each request then has a new Lua state, in which perf.start was never called. The worker's
-- first state leaves a mark in the shared dictionary, which the later states find.
local pairs_of = require "perf.base.pairs"

local M = {}

local looked

-- Leave the mark of this worker. It expires after the worker has ended.
function M.mark(dict) dict:safe_set("lua " .. ngx.worker.pid(), true, 60) end

-- Whether another state of this worker has called perf.start. Each state looks once, and one of them gets true.
function M.is_off()
  if looked then return false end
  looked = true
  local pid = ngx.worker.pid()
  for _, dict in pairs_of(ngx.shared) do
    if dict:get("lua " .. pid) then return dict:add("code cache " .. pid, true) end
  end
end

return M
