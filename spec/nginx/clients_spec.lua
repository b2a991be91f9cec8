-- Requests of clients that attack the pages, the counting or the log.
local server = require "spec.nginx.server"

describe("resty.perf and its clients", function()
  local s

  before_each(function() requires(server.needs) end)
  after_each(server.stop)

  -- The story: a page of any site could stop the counting, through a name that its DNS server resolved to this machine.
  it("changes nothing for other sites", function()
    s = server.start { init_worker = "app.start{events='page-faults:u', waits=true}", server = [[
      location /secret { content_by_lua_block { perf.status { token = "open sesame" } } } ]] }
    local host = "127.0.0.1:" .. s.port
    local function post(path, headers)
      local options = "-X POST"
      for _, header in ipairs(headers) do options = options .. (" -H '%s'"):format(header) end
      return (select(2, s:get(path .. "?do=start", options)))
    end
    local token = "X-Perf-Token: " .. s:get "/perf?format=json":match '"token":"(%x+)"'
    for headers, status in pairs {
      [{}] = 200,
      [{ "Host: localhost:80" }] = 200,
      [{ "Host: [::1]" }] = 200,
      [{ "Host: attacker.example" }] = 403,
      [{ "Host: attacker.example", "Origin: http://attacker.example", token }] = 403,
      [{ "Host: 127.0.0.1.attacker.example" }] = 403,
      [{ "Origin: http://attacker.example", token }] = 403,
      [{ "Origin: null", token }] = 403,
      [{ "Sec-Fetch-Site: same-site", token }] = 403,
      [{ "Origin: http://" .. host }] = 403, -- a browser needs the page's token
      [{ "Cookie: a=b" }] = 403,
      [{ "Origin: http://" .. host, "X-Perf-Token: x" }] = 403,
      [{ "Origin: http://" .. host, "Sec-Fetch-Site: same-origin", token }] = 200,
    } do
      assert.equal(status, post("/perf", headers), table.concat(headers, ", "))
    end
    -- Without a Host, and with a host in the request line, which is the one that counts.
    assert.equal(403, select(2, s:get("/perf?do=start", "-0 -X POST -H 'Host:'")))
    for target, status in pairs { ["http://attacker.example"] = 403, ["http://localhost"] = 200 } do
      local line = ("-X POST --request-target '%s/perf?do=start'"):format(target)
      assert.equal(status, select(2, s:get("/perf", line)), target)
    end
    assert.equal(403, post("/secret", {}))
    assert.equal(403, post("/secret", { token }))
    assert.equal(200, post("/secret", { "X-Perf-Token: open sesame" }))
    assert.falsy(s:get "/secret?format=json":find '"token"')
    for _, query in ipairs { "flame=task-clock", "waits=folded", "format=json" } do
      assert.equal(403, select(2, s:get("/perf?" .. query, "-H 'Host: attacker.example'")), query)
    end
    assert.equal(200, select(2, s:get "/perf?flame=task-clock&seconds=0.01&as=folded"))
    -- The story: of the requests that the manual names, only those to start and stop needed the configured token.
    for query, status in pairs { ["flame=task-clock&seconds=0.01&as=folded"] = 200, ["waits=folded"] = 200 } do
      assert.equal(403, select(2, s:get("/secret?" .. query)), query)
      assert.equal(403, select(2, s:get("/secret?" .. query, "-H '" .. token .. "'")), query)
      assert.equal(status, select(2, s:get("/secret?" .. query, "-H 'X-Perf-Token: open sesame'")), query)
    end
    for _, method in ipairs { "PUT", "DELETE", "UNKNOWN" } do assert.equal(405, select(2, s:get("/perf", "-X " .. method))) end
  end)

  it("shows pages to ranges of addresses", function()
    s = server.start { init_worker = "app.start{events='page-faults:u'}", server = [[
      location /call { content_by_lua_block {
        local from, address = loadstring("return " .. ngx.unescape_uri(ngx.var.arg_from))(), ngx.var.arg_address
        local ok, answer = pcall(require "resty.perf.clients".allowing, from)
        ngx.print(tostring(answer)) if ok then ngx.print(" ", tostring(answer(address))) end } } ]] }
    local function ask(from, address)
      local text = s:get(("/call?from=%s&address=%s"):format(from:gsub(".", function(c) return ("%%%02x"):format(c:byte()) end),
        address))
      return text:match " (%a+)$" or text
    end
    for from, addresses in pairs {
      ["'10.0.0.0/8'"] = { ["10.1.2.3"] = "true", ["11.0.0.1"] = "false", ["::ffff:10.9.9.9"] = "true", ["127.0.0.1"] = "false" },
      ["'10.1.2.3'"] = { ["10.1.2.3"] = "true", ["10.1.2.4"] = "false" },
      ["'192.168.4.0/22'"] = { ["192.168.7.255"] = "true", ["192.168.8.0"] = "false" },
      ["{'2001:db8::/33','0.0.0.0/0'}"] = { ["2001:db8:7fff::1"] = "true", ["2001:db8:8000::1"] = "false", ["9.9.9.9"] = "true",
        ["unix:"] = "false" },
      ["nil"] = { ["127.8.9.1"] = "true", ["::1"] = "true", ["unix:"] = "true", ["::ffff:127.0.0.1"] = "true",
        ["1.2.3.4"] = "false" },
    } do
      for address, allowed in pairs(addresses) do assert.equal(allowed, ask(from, address), from .. " " .. address) end
    end
    for _, wrong in ipairs { "'10.0.0.0/33'", "'10.0.0/8'", "'all'", "{7}", "'::/129'" } do
      assert.truthy(ask(wrong, "1.2.3.4"):find("is neither an address nor a range", 1, true), wrong)
    end
  end)

  -- The story: a slow request's decoded path was logged unescaped. By a newline in it, a client could write lines of its own.
  it("writes no byte of a request to the log unescaped, and no query string", function()
    s = server.start { init_worker = "app.start{events='page-faults:u', slow=0}", server = [[
      location / { content_by_lua_block { perf.content(ngx.say, "x") } }]] }
    s:get("/a%0A2026/07/01%20[alert]%20forged%1B[31m%C2%85?key=secret", "-g --path-as-is")
    s:wait(function() return s:log():find "slow request" end)
    local log = s:log()
    assert.truthy(log:find([[, /a\xEF\xBF\xBD2026/:id/01 [alert] forged\xEF\xBF\xBD[31m\xC2\x85, GET /a%0A2026]], 1, true), log)
    assert.falsy(log:find "\n2026/07/01 %[alert%] forged")
    assert.truthy(log:find("%1B[31m%C2%85?... 200: lua", 1, true), log)
    assert.falsy(log:find("key=", 1, true)) -- nginx adds the request's line to each message
    assert.falsy(s:get "/perf?format=json":find("key=", 1, true))
  end)
end)
