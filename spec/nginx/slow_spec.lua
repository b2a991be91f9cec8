-- A slow request is logged once, whether it was sampled or not.
local server = require "spec.nginx.server"

describe("slow requests", function()
  local s

  before_each(function() requires(server.needs) end)
  after_each(server.stop)

  -- Starts with these options, sends n slow requests (of a path) and n quick ones, and returns the lines about the slow ones. On
  -- a busy machine a quick one may be slow too.
  local function lines(opts, n, path)
    s = server.start { app = "spec.nginx.waits_app", init_worker = "app.start{events='task-clock', slow=0.1, " .. opts .. "}",
      server = [[
        location = /slow_server { content_by_lua_block { ngx.update_time() ngx.sleep(0.15) ngx.say "x" } }
        location = /proxied { access_by_lua_block { perf.access(function() end) }
          proxy_pass http://127.0.0.1:$server_port/slow_server; }
        location = /slow { content_by_lua_block { perf.content(function()
          ngx.update_time() ngx.sleep(0.15) ngx.say "x" end) } }
        location = /quick { content_by_lua_block { perf.content(function() ngx.say "x" end) } } ]] }
    for _ = 1, n do
      s:get(path or "/slow")
      s:get "/quick"
    end
    local found, about = {}, "slow request: [%d.]+ s, " .. (path or "/slow"):match "^[^?]*" .. ", [^\n]+"
    s:wait(function()
      found = {}
      for line in s:log():gmatch(about) do found[#found + 1] = line end
      return #found >= n
    end)
    return found
  end

  -- Checks that a line matches. If the worker waits for a CPU for long, a line names that wait instead: one of some must match.
  local function assert_one(found, matches)
    for _, line in ipairs(found) do
      if matches(line) then return end
    end
    error(table.concat(found, "\n"), 2)
  end

  -- The story: with sample = 100, none of 60 was logged.
  it("are logged even if they were not sampled", function()
    local found = lines("sample=100", 5)
    local without = 0
    for _, line in ipairs(found) do
      if line:find("/slow, GET /slow 200: not counted", 1, true) then without = without + 1 end
    end
    assert.truthy(without >= 4, table.concat(found, "\n"))
    s:wait(function() return s:get "/metrics":find "lua_perf_seen_requests_total 1%d" end)
  end)

  it("name the place where they waited", function()
    assert_one(lines("waits=true", 4), function(line)
      return line:find "waited [%d.]+m?s in sleep at content_by_lua%(nginx.conf:%d+%):2"
    end)
  end)

  -- The story: if the longest wait was the last one, the line named another one, or none.
  it("name nginx if they waited longest for an upstream server", function()
    assert_one(lines("waits=true", 4, "/proxied"), function(line)
      local time, unit = line:match "waited ([%d.]+)(m?s) in nginx"
      return time and tonumber(time) * (unit == "s" and 1000 or 1) >= 140
    end)
  end)

  -- The story: nginx cuts a line after 2,048 bytes, so a client could remove the counts from its line by a long path.
  it("have a line with their counts, however long the URI is", function()
    local line = lines("waits=true", 1, "/slow?" .. ("%01"):rep(600))[1]
    assert.truthy(line:find("GET /slow?... 200: lua ", 1, true), line)
    s:stop()
    assert_one(lines("waits=true, redact=function(uri) return uri end", 3, "/slow?" .. ("%01"):rep(600)), function(cut)
      return cut:find(("%01"):rep(83) .. "%... (cut) 200: lua ", 1, true) and cut:find(" in sleep at content_by_lua", 1, true)
    end)
  end)

  -- The story: an error of one of these functions was silent.
  it("are shown without their URI if redact fails; the first error of redact and trust is logged", function()
    local found = lines("redact=function() error 'no' end, sample={header='X-Perf', trust=function() error 'why' end}", 3)
    for _, line in ipairs(found) do assert.truthy(line:find("GET (redacted) 200", 1, true), line) end
    for _ = 1, 3 do s:get("/quick", "-H 'X-Perf: 1'") end
    for _, text in ipairs { "redact: [^\n]*no; such a URI is shown as", "trust: [^\n]*why; the header then selects no" } do
      s:wait(function() return s:log():find(text) end)
      assert.equal(1, (select(2, s:log():gsub(text, ""))), text)
    end
  end)

  it("of an unknown method are counted as other", function()
    lines("waits=true", 1)
    s:get("/quick", "-X PURGE")
    s:wait(function()
      return s:get "/metrics":find 'lua_perf_request_duration_seconds_count{route="/quick",status="200",method="other"} 1'
    end)
  end)
end)
