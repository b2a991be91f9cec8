-- Parses the terms between an event's slashes; has the terms that every PMU accepts.
--
--     cpu/event=0x3c,umask=1,edge,name='slow loads',period=1000/

local core = require "perf.core"
local u64 = require "perf.base.u64"

local terms = {}

-- Split a list of terms.
-- @string body the text between the slashes
-- @int at the index of its first character in the whole text
-- @func fail fail(at, format, ...) raises
-- @return array of {key=, value=string or nil, at=index of the key, value_at=}
function terms.parse(body, at, fail)
  local out, i = {}, 1
  if body:find("^%s*$") then return out end
  while true do
    local from = body:match("^%s*()", i)
    local key, stop = body:match("^([^,=%s'\"]*)%s*()", from)
    if key == "" then fail(at + from - 1, "a term expected") end
    local bad = key:find("[^%w_%.%-%*%?:@]")
    if bad then fail(at + from + bad - 2, "character '%s' in a term's name", key:sub(bad, bad)) end
    local term = {key = key, at = at + from - 1}
    if body:sub(stop, stop) == "=" then
      stop = body:match("^%s*()", stop + 1)
      term.value_at = at + stop - 1
      local quoted, after = body:match("^'([^']*)'%s*()", stop)
      if not quoted then quoted, after = body:match("^([^,']*)()", stop) end
      if not quoted or quoted == "" then fail(at + stop - 1, "a value expected for '%s'", key) end
      term.value, stop = quoted:match "^.*%S" or "", after
    end
    out[#out + 1] = term
    if stop > #body then return out end
    if body:sub(stop, stop) ~= "," then fail(at + stop - 1, "',' expected after '%s'", key) end
    i = stop + 1
  end
end

-- The number of a term; without a value it is 1.
-- @param[opt] most the largest valid number
function terms.number(term, fail, most)
  if not term.value then return 1 end
  local v, why = u64.parse(term.value)
  if not v then fail(term.value_at, "the value '%s' of '%s' %s", term.value, term.key, why) end
  if most and not (core.shr(v, 32) == 0 and v <= most) then
    fail(term.value_at, "the value %s of '%s' is over %d", term.value, term.key, most)
  end
  return v
end

local function text(term, fail)
  if not term.value then fail(term.at, "'%s' needs a value", term.key) end
  return term.value
end

local function add(out, field, name)
  out[field] = out[field] or {}
  out[field][#out[field] + 1] = name
end

-- Spellings of branch_sample_type that differ from the kernel's.
local BRANCH = {u = "user", k = "kernel", any_ret = "any_return", ind_jmp = "ind_jump", stack = "call_stack",
  save_type = "type_save", priv = "priv_save", counter = "counters"}

local function branch_type(out, term, fail)
  local known = {}
  for _, row in ipairs(core.defs().branch) do known[row.name] = true end
  for name in text(term, fail):gmatch("[^|+]+") do
    if name ~= "no" then
      name = BRANCH[name] or name
      if not known[name] then fail(term.value_at, "unknown branch type '%s'", name) end
      add(out, "branch_sample_type", name)
    end
  end
end

local function call_graph(out, term, fail)
  local how = text(term, fail)
  if how == "fp" then
    add(out, "sample_type", "callchain")
  elseif how == "lbr" then
    add(out, "sample_type", "callchain")
    for _, name in ipairs{"user", "call_stack", "no_flags", "no_cycles"} do add(out, "branch_sample_type", name) end
  elseif how == "dwarf" then
    fail(term.value_at, "call-graph=dwarf needs a choice of registers: give sample_type, sample_regs_user and " ..
      "sample_stack_user in a table")
  elseif how ~= "no" then
    fail(term.value_at, "unknown call-graph '%s'; there are fp, lbr, no", how)
  end
end

local function aux_action(out, term, fail)
  local field = ({pause = "aux_pause", resume = "aux_resume", ["start-paused"] = "aux_start_paused"})[text(term, fail)]
  if not field then fail(term.value_at, "unknown aux-action '%s'; there are pause, resume, start-paused", term.value) end
  out[field] = true
end

local function setter(field, most)
  return function(out, term, fail) out[field] = terms.number(term, fail, most) end
end

-- A flag, or its opposite: inherit, no-inherit, inherit=0.
local function flag(field, on)
  return function(out, term, fail) out[field] = (terms.number(term, fail, 1) == 1) == on end
end

local function perf_option(_, term, fail)
  fail(term.at, "'%s' is an option of the perf command, not of an event", term.key)
end

-- term -> function(out, term, fail) that sets attr fields in out (and out.label).
terms.common = {
  config = setter "config", config1 = setter "config1", config2 = setter "config2", config3 = setter "config3",
  config4 = setter "config4",
  name = function(out, term, fail) out.label = text(term, fail) end,
  period = setter "sample_period",
  freq = setter "sample_freq",
  time = function(out, term, fail) if terms.number(term, fail, 1) == 1 then add(out, "sample_type", "time") end end,
  branch_type = branch_type,
  ["call-graph"] = call_graph,
  ["stack-size"] = setter("sample_stack_user", 0xffffffff),
  ["max-stack"] = setter("sample_max_stack", 0xffff),
  inherit = flag("inherit", true), ["no-inherit"] = flag("inherit", false),
  overwrite = flag("write_backward", true), ["no-overwrite"] = flag("write_backward", false),
  ["aux-output"] = flag("aux_output", true),
  ["aux-sample-size"] = setter("aux_sample_size", 0xffffffff),
  ["aux-action"] = aux_action,
  nr = perf_option, percore = perf_option, ["metric-id"] = perf_option, cpu = perf_option,
  ["ratio-to-prev"] = perf_option,
}

return terms
