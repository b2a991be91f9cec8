-- The event of a profile: its rate, its attr and its filter, and how it is opened.
local copy = require "perf.base.copy"
local core = require "perf.core"
local modifiers = require "perf.names.modifiers"
local open = require "perf.event.open"

local M = {}

local DEFAULT_FREQ = 999
local MOST_FREQ, LEAST_PERIOD = 20000, 50000 -- limits for clocks

local software, is_clock = open.software_config, open.is_clock

local function is_breakpoint(attr) return attr.type == 5 or attr.type == "breakpoint" end
M.is_breakpoint = is_breakpoint

-- Whether context switches are weighted by the time off the CPU, which they are without a period.
local function weighs_time_off(attr, opts) return software(attr) == 3 and not (opts.period or attr.sample_period) end

local numbers = { -- the system calls rt_sigreturn and process_vm_readv
  x86_64 = { 15, 310 }, aarch64 = { 139, 270 }, riscv64 = { 139, 270 } }

-- Whether the signal handler may make system calls. It may not if the profiled event counts them: each signal would cause another
-- one. For a tracepoint or a probe this is tested, more than once, since other activity may cause the event.
function M.may_ask(spec, attr, filter, method)
  if software(attr) or open.is_hardware(attr) or is_breakpoint(attr) then return true end
  local counting = copy(attr)
  for _, field in ipairs { "sample_period", "sample_freq", "freq", "sample_type", "sigtrap", "remove_on_exec", "sig_data" } do
    counting[field] = nil
  end
  local ev = open.attr({ label = spec.label }, counting, {})
  local counted = ev and (not filter or ev:set_filter(filter)) and 1 or nil
  for _ = 1, counted and 3 or 0 do
    if counted ~= 0 then counted = ev:measure(core.handler_call, method == "registers").value end
  end
  if ev then ev:close() end
  return counted == 0
end

-- Set the period or frequency: that of the options, else the event's own, else a default by its kind. For events other than
-- clocks and hardware counters the default is a sample of every occurrence.
-- @return the requested rate if a clock's limit changed it
function M.set_rate(attr, opts)
  if opts.period then
    attr.sample_period, attr.sample_freq, attr.freq = opts.period, nil, nil
  elseif opts.freq then
    attr.sample_freq, attr.sample_period = opts.freq, nil
  elseif not (attr.sample_period or attr.sample_freq) then
    if is_clock(attr) or open.is_hardware(attr) then attr.sample_freq = DEFAULT_FREQ else attr.sample_period = 1 end
  end
  if not is_clock(attr) then return end
  -- With less time between two signals their handler would leave none to the program, which would never end.
  local requested = math.floor(tonumber(attr.sample_freq or attr.sample_period))
  if attr.sample_freq then attr.sample_freq = math.min(requested, MOST_FREQ) end
  if attr.sample_period then attr.sample_period = math.max(requested, LEAST_PERIOD) end
  return requested ~= (attr.sample_freq or attr.sample_period) and requested or nil
end

-- A filter that excludes our own system calls: the return from the signal handler would be a sample and cause another signal, and
-- so would the call that the handler makes on LuaJIT if the stack is taken at a safe point.
function M.filter(label, opts, method)
  local number = label:find "^raw_syscalls:" and numbers[select(2, core.uname())]
  local own = number and ("id >= 0 && id != %d"):format(number[1])
  if own and rawget(_G, "jit") and method ~= "registers" then own = ("%s && id != %d"):format(own, number[2]) end
  if own and opts.filter then return ("(%s) && %s"):format(opts.filter, own) end
  return own or opts.filter
end

-- The attr of an event, the weight of its samples ("exact", "switches" or nil), and the result of set_rate.
function M.prepare(spec, opts)
  local attr = copy(spec.attrs[1])
  local requested = M.set_rate(attr, opts)
  attr.disabled, attr.read_format, attr.inherit = true, {}, nil
  attr.sigtrap, attr.remove_on_exec, attr.sig_data = true, true, core.profiler_number()
  attr.sample_type = opts.native and { "read", "callchain" } or { "read" }
  if opts.timeline then
    for _, what in ipairs { "time", "addr", "cpu" } do table.insert(attr.sample_type, what) end
    attr.use_clockid, attr.clockid = true, "monotonic"
  end
  if weighs_time_off(spec.attrs[1], opts) then
    attr.sample_type = { "tid", "time", "read", "cpu", opts.native and "callchain" or nil }
    attr.sample_period, attr.sample_freq, attr.freq = 1, nil, nil
    attr.context_switch, attr.sample_id_all = true, true
    return attr, "switches"
  end
  return attr, attr.sample_period == 1 and "exact" or nil, requested
end

-- Whether the event's name, or its attr, asks for the kernel.
local function names_kernel(label, attr)
  local letters = label:match "[:/](%a+)$"
  return attr.exclude_user or letters and not modifiers.check(letters) and letters:find "k" ~= nil
end

-- Open the event: without the kernel if that is not permitted and the event does not ask for it; with the descriptor's signal if
-- the kernel has no sigtrap.
function M.open(spec, attr, weighed)
  local label, by_descriptor = spec.label, false
  local why = open.no_count_reason(attr)
  if why then return nil, label .. ": " .. why, "EACCES" end
  -- arm64 reports a breakpoint before the instruction runs, and the kernel lets it run only if no signal comes first: after the
  -- handler the same breakpoint would be reported again, forever.
  if is_breakpoint(attr) and select(2, core.uname()) == "aarch64" then
    return nil, label .. ": arm64 cannot continue after a signal at a breakpoint; read the event's samples from its ring instead",
      "ENOTSUP"
  end
  local function try() return open.attr({ label = label, unit = spec.unit, scale = spec.scale }, attr, {}) end
  local ev, message, code = try()
  if not ev and code == "EACCES" and not attr.exclude_kernel and not names_kernel(label, attr) then
    attr.exclude_kernel = true
    local again = not open.no_count_reason(attr) and try()
    if again then
      ev = again
      if not is_clock(attr) then label = label .. (label:find ":%a+$" and "u" or ":u") end
    end
  end
  if not ev and (code == "EINVAL" or code == "E2BIG") and weighed ~= "switches" then
    attr.sigtrap, attr.remove_on_exec, attr.sig_data = nil, nil, nil
    ev = try()
    by_descriptor = ev ~= nil
  end
  if not ev then return nil, message, code end
  return ev, label, by_descriptor
end

-- The kind of an event for another process: "tracepoint", "probe", "switch" or nil.
function M.outside_kind(attr, opts)
  if attr.type == "tracepoint" or attr.type == 2 then return "tracepoint" end
  if attr.uprobe_path or attr.kprobe_func or attr.kprobe_addr then return "probe" end
  return weighs_time_off(attr, opts) and "switch" or nil
end

return M
