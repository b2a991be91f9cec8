-- The feature tracing_data of a perf.data file: the formats of tracepoints. Without it, perf does not read a file that has such
-- events. Version 0.6 of the format:
--
--     "\23\8\68tracing" "0.6\0", u8 big endian, u8 size of long, u32 size of a page
--     "header_page\0" u64 size, text    "header_event\0" u64 size, text
--     u32 n, {u64 size, text} x n                            the formats of events/ftrace
--     u32 n, {system "\0", u32 n, {u64 size, text} x n} x n  those of the other systems
--     u32 size, text (kallsyms: none)   u32 size, text (printk_formats)   u64 size, text (saved_cmdlines)
local core = require "perf.core"
local host = require "perf.kernel.host"
local keys_of = require "perf.base.keys"
local memo = require "perf.base.memo"

local recorder_tracing = {}

local function sized(width, text)
  return core.bytes(width, #text) .. text
end

local function formats(list)
  local out = {core.bytes("4", #list)}
  for _, path in ipairs(list) do out[#out + 1] = sized(8, host.read_file(path) or "") end
  return table.concat(out)
end

-- The feature for these tracepoints.
-- @param names array of "system:name"
-- @return string; or nil, message, code if tracefs cannot be read
function recorder_tracing.data(names)
  local dir = host.tracefs()
  if not dir then return nil, "the formats of tracepoints cannot be read: tracefs is not mounted, or not readable", "ENOENT" end
  local systems = memo(function() return {} end)
  for _, name in ipairs(names) do
    local system, event = name:match("^([^:]+):([^:]+)")
    if system then table.insert(systems[system], ("%s/events/%s/%s/format"):format(dir, system, event)) end
  end
  local order, ftrace = keys_of(systems), {}
  for _, name in ipairs(host.list(dir .. "/events/ftrace") or {}) do
    local path = ("%s/events/ftrace/%s/format"):format(dir, name)
    if host.readable(path) then ftrace[#ftrace + 1] = path end
  end
  local big = core.bytes("2", 1):byte(1) == 0
  local out = {"\23\8\68tracing0.6\0", string.char(big and 1 or 0),
    string.char(select(2, core.uname()):find("64") and 8 or 4), core.bytes("4", core.page_size()),
    "header_page\0", sized(8, host.read_file(dir .. "/events/header_page") or ""),
    "header_event\0", sized(8, host.read_file(dir .. "/events/header_event") or ""), formats(ftrace),
    core.bytes("4", #order)}
  for _, system in ipairs(order) do
    out[#out + 1] = system .. "\0"
    out[#out + 1] = formats(systems[system])
  end
  out[#out + 1] = sized(4, "")
  out[#out + 1] = sized(4, host.read_file(dir .. "/printk_formats") or "")
  out[#out + 1] = sized(8, host.read_file(dir .. "/saved_cmdlines") or "")
  return table.concat(out)
end

return recorder_tracing
