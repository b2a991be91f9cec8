--- Records a whole command into a perf.data file, which `perf report` reads too, and shows where its samples fell.
--
--     lua examples/record.lua                       a command of its own
--     lua examples/record.lua perf.data make -B     another, into a file that stays
local perf = require "perf"

local path, command = arg[1], { (table.unpack or unpack)(arg, 2) }
local temporary = not path
if temporary then
  path = os.tmpname()
  command = { "sh", "-c", "cat /usr/bin/* 2>/dev/null | head -c 1000000 | gzip -9 | sha256sum >/dev/null" }
end

local function check(value, message)
  if value then return value end
  io.stderr:write("record: ", message, "\n")
  if temporary then os.remove(path) end
  os.exit(1)
end

-- cycles if the machine counts them, else the CPU clock; every process that the command starts is recorded too.
local result = check(perf.record(command, { freq = 999, output = path }))
print(("%s samples of %s, %s lost, %.0f KB; it ended with status %d\n"):format(tostring(result.samples), command[1],
  tostring(result.lost), result.bytes / 1e3, result.status))

local file = check(perf.data.open(path))
print(("%s on %s, Linux %s; events:"):format(file.features.arch, file.features.cpudesc or "an unknown CPU",
  file.features.osrelease))
for _, event in ipairs(file.attrs) do print("  " .. event.name) end

-- Records of different CPUs are not in time order, so a sample may come before the record of its file: read those records first,
-- then the samples.
local maps, comms = {}, {}
for rec in file:records() do
  if rec.type == "mmap2" and rec.cpu_mode == "user" then
    maps[rec.pid] = maps[rec.pid] or {}
    table.insert(maps[rec.pid], rec)
  elseif rec.type == "comm" then
    comms[rec.pid] = rec.comm
  end
end
local damage = file:error()
check(not damage, damage)
file:close()

local function place(pid, ip)
  local name
  for _, map in ipairs(maps[pid] or {}) do -- the last one that has it: the end of a program is the start of another
    if ip >= map.addr and ip < map.addr + map.len then name = map.filename end
  end
  return name or "?"
end

local by_place, all = {}, 0
file = check(perf.data.open(path))
for rec in file:records() do
  if rec.type == "sample" then
    local key = ("%-12s %s"):format(comms[rec.pid] or "?", rec.cpu_mode == "kernel" and "the kernel" or place(rec.pid, rec.ip))
    by_place[key] = (by_place[key] or 0) + 1
    all = all + 1
  end
end
file:close()
if temporary then os.remove(path) end

local rows = {}
for key, n in pairs(by_place) do rows[#rows + 1] = { key = key, n = n } end
table.sort(rows, function(a, b)
  if a.n ~= b.n then return a.n > b.n end
  return a.key < b.key
end)
print "\n share  program      where"
for i = 1, math.min(#rows, 12) do print(("%5.1f %%  %s"):format(rows[i].n / all * 100, rows[i].key)) end
