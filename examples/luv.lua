--- An event's records in another event loop: libuv's, through luv. The pages that a child touches are shown while it runs, beside
-- a timer.
--
--     apt-get install lua-luv
--
-- The descriptor becomes readable when the kernel wakes its readers, which the attr controls: wakeup_events = 1, or a watermark.
-- Then read until nothing is left; "EPIPE" means that the process has ended, and no more records will come. A wake-up is reported
-- once: one from before the loop got the descriptor is lost. So check the ring now and then as well, as the timer does here.
local perf = require "perf"
local uv = require "luv"

local function check(value, message, ...)
  if value then return value, message, ... end
  io.stderr:write("luv: ", tostring(message), "\n")
  os.exit(1)
end

-- The child waits for a line, so that the event is open before its work.
local work = [[
  io.read()
  local kept = {}
  for i = 1, 8 do
    kept[i] = ("x"):rep(4e5 + i)
    local later = os.clock() + 0.04
    repeat until os.clock() > later
  end
]]
local start = uv.new_pipe(false)
local status
local child, pid
child, pid = check(uv.spawn(check(uv.exepath()), { args = { "-e", work }, stdio = { start, 1, 2 } }, function(code)
  status = code
  child:close()
end))

local ev = check(perf.open({ event = "page-faults:u", sample_period = 1, sample_type = { "ip", "tid", "time", "addr" },
  wakeup_events = 1 }, { pid = pid }))
check(ev:map { pages = 64 })
check(ev:enable())

local records, pages, first, fresh = 0, {}, nil, 0

local timer, poll = uv.new_timer(), check(uv.new_poll(ev:fd()))

local function read()
  while true do
    local rec, message, code = ev:read_record(0)
    if rec then
      if rec.type == "sample" then
        records, fresh, first = records + 1, fresh + 1, first or rec
        pages[perf.hex(rec.addr):gsub("%x%x%x$", "")] = true -- pages of 4 KiB
      end
    elseif code == "ETIMEDOUT" then
      return -- all is read
    elseif code == "EPIPE" then
      timer:close()
      poll:close()
      return
    else
      check(nil, message)
    end
  end
end

poll:start("r", function(err)
  check(not err, err)
  read()
end)

local began = uv.now()
timer:start(100, 100, function()
  print(("%4d ms: %4d faults more"):format(uv.now() - began, fresh))
  fresh = 0
  read()
end)

start:write("go\n", function() start:close() end)
uv.run()

local distinct = 0
for _ in pairs(pages) do distinct = distinct + 1 end
print(("\nThe child ended with status %d. %d faults counted, %d read (%s lost), on %d pages; the first:\n%s"):format(status,
  ev:read().value, records, tostring(ev:lost()), distinct, tostring(first)))
ev:close()
