-- The story: on a machine without hardware counters an ordinary user's perf.open "cycles" said "Permission denied" and proposed
-- cycles:u and settings, none of which could help. The kernel checks the permission before it looks for the counter.
local as_nobody = require "spec.support.nobody"
local machine = require "spec.support.machine"
local perf = require "perf"
local probe = require "perf.event.probe"

describe("a hardware event that an ordinary user may not count", function()
  local here

  after_each(function()
    if here then here:close() end
    here = nil
  end)

  local function refused(answer)
    here = machine.new { paranoid = 2 }
    here:answer(answer)
    local text = {}
    for _, attr in ipairs { machine.cycles, { type = "hw_cache", config = 0 }, { type = "raw", config = 0x1a8 } } do
      local _, message, code = require "perf.event.refusal"("x", attr, "perf_event_open: Permission denied", "EACCES", {})
      text[#text + 1] = code .. " " .. (message:match "%((.-)[;)]" or message)
    end
    return table.concat(text, "\n")
  end

  local function is_software(attr) return attr.type == "software" or attr.type == 1 end

  it("is one that the machine lacks, if it has no counters", function()
    local reason = refused(function(attr)
      if is_software(attr) then return nil end
      return attr.exclude_kernel and "ENOENT" or "EACCES"
    end)
    local _, lines = reason:gsub("ENOENT this [%a ]*machine has no hardware counters", "")
    assert.equal(3, lines, reason)
  end)

  it("needs the permission, if the machine has it", function()
    local reason = refused(function(attr)
      return not (is_software(attr) or attr.exclude_kernel) and "EACCES" or nil
    end)
    local _, lines = reason:gsub("EACCES kernel.perf_event_paranoid is 2", "")
    assert.equal(3, lines, reason)
  end)

  it("has the reason of the same event in user space, everywhere", function()
    requires { root = true, perf_open = "user", nostress = true, cmd = "flock" }
    local wanted = probe.cpu_pmu() and "EACCES EACCES EACCES EACCES" or "ENOENT ENOENT ENOENT ENOENT"
    local found = as_nobody(2, function()
      local codes = {}
      codes[1] = select(3, perf.open "cycles")
      codes[2] = tostring(select(2, pcall(perf.measure, "cycles", function() end))):match "%[(%u+)%]$"
      codes[3] = select(3, perf.profiler { event = "cycles:uk" })
      codes[4] = select(3, perf.record({ "true" }, { events = "cycles:uk", output = "/dev/null" }))
      for i = 1, 4 do codes[i] = tostring(codes[i]) end
      return table.concat(codes, " ")
    end)
    assert.equal(wanted, found)
  end)
end)
