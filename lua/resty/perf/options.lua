-- The options of perf.start, checked.
local every = require "perf.base.pairs"
local events = require "resty.perf.worker_events"
local json = require "perf.base.json"
local mistake = require "resty.perf.mistake"
local routes = require "resty.perf.routes"
local sampler = require "resty.perf.sampling"
local slow = require "resty.perf.slow"
local spans = require "resty.perf.spans"

local M = {}

local checked = mistake.checked

local known = { events = true, sample = true, routes = true, slow = true, spans = true, dict = true }

M.sampler = sampler.new

local function text_of(v)
  local ok, text = pcall(json.encode, v)
  return ok and text or "-"
end

-- Check the options of perf.start.
-- @param opts
-- @param level of the caller, as for error
-- @return {events=, find=, admit=, decide=, header=, blind=, every=, is_slow=, spans=, reports=, dict=, dict_name=,
-- mark=}: reports says whether the end of a request is reported, mark identifies the configuration
function M.check(opts, level)
  for k in every(opts) do
    if not known[k] then error("bad argument #1 to 'start' (unknown option '" .. tostring(k) .. "')", level) end
  end
  local name = opts.dict or "perf"
  local dict = ngx.shared[name]
  if not dict then
    error(("bad argument #1 to 'start' (dict: nginx.conf has no `lua_shared_dict %s 10m;`)"):format(tostring(name)), level)
  end
  local labels = checked(level, "start", events.check, opts.events)
  local c = { events = opts.events, dict = dict, dict_name = name }
  c.find, c.admit = checked(level, "start", routes.new, opts.routes)
  c.decide, c.header, c.blind = checked(level, "start", sampler.new, opts.sample)
  c.every = type(opts.sample) == "table" and (opts.sample.every or 1) or opts.sample or 1
  if opts.slow ~= nil then c.is_slow = checked(level, "start", slow.new, opts.slow, labels) end
  if opts.spans ~= nil then
    checked(level, "start", spans.check, opts.spans)
    c.spans = opts.spans
  end
  c.reports = c.is_slow ~= nil or c.spans ~= nil
  c.mark = ngx.crc32_short(text_of(opts.events) .. text_of(opts.sample))
  return c
end

local changeable = { events = "string", sample = "number" }

-- Check options that are changed while nginx runs.
-- @param opts {events=, sample=}
-- @param level of the caller, as for error
function M.change(opts, level)
  for k, v in every(opts) do
    local want = changeable[k]
    if not want then error("bad argument #1 to 'start' ('" .. tostring(k) .. "' cannot be changed while nginx runs)", level) end
    if type(v) ~= want then error(("bad argument #1 to 'start' (%s: %s expected, got %s)"):format(k, want, type(v)), level) end
  end
  checked(level, "start", events.check, opts.events)
  checked(level, "start", sampler.new, opts.sample)
end

return M
