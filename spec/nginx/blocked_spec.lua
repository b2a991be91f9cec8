-- A turn that blocks its worker is caught while it runs, with its line, whether it computes or sleeps in a system call.
local server = require "spec.nginx.server"
local util = require "spec.support.util"

describe("resty.perf, while a turn blocks the worker,", function()
  local s

  before_each(function()
    requires(server.needs)
    if s then return end
    s = server.start { app = "spec.nginx.blocked_app", init_worker = "app.start{events='task-clock,page-faults:u', blocked=0.02}",
      server = [[
        location ~ ^/block/(.*)$ { content_by_lua_block { perf.content(app.block, ngx.var[1]) } }
        location = /found { content_by_lua_block { app.found() } } ]] }
  end)
  teardown(function() if s then s:stop() end end)

  -- Sends the request, and returns the properties of the blocked turn that was found: {[name] = text}.
  local function blocked(way)
    assert.equal(200, select(2, s:get("/block/" .. way .. "?token=secret")))
    local found
    s:wait(function()
      found = {}
      for line in s:get("/found?route=/block/" .. way):gmatch "[^\n]+" do
        local key, value = line:match "^(%S+) (.*)$"
        if key then found[key] = value end
      end
      return found.lines
    end)
    return found
  end

  local function line_of(text) return util.line_of("spec/nginx/blocked_app.lua", text) end

  it("finds the line of a loop", function()
    local f = blocked "spin"
    assert.equal("content", f.phase)
    assert.truthy(f.lines:find(line_of "the loop's line", 1, true), f.lines)
    assert.truthy(f.lines:find(line_of "the caller's line", 1, true), f.lines)
    assert.equal("nil", f.call)
    assert.truthy(tonumber(f.wall) >= 50 and tonumber(f.cpu) <= tonumber(f.wall) + 1)
    assert.truthy(tonumber(f.seen) >= 20)
    assert.equal("/block/spin?...", f.uri)
  end)

  it("names a system call that sleeps, and does not interrupt it", function()
    for way, text in pairs { nap = "the nap's line", execute = "the program's line", popen = "the pipe's line" } do
      local f = blocked(way)
      assert.truthy(f.lines:find(line_of(text), 1, true), way .. ": " .. f.lines)
      assert.truthy(tonumber(f.wall) >= 50, way .. ": " .. f.wall)
      assert.truthy(tonumber(f.cpu) < tonumber(f.wall) / 2, way .. ": " .. f.cpu)
      assert.truthy(f.call:find "sleep" or f.call:find "wait" or f.call:find "read" or f.call:find "fork", f.call)
    end
    assert.equal("whole\n", (s:get "/block/nap"))
  end)

  it("counts the page faults", function()
    local f = blocked "touch"
    assert.truthy(tonumber(f.faults) >= 20 * 100, f.faults)
  end)

  it("writes a line about a turn that goes on and on before it ends", function()
    blocked "long"
    local at = line_of "the loop's line"
    local goes_on = s:log():match "#%d+: blocked: a turn of /block/long, content, has run for [%d.]+s and goes on, at ([^\n]*)\n"
    assert.truthy(goes_on and goes_on:find(at, 1, true), s:log())
    assert.is_nil(s:log():find("secret", 1, true))
  end)

  it("does not report a turn within the limit", function()
    s:get "/block/quick"
    s:get "/found"
    assert.equal("", (s:get "/found?route=/block/quick"))
  end)

  it("writes a line in the error log and metrics for each turn", function()
    blocked "spin"
    local line = "blocked: a turn of /block/spin, content, /block/spin%?..., took [%d.]+ms: task%-clock"
    s:wait(function() return s:log():find(line) end)
    assert.matches('\nlua_perf_blocked_turns_total{route="/block/spin"} [1-9]', (s:get "/metrics"))
  end)
end)
