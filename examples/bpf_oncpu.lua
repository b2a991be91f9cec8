--- Samples the tasks on the CPUs by a BPF program: this process reads the result only at the end.
--
--     lua examples/bpf_oncpu.lua [SECONDS [HZ]]
--
-- Needs root, clang, libbpf's headers (apt-get install clang libbpf-dev), and perf.bpf built.
local perf = require "perf"

local seconds, hz = tonumber(arg[1] or 2), tonumber(arg[2] or 199)

local here = arg[0]:match "^(.*/)" or "./"
local object = os.tmpname()
local machine = io.popen("uname -m"):read "*l"
local compiled = os.execute(("clang -O2 -g -target bpf -I/usr/include/%s-linux-gnu -c %sbpf_oncpu.c -o %s")
  :format(machine, here, object))
if compiled ~= true and compiled ~= 0 then os.exit(1) end

local obj, message = perf.bpf.load(object)
os.remove(object)
if not obj then
  io.stderr:write(message, "\n")
  os.exit(1)
end

local set = assert(perf.set({ event = "cpu-clock", sample_freq = hz }, { bpf = obj:program("tick").fd }))
assert(set:enable())
os.execute("sleep " .. seconds)
set:close()

local rows, total = {}, 0
for key, per_cpu in obj:map("samples"):pairs() do
  -- struct task: u32 pid, char comm[16]
  local a, b, c, d = key:byte(1, 4)
  local row = { pid = a + b * 256 + c * 65536 + d * 16777216, comm = key:sub(5):match "^%Z*", n = 0, cpus = {} }
  for cpu, n in ipairs(per_cpu) do
    row.n = row.n + n
    if n > 0 then row.cpus[#row.cpus + 1] = cpu - 1 end
  end
  total = total + row.n
  rows[#rows + 1] = row
end
obj:close()

table.sort(rows, function(x, y) return x.n > y.n end)
print(("%8s  %-16s %7s  %s"):format("pid", "command", "share", "CPUs"))
for i = 1, math.min(#rows, 20) do
  local r = rows[i]
  print(("%8d  %-16s %6.1f%%  %s"):format(r.pid, r.pid == 0 and "(idle)" or r.comm, r.n / total * 100,
    table.concat(r.cpus, " ")))
end
