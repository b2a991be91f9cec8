-- A profile of nginx from outside: all workers by the master's process id, over reloads. Each handler makes a known number of
-- system calls, which are counted to the unit.
local profiling = require "spec.support.profiling"
local server = require "spec.nginx.server"

describe("a profile of nginx from outside", function()
  local profile = server.profiled_outside()

  it("has the handlers of all workers, also of those that a reload starts", function()
    local s = server.start { server = [[
      location /three { content_by_lua_block { for _ = 1, 3 do require "ffi".C.getppid() end ngx.say "x" } }
      location /one { content_by_lua_block { require "ffi".C.getppid() ngx.say "x" } }]],
      init_worker = [=[require "ffi".cdef "int getppid(void);"]=] }
    local requests = 0
    local function ask(n)
      for _ = 1, n do
        assert.equal("x\n", (s:get "/three"))
        assert.equal("x\n", (s:get "/one"))
      end
      requests = requests + n
    end
    local p = profile(s)
    ask(50)
    s:reload()
    ask(50)
    s:reload()
    ask(50)
    local prof = assert(p:stop())
    local text, a = profiling.text(prof), prof.accounting
    local by_line, lines = {}, {} -- a handler's chunk has the name of its line in nginx.conf
    for _, sample in ipairs(prof:samples()) do
      local line
      for _, f in ipairs(sample.stack) do
        line = line or tonumber((f.file or ""):match "^content_by_lua%(nginx%.conf:(%d+)%)")
      end
      if line and not by_line[line] then lines[#lines + 1] = line end
      if line then by_line[line] = (by_line[line] or 0) + sample.weight end
    end
    table.sort(lines)
    assert.equal(2, #lines, text)
    local three, one = by_line[lines[1]], by_line[lines[2]]
    assert.equal(a.samples, a.resolved + a.labelled + a.dropped, text)
    assert.equal(4 * requests, tonumber(prof.total), text)
    -- The first request of a new worker tells of it, and a busy machine lets the profiler look for its Lua later. Without the
    -- workers of one reload, a third would be missing.
    assert.is_true(three + one >= 0.8 * prof.total, text)
    assert.is_true(three / one > 2.7 and three / one < 3.3, text)
  end)
end)
