--- Simulated machines: trees of files like those of sysfs and tracefs, in a temporary directory.
local kit = require "testkit"

local trees = {}

--- Writes files into a new directory.
-- @tparam {path=text,...} files
-- @treturn string the directory; trees.remove removes it
function trees.make(files)
  local root = os.tmpname()
  os.remove(root)
  local made = {}
  for path, text in pairs(files) do
    path = root .. "/" .. path
    local dir = path:match "^(.*)/"
    if not made[dir] then
      assert(kit.make_directory(dir))
      made[dir] = true
    end
    local f = assert(io.open(path, "w"))
    f:write(text, "\n")
    f:close()
  end
  return root
end

function trees.remove(root)
  assert(kit.remove_directory(root))
end

local function add(files, name, kind, facts)
  files[name .. "/type"] = tostring(kind)
  for path, text in pairs(facts or {}) do files[name .. "/" .. path] = tostring(text) end
end

local function kernels_own()
  local files = {}
  add(files, "software", 1)
  add(files, "tracepoint", 2)
  add(files, "breakpoint", 5)
  add(files, "kprobe", 6, {["format/retprobe"] = "config:0"})
  add(files, "uprobe", 7, {["format/retprobe"] = "config:0", ["format/ref_ctr_offset"] = "config:32-63"})
  return files
end

local INTEL = {
  ["format/event"] = "config:0-7", ["format/umask"] = "config:8-15,40-47", ["format/edge"] = "config:18",
  ["format/inv"] = "config:23", ["format/cmask"] = "config:24-31", ["format/offcore_rsp"] = "config1:0-63",
  ["format/ldat"] = "config1:0-15", ["format/frontend"] = "config1:0-23", ["format/acr_mask"] = "config2:0-63",
  ["format/wide3"] = "config3:0-63", ["format/split"] = "config2:0-3,32-35",
  ["events/cpu-cycles"] = "event=0x3c", ["events/mem-loads"] = "event=0xcd,umask=0x1,ldat=3",
  ["events/mem-stores"] = "event=0xd0,umask=0x82", ["events/slots"] = "event=0x00,umask=0x4",
  ["events/read"] = "event=0x77", ["events/param"] = "event=0x10,umask=?",
  ["events/topdown-total-slots.scale"] = "2", ["events/topdown-total-slots"] = "event=0x3c,umask=0x0",
  ["caps/max_precise"] = "3", ["caps/branches"] = "32", ["caps/pmu_name"] = "skylake",
}

local function with(base, more)
  local out = {}
  for key, value in pairs(base) do out[key] = value end
  for key, value in pairs(more) do out[key] = value end
  return out
end

--- A server with one core type, uncore boxes and energy counters.
function trees.server()
  local files = kernels_own()
  add(files, "cpu", 4, INTEL)
  for box = 0, 11 do
    add(files, "uncore_imc_" .. box, 20 + box, {
      cpumask = "0,28", ["format/event"] = "config:0-7", ["format/umask"] = "config:8-15",
      ["events/cas_count_read"] = "event=0x04,umask=0x03", ["events/cas_count_read.scale"] = "6.103515625e-5",
      ["events/cas_count_read.unit"] = "MiB", ["events/clockticks"] = "event=0xff",
    })
  end
  add(files, "uncore_imc_free_running_0", 40, {cpumask = "0", ["format/event"] = "config:0-7"})
  add(files, "uncore_pcu", 41, {cpumask = "0", ["format/event"] = "config:0-7"})
  add(files, "power", 42, {
    cpumask = "0", ["format/event"] = "config:0-7", ["events/energy-pkg"] = "event=0x02",
    ["events/energy-pkg.scale"] = "2.3283064365386962890625e-10", ["events/energy-pkg.unit"] = "Joules",
    ["events/energy-pkg.per-pkg"] = "1", ["events/energy-pkg.snapshot"] = "1",
  })
  add(files, "msr", 43, {["format/event"] = "config:0-63", ["events/tsc"] = "event=0x00"})
  add(files, "intel_pt", 44, {
    ["format/tsc"] = "config:10", ["format/noretcomp"] = "config:11", ["format/pt"] = "config:0",
    ["format/psb_period"] = "config:24-27", nr_addr_filters = "2", ["caps/mtc"] = "1",
  })
  add(files, "broken", 45, {["format/junk"] = "conf:zz", ["format/over"] = "config:60-70", ["events/bad"] = "nosuch=1"})
  return trees.make(files)
end

--- A hybrid CPU.
function trees.hybrid()
  local files = kernels_own()
  add(files, "cpu_core", 4, with(INTEL, {cpus = "0-15"}))
  add(files, "cpu_atom", 10, with(INTEL, {cpus = "16-23", ["caps/max_precise"] = "2",
    ["events/mem-loads"] = "event=0xd0,umask=0x5"}))
  return trees.make(files)
end

local ARM = {
  ["format/event"] = "config:0-15", ["format/long"] = "config1:0", ["format/rdpmc"] = "config1:1",
  ["events/cpu_cycles"] = "event=0x0011", ["events/inst_retired"] = "event=0x0008",
  ["events/l1d_cache_refill"] = "event=0x0003", ["caps/slots"] = "0x00000000",
}

--- An Arm CPU with one core type.
function trees.arm()
  local files = kernels_own()
  add(files, "armv8_pmuv3_0", 8, with(ARM, {cpus = "0-3"}))
  add(files, "arm_cmn_0", 9, {cpumask = "0", ["format/eventid"] = "config:16-31", ["format/type"] = "config:0-15"})
  return trees.make(files)
end

--- An Arm CPU with two core types.
function trees.big_little()
  local files = kernels_own()
  add(files, "armv8_cortex_a53", 8, with(ARM, {cpus = "0-3"}))
  add(files, "armv8_cortex_a72", 9, with(ARM, {cpus = "4-5"}))
  return trees.make(files)
end

--- A machine without hardware counters.
function trees.bare()
  return trees.make(kernels_own())
end

--- Tracefs.
function trees.tracefs()
  return trees.make{
    ["events/header_page"] = "", ["events/sched/enable"] = "0", ["events/sched/sched_switch/id"] = "316",
    ["events/sched/sched_wakeup/id"] = "317", ["events/syscalls/sys_enter_read/id"] = "700",
    ["events/raw_syscalls/sys_enter/id"] = "21", ["events/irq-x/odd.name/id"] = "9",
    ["events/sched/noid/format"] = "name: noid",
  }
end

return trees
