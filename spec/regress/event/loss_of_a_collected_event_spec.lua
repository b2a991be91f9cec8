-- The story: a finalizer that asked an Event for its loss after the Event's own finalizer had run got a function that read the
-- Event's freed memory. LuaJIT ended by SIGSEGV.
local kit = require "testkit"
local perf = require "perf"

local function overflowed()
  local ev = assert(perf.open { event = "page-faults:u", sample_period = 1, sample_type = { "ip" }, disabled = true })
  assert(ev:map { pages = 1 })
  ev:enable()
  kit.touch_pages(2000)
  ev:disable()
  return ev
end

-- An object whose finalizer runs after those of objects that get theirs later, if these are collected with it.
local function finalized(f)
  if newproxy then -- luacheck: ignore 113
    local object = newproxy(true) -- luacheck: ignore 113
    getmetatable(object).__gc = f
    return object
  end
  return setmetatable({}, { __gc = f })
end

describe("the loss of a ring", function()
  it("can be asked for in a finalizer, and later", function()
    requires { perf_open = "user" }
    local loss, open
    local function make()
      local box = {}
      box.last = finalized(function()
        open = box.ev:is_open()
        loss = box.ev:ring_loss()
      end)
      box.ev = overflowed()
    end
    make()
    for _ = 1, 5 do collectgarbage() end
    local filled = {} -- memory that was freed is used again
    for i = 1, 1000 do filled[i] = ("x"):rep(i) end
    assert.equal(1000, #filled)
    assert.is_false(open)
    local lost, at_least = loss()
    assert.is_true(lost >= 1000 or at_least)
  end)
end)
