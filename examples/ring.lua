--- An event's ring: one record for each page that is touched, with its address; the losses if it is not read; and a ring that
-- keeps the latest records instead.
local perf = require "perf"

local function check(value, message, ...) -- a refusal by the machine is returned as nil and a message
  if value then return value, message, ... end
  io.stderr:write("ring: ", message, "\n")
  os.exit(1)
end

local kept = {}
local function work(n) -- fresh memory, whose pages do not exist before they are touched
  for _ = 1, n do kept[#kept + 1] = ("%d"):format(#kept):rep(1e5) end
end

local function open(more)
  local attr = { event = "page-faults:u", sample_period = 1, sample_type = { "ip", "tid", "time", "addr" },
    read_format = { "lost" } }
  for k, v in pairs(more or {}) do attr[k] = v end
  local ev, message, code = perf.open(attr)
  if not ev and code == "EINVAL" then -- a kernel before 6.0 has no such read_format
    attr.read_format = nil
    ev, message = perf.open(attr)
  end
  return check(ev, message)
end

-- A ring of 128 pages, which has room for all. A Record's fields are decoded when they are used.
local ev = open()
check(ev:map { pages = 128 })
check(ev:enable())
work(10)
check(ev:disable())

local n, low, high = 0, nil, nil
for rec in ev:records() do
  n = n + 1
  if n <= 3 then print(rec) end
  if not low or rec.addr < low then low = rec.addr end
  if not high or rec.addr > high then high = rec.addr end
end
print(("... %d records of %d faults, between %s and %s; %s lost"):format(n, ev:read().value, perf.hex(low), perf.hex(high),
  tostring(ev:lost())))
ev:close()

-- A small ring that is not read meanwhile: records that do not fit are lost, and counted.
ev = open()
check(ev:map { pages = 1 })
ev:enable()
work(30)
ev:disable()
n = 0
for rec in ev:records() do
  if rec.type == "sample" then n = n + 1 end
end
print(("\nOne page: the first %d records of %d faults, %s lost"):format(n, ev:read().value, tostring(ev:lost())))
ev:close()

-- A ring that is written backwards is never full: the newest records replace the oldest. Writing pauses while a snapshot is read,
-- newest first.
ev = open { write_backward = true }
check(ev:map { pages = 1 })
ev:enable()
work(30)
check(ev:pause_output())
local last
n = 0
for rec in ev:records() do
  n, last = n + 1, last or rec
end
check(ev:resume_output())
ev:disable()
print(("\nWritten backwards: the latest %d of %d; the very last:\n%s"):format(n, ev:read().value, tostring(last)))
ev:close()
