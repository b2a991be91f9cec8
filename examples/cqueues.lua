--- Records in another event loop: cqueues. The starts and ends of the processes that this one starts, shown as they happen,
-- beside other work.
--
--     apt-get install lua-cqueues
--
-- cqueues waits for any object with pollfd, events and timeout. A set that follows children has an event on each CPU: one such
-- object for each, and one reader that returns the records of all in time order. The kernel reports a wake-up once: one from
-- before the loop got the descriptor is lost, so the wait has a timeout.
local perf = require "perf"
local cqueues = require "cqueues"

local function check(value, message, ...)
  if value then return value, message, ... end
  io.stderr:write("cqueues: ", tostring(message), "\n")
  os.exit(1)
end

-- The dummy event counts nothing: it only writes the records of processes. These are not samples, so a watermark in bytes wakes
-- the reader.
local set = check(perf.set({ event = "dummy:u", task = true, comm = true, comm_exec = true, inherit = true,
  sample_type = { "tid", "time" }, sample_id_all = true, watermark = true, wakeup_watermark = 1 },
  { pid = 0, deferred_enable = true }))
check(set:map { pages = 8 })
check(set:enable())

local waiting = {}
for i, ev in ipairs(set) do
  waiting[i] = { pollfd = ev:fd(), events = "r", timeout = 0.05 }
end

local programs, ended, ticks, done = 0, 0, 0, false
local tell = {
  fork = function(rec) print(("  %d started %d"):format(rec.ppid, rec.pid)) end,
  comm = function(rec)
    if not rec.exec then return end
    programs = programs + 1
    print(("  %d runs %s"):format(rec.pid, rec.comm))
  end,
  exit = function(rec)
    ended = ended + 1
    print(("  %d ended"):format(rec.pid))
  end,
}

local loop = cqueues.new()

loop:wrap(function() -- the reader sleeps until a ring has records
  while not done do
    cqueues.poll((table.unpack or unpack)(waiting, 1, #waiting))
    for rec in set:records() do
      if tell[rec.type] then tell[rec.type](rec) end
    end
  end
end)

loop:wrap(function() -- other work, meanwhile
  while not done do
    cqueues.sleep(0.05)
    ticks = ticks + 1
  end
end)

loop:wrap(function() -- all objects that can be listed
  for i = 1, 4 do
    print("command " .. i)
    os.execute "exec ls / >/dev/null"
    cqueues.sleep(0.2)
  end
  done = true
end)

check(loop:loop())
set:close()
print(("\n%d programs were run, %d processes ended; %d ticks meanwhile."):format(programs, ended, ticks))
