-- The routes of resty.perf in a profile of nginx from outside: samples have them as zones. Each request makes a known number of
-- system calls, which are counted to the unit. /left is not counted by resty.perf.
local profiling = require "spec.support.profiling"
local server = require "spec.nginx.server"

local LOCATIONS = [[
  location /three { content_by_lua_block { for _ = 1, 3 do require "ffi".C.getppid() end ngx.say "x" } }
  location /users { content_by_lua_block { perf.route("user " .. ngx.var.arg_n) require "ffi".C.getppid() ngx.say "x" } }
  location /sleeps { content_by_lua_block {
    require "ffi".C.getppid() ngx.sleep(0.01) require "ffi".C.getppid() ngx.say "x" } }
  location /left { content_by_lua_block { require "ffi".C.getppid() ngx.say "x" } }]]

describe("a profile of nginx from outside, with resty.perf", function()
  local profile = server.profiled_outside()

  it("has the route of each sample as its zone, in all workers and over a reload", function()
    local s = server.start { install = "{auto = true}", server = LOCATIONS, init_worker = [=[
      require "ffi".cdef "int getppid(void);"
      assert(perf.start {events = "task-clock", sample = {every = 1, routes = {["/left"] = 1000000}}})]=] }
    local p = profile(s)
    local function ask(n)
      for i = 1, n do
        assert.equal("x\n", (s:get "/three"))
        assert.equal("x\n", (s:get("/users?n=" .. i % 2)))
        assert.equal("x\n", (s:get "/sleeps"))
        assert.equal("x\n", (s:get "/left"))
      end
    end
    ask(20)
    s:reload()
    ask(20)
    local prof = assert(p:stop())
    local text, calls, most = profiling.text(prof), {}, { ["/three"] = 120, ["user 0"] = 20, ["user 1"] = 20, ["/sleeps"] = 80 }
    for _, sample in ipairs(prof:samples()) do
      if sample.zone then calls[sample.zone] = (calls[sample.zone] or 0) + sample.weight end
    end
    for route, n in pairs(calls) do
      assert.is_truthy(most[route], route)
      assert.is_true(n <= most[route] and n >= 0.6 * most[route], route .. ": " .. n .. "\n" .. text)
      most[route] = nil
    end
    assert.is_nil(next(most), text)
    -- Files have the routes too, and one of them can be selected.
    for line in prof:zone("/three"):folded():gmatch "[^\n]+" do assert.equal("/three;", line:sub(1, 7)) end
    assert.matches("\nuser 1;[^\n]+ %d+\n", "\n" .. prof:folded())
    assert.equal(calls["/three"], prof:zone("/three").total)
  end)
end)
