-- `:checkhealth perf`: whether the module is found, how stacks are taken, and which events can be profiled here.
local M = {}

local health = vim.health or require "health"
local start, ok = health.start or health.report_start, health.ok or health.report_ok
local warn, fail = health.warn or health.report_warn, health.error or health.report_error

local events = { "task-clock", "page-faults", "context-switches", "alloc", "heap", "cycles", "instructions", "cache-misses" }

local function check_stacks(perf)
  start "perf: stacks"
  local good, prof, why = pcall(perf.profile, function() return (("x"):rep(1000)) end)
  if not good then return fail(tostring(prof)) end
  if not prof then return fail(tostring(why)) end
  if prof.method == "registers" then return ok "from registers: samples have the line that ran" end
  warn("at safe points of the interpreter, so that the line of a sample may be a later one: " .. tostring(prof.method_reason))
end

local function check_events(perf)
  start "perf: events of :Perf start"
  for _, event in ipairs(events) do
    local good, profiler, why = pcall(perf.profiler, { event = event })
    if good and profiler then
      profiler:close()
      ok(event)
    else
      warn(good and why or tostring(profiler))
    end
  end
end

function M.check()
  start "perf: the module"
  local perf, why = require "perf.nvim".module()
  if not perf then return fail(why) end
  local path = vim.fn.fnamemodify(debug.getinfo(perf.profile, "S").source:sub(2), ":p")
  ok(tostring(perf) .. ", " .. path:gsub("/profile/init%.lua$", ""))
  check_stacks(perf)
  check_events(perf)
end

return M
