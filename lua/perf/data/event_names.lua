-- Names for events that have none in a perf.data file, with perf's spelling.
local caches = require "perf.names.cache"
local core = require "perf.core"
local generic = require "perf.names.generic"

local data_names = {}

-- Names for which perf shows a shorter alias.
local shown = {["cpu-cycles"] = "cycles", ["branch-instructions"] = "branches"}

local function cache_name(config)
  local low = core.halves(config)
  local cache, op = caches.row("cache", low % 256), caches.row("op", math.floor(low / 256) % 256)
  local result = caches.row("result", math.floor(low / 65536) % 256)
  return cache and op and result and caches.name(cache, op, result)
end

local function modifiers(attr)
  local text = ""
  if attr.exclude_user or attr.exclude_kernel or attr.exclude_hv then
    if not attr.exclude_user then text = text .. "u" end
    if not attr.exclude_kernel then text = text .. "k" end
    if not attr.exclude_hv then text = text .. "h" end
    if text == "uk" then text = "" end -- most events are opened without the hypervisor, so that is not shown
  end
  return text .. ("p"):rep(attr.precise_ip or 0)
end

-- The name of an event by its attr.
-- @param attr table of perf_event_attr fields, from core.unpack
-- @return string
function data_names.of(attr)
  local config, name = attr.config or 0, nil
  local low, high = core.halves(config)
  if attr.type == "hardware" then
    -- on a hybrid CPU, the upper half of config is the PMU
    name = generic.named(core.defs().hardware, low)
    name = shown[name] or name
  elseif attr.type == "software" then
    name = high == 0 and generic.named(core.defs().software, low)
  elseif attr.type == "hw_cache" then
    name = cache_name(config)
  elseif attr.type == "tracepoint" then
    name = "tracepoint:" .. low
  elseif attr.type == "breakpoint" then
    name = "mem:" .. core.hex(attr.bp_addr or 0)
  elseif attr.type == "raw" then
    name = "r" .. core.hex(config):sub(3)
  end
  name = name or ("type=%s,config=%s"):format(tostring(attr.type), core.hex(config))
  local suffix = modifiers(attr)
  return suffix == "" and name or name .. ":" .. suffix
end

return data_names
