-- The story: when a Span or a Tracer lacked a field, the stack was examined to see whether the program or the library had read
-- it. The library read five such fields for each child, and a dozen for each span that it sent. So a child took twice the time of
-- a span without a parent.
local perf = require "perf"

local function nothing() end

-- The number of times that fn looks at the stack.
local function looks(fn)
  local getinfo, n = debug.getinfo, 0
  debug.getinfo = function(...) -- luacheck: ignore
    n = n + 1
    return getinfo(...)
  end
  local ok, err = pcall(fn)
  debug.getinfo = getinfo -- luacheck: ignore
  assert(ok, err)
  return n
end

describe("a span", function()
  local sent
  local function exporter(list) sent = #list end

  for name, options in pairs { ["that counts"] = { events = "task-clock" }, ["without events"] = { events = false },
    ["that is not sampled"] = { events = "task-clock", sampler = "always_off" } } do
    it(name .. " does not look at the stack for the fields that it lacks", function()
      requires { perf_open = "user" }
      sent, options.service, options.exporter = nil, "test", exporter
      local tracer = assert(perf.tracer(options))
      local function use()
        tracer:span("outer", function()
          tracer:span("inner", nothing)
          local child = tracer:start("child", { attributes = { key = "value" } })
          child:add_event("event"):inject {}
          child:finish()
        end)
        tracer:flush()
      end
      use()
      assert.equal(0, looks(use))
      tracer:close()
      assert.equal(options.sampler == nil and 3 or nil, sent)
    end)
  end
end)
