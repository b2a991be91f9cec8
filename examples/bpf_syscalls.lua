--- The number of each system call of each process, counted in the kernel by a BPF program.
--
--     lua examples/bpf_syscalls.lua [SECONDS [PID]]
--
-- Needs root, clang, libbpf's headers (apt-get install clang libbpf-dev), and perf.bpf built.
local perf = require "perf"

local seconds, pid = tonumber(arg[1] or 2), tonumber(arg[2] or 0)

local here = arg[0]:match "^(.*/)" or "./"
local object = os.tmpname()
local machine = io.popen("uname -m"):read "*l"
local compiled = os.execute(("clang -O2 -g -target bpf -I/usr/include/%s-linux-gnu -c %sbpf_syscalls.c -o %s")
  :format(machine, here, object))
if compiled ~= true and compiled ~= 0 then os.exit(1) end

local obj, message = perf.bpf.load(object, { globals = { target = pid } })
os.remove(object)
if not obj then
  io.stderr:write(message, "\n")
  os.exit(1)
end

-- On a tracepoint the program runs for the whole machine as long as the event is open, so one event on one CPU is enough.
local ev = assert(perf.open("raw_syscalls:sys_enter", { pid = -1, cpu = 0 }))
assert(ev:set_bpf(obj:program "count"))
assert(ev:enable())
os.execute("sleep " .. seconds)
ev:close()

local rows = {}
for key, count in obj:map("calls"):pairs() do
  -- struct key: u32 pid, u32 call, char comm[16]
  local function u32(at)
    local a, b, c, d = key:byte(at, at + 3)
    return a + b * 256 + c * 65536 + d * 16777216
  end
  rows[#rows + 1] = { pid = u32(1), call = u32(5), comm = key:sub(9):match "^%Z*", count = count }
end
obj:close()

table.sort(rows, function(a, b) return a.count > b.count end)
print(("%8s  %-16s %6s %10s"):format("pid", "command", "call", "count"))
for i = 1, math.min(#rows, 20) do
  local r = rows[i]
  print(("%8d  %-16s %6d %10d"):format(r.pid, r.comm, r.call, r.count))
end
