--- The options of perf.start, checked.
-- @module resty.perf.options
local every = require "perf.every"
local events = require "resty.perf.events"
local json = require "perf.json"
local routes = require "resty.perf.routes"
local sampler = require "resty.perf.sampler"
local slow = require "resty.perf.slow"
local spans = require "resty.perf.spans"

local M = {}

local known = { events = true, sample = true, routes = true, slow = true, spans = true, dict = true }

M.sampler = sampler.new

-- Raise what a module says of an option's value.
local function checked(level, f, ...)
  local ok, a, b, c = pcall(f, ...)
  if not ok then error("bad argument #1 to 'start' (" .. tostring(a) .. ")", level + 1) end
  return a, b, c
end

local function text_of(v)
  local ok, text = pcall(json.encode, v)
  return ok and text or "-"
end

--- Check them.
-- @param opts what the user gave
-- @param level whom an error is for
-- @return {events=, find=, admit=, decide=, header=, blind=, every=, is_slow=, spans=, reports=, dict=, dict_name=,
-- mark=}: reports says whether a request's end is more than a sum, mark tells one configuration from another
function M.check(opts, level)
  for k in every(opts) do
    if not known[k] then error("bad argument #1 to 'start' (unknown option '" .. tostring(k) .. "')", level) end
  end
  local name = opts.dict or "perf"
  local dict = ngx.shared[name]
  if not dict then
    error(("bad argument #1 to 'start' (dict: nginx.conf has no `lua_shared_dict %s 10m;`)"):format(tostring(name)), level)
  end
  checked(level, events.check, opts.events)
  local c = { events = opts.events, dict = dict, dict_name = name }
  c.find, c.admit = checked(level, routes.new, opts.routes)
  c.decide, c.header, c.blind = checked(level, sampler.new, opts.sample)
  c.every = type(opts.sample) == "table" and (opts.sample.every or 1) or opts.sample or 1
  if opts.slow ~= nil then c.is_slow = checked(level, slow.new, opts.slow) end
  if opts.spans ~= nil then
    checked(level, spans.check, opts.spans)
    c.spans = opts.spans
  end
  c.reports = c.is_slow ~= nil or c.spans ~= nil
  c.mark = ngx.crc32_short(text_of(opts.events) .. text_of(opts.sample))
  return c
end

return M
