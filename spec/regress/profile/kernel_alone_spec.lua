-- The story: at kernel.perf_event_paranoid 2 an ordinary user's profile of page-faults:k had no sample, and the label
-- page-faults:ku: the kernel was left out of an event that counts nothing else. perf.open refuses such an event.
local kit = require "testkit"
local perf = require "perf"
local as_nobody = require "spec.support.nobody"

local function try(event)
  local prof, message, code = perf.profile({ event = event, period = 1 }, kit.touch_pages, 8)
  return prof and prof.event or code .. " " .. message
end

describe("an ordinary user's profile", function()
  before_each(function() requires { root = true, perf_open = true, nostress = true, cmd = "flock" } end)

  it("of an event that asks for the kernel is refused, with advice", function()
    for _, event in ipairs { "page-faults:k", "page-faults:uk" } do
      local text = as_nobody(2, try, event)
      assert.equal(1, text:find("EACCES " .. event .. ": perf_event_open: Permission denied (kernel.perf_event_paranoid is 2; "
        .. "count user space only with page-faults:u, or run: ", 1, true), text)
    end
  end)

  it("of another event counts user space, and its name says so", function()
    assert.equal("page-faults:u", as_nobody(2, try, "page-faults"))
    assert.equal("page-faults:u", as_nobody(2, try, "page-faults:u"))
  end)
end)
