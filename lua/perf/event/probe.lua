-- Finds out what the kernel supports, by opening disabled events that count nothing (PERF_COUNT_SW_DUMMY) in user space of
-- this thread, which needs the least permission. It never compares versions.
--
-- perf_event_open checks in this order, on which the answers below rely: the size of the attr (E2BIG) and its unknown bits
-- (EINVAL), then permissions (EACCES, EPERM), then the PMU (EOPNOTSUPP). So if permission or a PMU is missing, the kernel
-- knows the bit.
local copy = require "perf.base.copy"
local core = require "perf.core"
local pairs_of = require "perf.base.pairs"

local M = {}

-- The system call; specs replace it.
M.open = core.open

-- Open and close an event.
-- @return true; or false, its errno's symbol, message
function M.attempt(attr, pid, cpu, leader, flags)
  local ev, message, code = M.open(attr, pid or 0, cpu or -1, leader, flags or 0)
  if not ev then return false, code, message end
  ev:close()
  return true
end

-- The attr of the dummy event, with additional fields.
function M.dummy(fields)
  return copy({ type = "software", config = 9, exclude_kernel = true, exclude_hv = true, disabled = true }, fields)
end

local in_kernel

-- The activity that a software event counts, if it happens only in the kernel: "context switches"; otherwise nil.
function M.in_kernel(config)
  if not in_kernel then
    local known = {}
    for _, row in ipairs(core.defs().software) do known[row.value] = row.in_kernel end
    in_kernel = known -- assigned last, since the loop may run out of memory
  end
  return in_kernel[config or -1]
end

-- Whether this thread may open any event at all.
-- @return true; or false, code, message
function M.can_open()
  return M.attempt(M.dummy())
end

-- Other fields that a field or a bit needs to pass the kernel's first checks.
local companions = {
  sample_type = {
    branch_stack = { branch_sample_type = { "any", "user" } },
    regs_user = { sample_regs_user = 1 },
    regs_intr = { sample_regs_intr = 1 },
    stack_user = { sample_stack_user = 8 },
  },
  attr = {
    sigtrap = { remove_on_exec = true },
    inherit_thread = { inherit = true },
    -- Only events with AUX can have these. A kernel that knows them refuses them for others with EOPNOTSUPP.
    aux_output = {}, aux_start_paused = {},
    aux_pause = { aux_output = true }, aux_resume = { aux_output = true }, aux_sample_size = { aux_output = true },
    defer_callchain = { sample_type = { "callchain" } },
    sample_max_stack = { sample_type = { "callchain" } },
    sample_regs_user = { sample_type = { "regs_user" } },
    sample_regs_intr = { sample_type = { "regs_intr" } },
    sample_stack_user = { sample_type = { "stack_user" }, sample_stack_user = 8 },
    branch_sample_type = { sample_type = { "branch_stack" }, branch_sample_type = { "any", "user" } },
    clockid = { clockid = "monotonic" }, use_clockid = { clockid = "monotonic" },
    sample_type = { sample_type = { "ip" } }, read_format = { read_format = { "id" } },
    type = { type = "software" }, config = { config = 9 },
  },
}

-- Fields of kinds of events that this probe does not open.
local elsewhere = { bp_type = true, bp_addr = true, bp_len = true, kprobe_func = true, kprobe_addr = true,
  uprobe_path = true, probe_offset = true }

local refused = { EACCES = true, EPERM = true }

-- The result of an attempt as true, false or a reason.
local function verdict(ok, code)
  if ok or refused[code] then return true end
  if code == "EOPNOTSUPP" then return "needs a PMU" end
  if code == "ENOSYS" then return "not on this CPU" end
  return false
end

local function with(fields, more, base) return M.attempt(M.dummy(copy(fields, base, more))) end

-- Whether the kernel knows a field of perf_event_attr.
-- @return true, false, "needs a PMU", or nil for a field that only another kind of event has
function M.field(name, kind)
  if elsewhere[name] then return nil end
  return verdict(with({ [name] = kind == "bit" and true or 1 }, companions.attr[name]))
end

-- Whether the kernel knows a name of sample_type, read_format, branch_sample_type or clockid, or a bit, given as its mask.
-- @param field the field
-- @param name the name or the mask
-- @param[opt] base fields of the event to try with, instead of the dummy
-- @return true, false, or "needs a PMU"
function M.name(field, name, base)
  local value = type(name) == "string" and { name } or name
  if field == "clockid" then value = name end
  local more = companions[field] and companions[field][name] or {}
  if field == "branch_sample_type" then
    more = { sample_type = { "branch_stack" } }
    if type(name) == "string" then value = { name, "any", "user" } end -- a privilege level alone is not a branch
  end
  return verdict(with({ [field] = value }, more, base))
end

-- Whether the CPU's own PMU counts here.
-- @return true, false, or nil if that is unknown (no permission)
function M.cpu_pmu()
  for _, config in ipairs { 0, 1 } do -- cycles, instructions
    local ok, code = M.attempt { type = "hardware", config = config, exclude_kernel = true, exclude_hv = true,
      disabled = true }
    if ok or code == "EBUSY" then return true end
    if refused[code] or code == "EMFILE" or code == "ENFILE" or code == "ENOSYS" then return nil end
  end
  return false
end

local kept = { type = true, config = true, config1 = true, config2 = true, config3 = true, config4 = true, disabled = true,
  bp_type = true, bp_addr = true, bp_len = true }
local expensive = { tracepoint = true, kprobe = true, uprobe = true } -- the kernel patches its code to open and close them

-- The field of an attr that the kernel refuses: without it, the event can be opened.
-- @param attr the attr that was refused
-- @param kind the name of its type
-- @param ctx {pid=, cpu=, group=, cgroup=}
-- @return the field's name and, of a list of names, the name; or nil if no single field is the cause
function M.refused_field(attr, kind, ctx)
  if expensive[kind] or ctx.cgroup then return nil end
  local function opens(change)
    local a = copy(attr)
    change(a)
    a.disabled, a.enable_on_exec = true, nil
    return M.attempt(a, ctx.pid, ctx.cpu, ctx.group)
  end
  if opens(function() end) then return nil end -- the cause is not in the attr
  local fields = {}
  for k in pairs_of(attr) do
    if not kept[k] then fields[#fields + 1] = k end
  end
  table.sort(fields)
  for _, field in ipairs(fields) do
    if opens(function(a) a[field] = nil end) then
      local list = attr[field]
      for i = 1, type(list) == "table" and #list or 0 do
        local function drop(a)
          a[field] = {}
          for j, name in ipairs(list) do
            if j ~= i then table.insert(a[field], name) end
          end
        end
        if opens(drop) then return field, list[i] end
      end
      return field
    end
  end
end

return M
