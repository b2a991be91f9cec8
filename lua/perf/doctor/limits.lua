-- Checks limits: descriptors, memory for rings, sampling, callchains, the kernel's symbols.
local core = require "perf.core"
local explain = require "perf.event.refusal"
local host = require "perf.kernel.host"

local RING_PAGES = 128

local function count(n) return n == math.huge and "no limit" or ("%.0f"):format(n) end

local function descriptors(add)
  local soft, hard = core.rlimit "nofile"
  -- A set of ten events on every CPU, and as much again for the rest of the program.
  local enough = math.max(256, 20 * #(host.cpus "online" or { 0 }))
  local fix = hard > soft and "ulimit -n " .. (hard == math.huge and "unlimited" or count(hard))
    or "LimitNOFILE=65536  # in a systemd unit; or in /etc/security/limits.conf"
  add("descriptors", soft >= enough, ("%s, at most %s: one for each event on each CPU"):format(count(soft), count(hard)),
    fix)
end

local function rings(add)
  local a = explain.ring_allowance()
  if a.unlimited then
    return add("memory for rings", true, "no limit for this program (CAP_IPC_LOCK or perf_event_paranoid=-1)")
  end
  local size = (RING_PAGES + 1) * core.page_size() / 1024
  -- Rings beyond the user's allowance count as locked memory of the process.
  local n = a.memlock_kb == math.huge and math.huge or math.floor((a.user_kb + a.memlock_kb) / size)
  local memlock = a.memlock_kb == math.huge and "unlimited" or ("%.0f KiB"):format(a.memlock_kb)
  add("memory for rings", n >= a.cpus, ("perf_event_mlock_kb %d for each of %d CPUs, shared by all of the user's programs, "
    .. "and RLIMIT_MEMLOCK %s: %s rings of %d pages"):format(a.per_cpu_kb, a.cpus, memlock, count(n), RING_PAGES),
    { ("sysctl -w kernel.perf_event_mlock_kb=%d"):format(math.max(a.per_cpu_kb * 2, size)), "ulimit -l unlimited" })
end

local function rate(add)
  local max = host.sysctl "kernel.perf_event_max_sample_rate"
  local percent = host.sysctl "kernel.perf_cpu_time_max_percent"
  if not max then return add("sampling", nil, "kernel.perf_event_max_sample_rate cannot be read") end
  local text = ("at most %.0f samples a second"):format(max)
  if percent == 0 or percent == 100 then
    text = text .. ", never lowered (perf_cpu_time_max_percent)"
  elseif percent then
    text = text .. (", lowered where taking them needs over %d %% of a CPU"):format(percent)
  end
  add("sampling", max >= 4000, text, { "sysctl -w kernel.perf_event_max_sample_rate=100000",
    "sysctl -w kernel.perf_cpu_time_max_percent=50  # or the kernel lowers it again" })
end

local function stack(add)
  local frames = host.max_stack()
  if not frames then return add("callchains", nil, "kernel.perf_event_max_stack cannot be read") end
  add("callchains", frames >= 127, ("at most %d frames"):format(frames), "sysctl -w kernel.perf_event_max_stack=127")
end

local function kernel_symbols(add)
  local first = host.line "/proc/kallsyms"
  if not first then return add("kernel symbols", nil, "this kernel has no /proc/kallsyms") end
  local restrict = host.sysctl "kernel.kptr_restrict" or 0
  if not first:match "^0+%s" then return add("kernel symbols", true, ("readable (kptr_restrict %d)"):format(restrict)) end
  local fix = {}
  if restrict > 0 then fix[1] = "sysctl -w kernel.kptr_restrict=0" end
  if (host.paranoid() or 2) > 1 and not host.privileged() then
    fix[#fix + 1] = host.paranoid_command(1, "-w ") .. "  # higher levels hide them too"
  end
  add("kernel symbols", false, ("their addresses are hidden (kptr_restrict %d), so kernel frames have no names")
    :format(restrict), fix)
end

return { descriptors, rings, rate, stack, kernel_symbols }
