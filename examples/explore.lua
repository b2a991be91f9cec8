--- Shows the events that can be counted here, and the reasons for the others. All of this can also be typed at a prompt:
--
--     > perf = require "perf"
--     > print(perf.doctor())
local perf = require "perf"

print(perf.doctor())

print "\nEvents with 'switch' in their names:\n"
print(perf.list "switch")

local kinds, names = {}, {}
for _, event in ipairs(perf.list()) do
  if not kinds[event.kind] then names[#names + 1] = event.kind end
  kinds[event.kind] = (kinds[event.kind] or 0) + 1
end
table.sort(names)
print "\nHow many of which kind:"
for _, kind in ipairs(names) do print(("  %-12s %6d"):format(kind, kinds[kind])) end

print "\nA mistake raises, and says what was meant:"
print("  " .. select(2, pcall(perf.open, "page-falts")))

print "\nWhat the machine refuses comes back with the reason:"
local event, message, code = perf.open "cycles"
if event then
  print "  cycles can be counted here"
  event:close()
else
  print(("  %s\n  code: %s"):format(message, code))
end
