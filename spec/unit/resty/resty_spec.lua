-- The parts of resty.perf that need no nginx: routes, sampling, exposition, slow requests.
local nginx = require "spec.support.nginx"
local route_names = require "resty.perf.route_names"
local routes = require "resty.perf.routes"
local sampler = require "resty.perf.sampling"
local exposition = require "resty.perf.metrics"
local slow = require "resty.perf.slow"
local util = require "spec.support.util"

describe("resty.perf.routes", function()
  it("by a list are paths, prefixes, segments and patterns, of which the first that matches is used", function()
    local find = routes.new { "/cart", "/static/*", "/users/:id", "/users/:id/pay-now", { "search", pattern = "^/s/" } }
    for uri, name in pairs { ["/cart"] = "/cart", ["/cart/"] = "(other)", ["/static/a/b.js"] = "/static/*",
      ["/static"] = "(other)", ["/users/7"] = "/users/:id", ["/users/7/x"] = "(other)",
      ["/users/a/pay-now"] = "/users/:id/pay-now",
      ["/s/x"] = "search", ["/"] = "(other)", ["/users/"] = "(other)" } do
      assert.equal(name, find(uri), uri)
    end
  end)

  -- All lists of two rules, and many of three, with short paths of characters that have a meaning in rules. The expected route is
  -- found by trying each rule in turn.
  it("are those of the first rule that matches, in any order and overlap", function()
    local rules = { { "/", "^/$" }, { "/a", "^/a$" }, { "/a/", "^/a/$" }, { "/a.", "^/a%.$" }, { "//a", "^//a$" },
      { "/A", "^/A$" }, { "/*", "^/" }, { "/a/*", "^/a/" }, { "/a*", "^/a%*$" }, { "/:x", "^/[^/]+$" }, { "/:x/a", "^/[^/]+/a$" },
      { "/a/:x", "^/a/[^/]+$" }, { "/:x/*", "^/[^/]+/" }, { "//*", "^//" }, { "/a:x", "^/a:x$" },
      { { "ends", pattern = "a$" }, "a$" }, { { "a twice", pattern = "(a).*%1" }, "(a).*%1" } }
    local paths, characters = { "" }, { "/", "a", ".", "A", "*", ":x" }
    for i = 1, math.huge do
      if not paths[i] or #paths[i] > 3 then break end
      for _, c in ipairs(characters) do paths[#paths + 1] = paths[i] .. c end
    end
    local matches = {}
    for i, rule in ipairs(rules) do
      matches[i] = {}
      for k, path in ipairs(paths) do matches[i][k] = path:find(rule[2]) ~= nil end
    end
    local wrong, list_number = {}, 0
    local function check(...)
      local list = { ... }
      list_number = list_number + 1
      for i, which in ipairs(list) do list[i] = rules[which][1] end
      local find = routes.new(list)
      for k = 1 + #list * list_number % 5, #paths, 5 do
        local expected = "(other)"
        for _, which in ipairs { ... } do
          if matches[which][k] then
            local name = rules[which][1]
            expected = type(name) == "table" and name[1] or name
            break
          end
        end
        if find(paths[k]) ~= expected then wrong[#wrong + 1] = paths[k] .. " is not " .. expected end
      end
    end
    for i = 1, #rules do
      for j = 1, #rules do
        check(i, j)
        check(i, j, 1 + (3 * i + 5 * j) % #rules)
      end
    end
    assert.same({}, wrong)
  end)

  -- The story: every rule was tried in turn, so a request took 0.2 ms with 10,000 of them.
  it("are found by as many steps among 900 paths as among 30", function()
    local function finder(n, first)
      local list = { first }
      for i = 1, n do
        list[#list + 1] = "/" .. i
        list[#list + 1] = "/" .. i .. "/:id"
        list[#list + 1] = "/" .. i .. "/all/*"
      end
      list[#list + 1] = { "late", pattern = "^/%d*$" }
      local find = routes.new(list)
      return function(uri)
        local original, calls = string.find, 0
        string.find = function(...) -- luacheck: ignore 122
          calls = calls + 1
          return original(...)
        end
        local ok, name = pcall(find, uri)
        string.find = original -- luacheck: ignore 122
        return ok and name, calls
      end
    end
    for _, first in ipairs { "/first", { "first", pattern = "^/first" } } do
      local few, many = finder(10, first), finder(300, first)
      for uri, expected in pairs { ["/7"] = "/7", ["/7/x"] = "/7/:id", ["/7/all/x/y"] = "/7/all/*",
        ["/7/x/y/z/made/up"] = "(other)", ["/"] = "late", ["/x"] = "(other)" } do
        local name, calls = few(uri)
        local same, more = many(uri)
        assert.equal(expected, name)
        assert.equal(expected, same)
        assert.equal(calls, more)
        assert.truthy(calls > 0 and calls < 8, calls)
      end
    end
  end)

  it("without a list are the path, with its keys as :id", function()
    local find = routes.new()
    for uri, name in pairs { ["/"] = "/", ["/a/12/b"] = "/a/:id/b", ["/v2/cafe"] = "/v2/cafe",
      ["/o/3f2504e0-4f89-11d3-9a0c-0305e82c3301"] = "/o/:id", ["/deadbeef01"] = "/:id", ["/feedback"] = "/feedback" } do
      assert.equal(name, find(uri), uri)
    end
  end)

  -- After one request with such a path, Prometheus refused the whole page.
  it("have names in UTF-8, whatever a client sends, that are neither empty nor long", function()
    local find, configured = routes.new()
    assert.same({}, configured)
    assert.equal("/w\239\191\189\239\191\189", find "/w\255\254")
    assert.equal("/w\239\191\189\239\191\189", find "/w\192\128") -- both paths are one route, not two with one name
    assert.equal("/gr\195\188n", find "/gr\195\188n")
    assert.equal("a\239\191\189", routes.valid "a\128")
    assert.equal("(other)", find("/" .. ("\255"):rep(100)))
    assert.equal("(other)", find("/" .. ("x"):rep(200)))
    assert.equal("(other)", routes.new(function() end) "/x")
    assert.equal("(other)", routes.new(function() return "" end) "/x")
  end)

  it("reports mistakes", function()
    for message, list in pairs { ["a path begins with '/'"] = { "cart" }, ["not a Lua pattern"] = { { "x", pattern = "%" } },
      ["unknown field 'patern'"] = { { "x", patern = "y" } }, ["name expected, got number"] = { 7 },
      ["'*' stands at the end"] = { "/*/x" }, ["unknown field '/x' in a list"] = { ["/x"] = "y" },
      ["rule 1: name expected, got nil"] = { nil, "/y" } } do
      local ok, err = pcall(routes.new, list)
      assert.is_false(ok)
      assert.truthy(err:find(message, 1, true), err)
    end
    assert.error_matches(function() routes.new(7) end, "routes: list or function expected, got number")
  end)
end)

describe("resty.perf.route_names", function()
  local dict, names

  -- The names of another worker, or of a new one.
  local function worker(configured) return route_names.new(dict, configured or {}) end

  before_each(function()
    dict = nginx.new().ngx.shared.perf
    names = worker()
  end)

  it("are at most a hundred of all workers, besides those of the configuration", function()
    local other = worker()
    for i = 1, 300 do
      assert.equal(i <= 100 and "n" .. i or "(other)", (i % 2 == 0 and names or other).admit("n" .. i))
    end
    assert.equal("n7", names.admit "n7")
    assert.equal("n8", worker().admit "n8") -- after a reload
    assert.equal("(other)", names.shown "n101")
    assert.equal("n100", names.shown "n100")
    assert.equal("configured", worker { configured = true }.admit "configured")
  end)

  -- A hundred junk paths once kept all later routes out for ever.
  it("give the place of one that is hardly used to one that is used more", function()
    local forgotten = {}
    for i = 1, 1000 do names.admit("junk" .. i) end
    names.used({ junk1 = 50 }, error)
    for _ = 1, 20 do assert.equal("(other)", names.admit "real") end
    for i = 1, 5000 do names.admit("junk" .. i) end
    names.turn_over()
    assert.equal("real", names.admit "real")
    names.used({}, function(name) forgotten[#forgotten + 1] = name end)
    assert.equal(1, #forgotten)
    assert.not_equal("junk1", forgotten[1])
    assert.equal("(other)", names.admit(forgotten[1]))
  end)

  it("have no place without room in the dictionary", function()
    dict.safe_add = function() return nil, "no memory" end
    assert.equal("(other)", names.admit "real")
  end)
end)

describe("resty.perf.sampling", function()
  -- Whether a request is counted.
  local function decide(samplers, route, value)
    return samplers.trusts(value) or samplers.decide[samplers.of(route)]()
  end

  local function share(samplers, n, route, value)
    local chosen = 0
    for _ = 1, n do chosen = chosen + (decide(samplers, route, value) and 1 or 0) end
    return chosen
  end

  it("takes exactly one of every n requests", function()
    assert.equal(100, share(sampler.new(), 100, "/"))
    assert.equal(0, share(sampler.new(0), 100, "/"))
    local samplers = sampler.new(10)
    for _ = 1, 20 do assert.equal(1, share(samplers, 10, "/")) end
  end)

  it("says how many of the next requests it leaves out, at the same places", function()
    local places = { 10, 1, 1, 7, 10, 2 }
    local function sampled()
      local i = 0
      return sampler.new({ every = 0, routes = { ["/a"] = 10 } }, function()
        i = i % #places + 1
        return places[i]
      end)
    end
    local plain, skipping = sampled(), sampled()
    local number = skipping.of "/a"
    local left = 0
    for i = 1, 600 do
      local chosen = left == 0 and skipping.decide[number]()
      if left > 0 then left = left - 1 elseif i % 3 > 0 then left = skipping.skip[number]() end
      assert.equal(plain.decide[number](), chosen, i)
    end
    assert.equal(0, sampler.new(1).skip[0]())
    assert.equal(math.huge, sampler.new(0).skip[0]())
  end)

  it("samples by route, and by a header's value", function()
    local samplers = sampler.new { every = 0, header = "X-Perf-Me", secret = "1", routes = { ["/a"] = 2 } }
    assert.equal("http_x_perf_me", samplers.header)
    assert.is_true(samplers.by_route)
    assert.equal(2, samplers.number)
    assert.is_false(sampler.new { header = "X", secret = "1" }.by_route)
    assert.equal(50, share(samplers, 100, "/a"))
    assert.equal(0, share(samplers, 100, "/b"))
    assert.equal(100, share(samplers, 100, "/b", "1"))
    assert.equal(0, share(samplers, 100, "/b", "0"))
    assert.equal(0, share(samplers, 100, "/b", ""))
  end)

  -- Any client that sent the header was counted, and had a span exported.
  it("trusts no header without a secret or a function", function()
    local samplers = sampler.new { every = 0, header = "X-Perf" }
    assert.is_nil(samplers.header)
    assert.equal(0, share(samplers, 10, "/", "1"))
    samplers = sampler.new { every = 0, header = "X-Perf", trust = function(value) return value:find "^me%-" end }
    assert.equal(10, share(samplers, 10, "/", "me-1"))
    assert.equal(0, share(samplers, 10, "/", "you-1"))
    samplers = sampler.new { every = 0, header = "X-Perf", trust = error }
    assert.equal(0, share(samplers, 10, "/", "1"))
  end)

  it("reports mistakes", function()
    for _, n in ipairs { 1 / 0, 0 / 0, 2 ^ 53 } do assert.has_error(function() sampler.new(n) end) end
    for message, sample in pairs { ["every: 1 for every request"] = -1, ["option 'evry'; did you mean 'every'?"] = { evry = 1 },
      ["a header's name"] = { header = "a b" }, ["secret: text expected"] = { header = "X", secret = "" },
      ["trust: function expected, got string"] = { header = "X", trust = "yes" },
      ["routes./a: 1 for"] = { routes = { ["/a"] = 0.5 } } } do
      local ok, err = pcall(sampler.new, sample)
      assert.is_false(ok)
      assert.truthy(err:find(message, 1, true), err)
    end
  end)
end)

describe("resty.perf.metrics", function()
  local totals = {
    events = { { label = "task-clock", unit = "ns" }, { label = "page-faults:u" }, { label = "cs", why = "not here" } },
    phases = { "access", "content" }, seen = 9, abandoned = 2, refused = 0, running = { [0] = 1, 2, 3, 0 },
    routes = { { name = 'a"b\\c\nd', requests = 3, phases = { content = { [0] = 2000000000, 1500000000, 7, 0 } },
      histograms = { [0] = { [30] = 3 }, { [30] = 2, [31] = 1 }, { [0] = 1, [2] = 1, [3] = 1 } } } },
    unattributed = { [0] = 5, 6, 7, 0 }, worker = { [0] = 10, 20, 14, 0 },
  }

  it("writes histograms that add up, in seconds for events in nanoseconds", function()
    local text = exposition.text(totals)
    local function value(line) return text:match("\n" .. line:gsub("%p", "%%%0") .. " (%S+)\n") end
    local route = [[route="a\"b\\c\nd"]]
    assert.equal("3", value("lua_perf_requests_total{" .. route .. "}"))
    assert.equal("1.5", value("lua_perf_request_task_clock_seconds_sum{" .. route .. "}"))
    assert.equal("0", value("lua_perf_request_task_clock_seconds_bucket{" .. route .. ',le="0.268435455"}'))
    assert.equal("2", value("lua_perf_request_task_clock_seconds_bucket{" .. route .. ',le="1.073741823"}'))
    assert.equal("3", value("lua_perf_request_task_clock_seconds_bucket{" .. route .. ',le="+Inf"}'))
    assert.equal("1", value("lua_perf_request_page_faults_u_bucket{" .. route .. ',le="0"}'))
    assert.equal("1", value("lua_perf_request_page_faults_u_bucket{" .. route .. ',le="1"}'))
    assert.equal("3", value("lua_perf_request_page_faults_u_bucket{" .. route .. ',le="7"}'))
    assert.equal("7", value("lua_perf_phase_page_faults_u_total{" .. route .. ',phase="content"}'))
    assert.equal("0.00000002", value "lua_perf_worker_task_clock_seconds_total")
    assert.equal("7", value "lua_perf_unattributed_page_faults_u_total")
    assert.equal("3", value "lua_perf_running_page_faults_u")
    local parts = {}
    local last = exposition.text(totals, function(part) parts[#parts + 1] = part end)
    assert.equal(text, table.concat(parts) .. last)
    assert.is_nil(text:find "_cs")
  end)

  local row = { route = "/a", phase = "content", kind = "receive", peer = "10.0.0.1:6379", line = "a.lua:1", count = 2,
    lasted_ns = 3e9, waiting_ns = 2e9, late_ns = 0, histogram = { [31] = 2 } }

  it("has the prefix, labels and buckets that the options choose", function()
    local other = setmetatable({ peer = "10.0.0.2:6379", line = "b.lua:2" }, { __index = row })
    local request = { route = "/a", status = "200", method = "GET", count = 2, lasted_ns = 3e9, waiting_ns = 0, late_ns = 0,
      histogram = { [31] = 2 } }
    local all = setmetatable({ waits = { waits = { row, other }, requests = { request } } }, { __index = totals })
    local shape = exposition.shape { prefix = "shop", labels = { env = 'te"st', at = "x" }, without = { "peer", "line", "phase" },
      buckets = { 0.001, 1, 1.05, 60 } }
    local text = exposition.text(all, nil, shape)
    local function value(line) return text:match("\n" .. line:gsub("%p", "%%%0") .. " (%S+)\n") end
    local own = [[at="x",env="te\"st"]]
    assert.equal("9", value("shop_seen_requests_total{" .. own .. "}"))
    assert.equal("4", value("shop_waiting_seconds_total{" .. own .. ',route="/a",kind="receive"}'))
    assert.is_nil(text:find("lua_perf", 1, true) or text:find("peer", 1, true) or text:find("phase", 1, true))
    local bounds = {}
    for le in text:gmatch 'shop_request_duration_seconds_bucket{[^}]*le="([^"]*)"' do bounds[#bounds + 1] = le end
    assert.same({ "0.001048575", "1.073741823", "68.719476735", "+Inf" }, bounds)
    assert.equal("2", value("shop_request_duration_seconds_bucket{" .. own
      .. ',route="/a",status="200",method="GET",le="68.719476735"}'))
  end)

  it("refuses options that Prometheus would refuse", function()
    for message, opts in pairs { ["prefix: '1x_'"] = { prefix = "1x" }, ["labels: 'a-b'"] = { labels = { ["a-b"] = "x" } },
      ["labels: 'route'"] = { labels = { route = "x" } }, ["labels: 'a'"] = { labels = { a = 1 } },
      ["without: 'route'"] = { without = { "route" } }, ["buckets: x is not"] = { buckets = { "x" } },
      ["buckets: 0 is not"] = { buckets = { 0 } }, ["bounds must ascend"] = { buckets = { 1, 0.1 } } } do
      local ok, err = pcall(exposition.shape, opts)
      assert.is_false(ok)
      assert.truthy(err:find(message, 1, true), err)
    end
  end)

  it("writes the metrics that the guide lists, with their types", function()
    local guide, written, listed = util.read_file "doc/openresty.md", {}, {}
    local all = setmetatable({ waits = { waits = {}, requests = {} }, blocked = { routes = {} },
      dictionary = { capacity = 1, free = 1 } }, { __index = totals })
    for name, kind in exposition.text(all):gmatch "# TYPE (%S+) (%S+)" do
      -- The guide lists the metrics of one event, task-clock, and in addition these of wall time.
      local wall = name:find "request_lua" or name:find "unattributed_lua" or name:find "worker_lua"
      if wall then written[name] = kind end
      if name ~= "lua_perf_request_lua_seconds" then name = name:gsub("_lua_seconds", "_task_clock_seconds") end
      written[name:gsub("page_faults_u", "task_clock_seconds")] = kind
    end
    for names, kind in guide:gmatch "\n| (`lua_perf[^|]*)| (%a+) |" do
      for name in names:gmatch "`([%w_]+)" do listed[name] = kind end
    end
    assert.same(written, listed)
  end)
end)

describe("resty.perf.slow", function()
  local counts = setmetatable({ { label = "task-clock", unit = "ns", value = 1204000 }, { label = "page-faults", value = 64 },
    { label = "cs", why = "no" }, wall_ns = 1210000 }, { __index = { ["page-faults"] = 64 } })

  it("finds slow requests by seconds, and by events", function()
    local function ask() return counts end
    assert.is_true(slow.new(0.5)(0.5, ask))
    assert.is_false(slow.new(0.5)(0.4, function() error "asked for nothing" end))
    assert.is_true(slow.new { time = 9, ["page-faults"] = 63 }(0, ask))
    assert.is_false(slow.new { time = 9, ["page-faults"] = 64, ["cycles"] = 1 }(0, ask))
    assert.error_matches(function() slow.new "x" end, "slow: seconds or table expected, got string")
    assert.error_matches(function() slow.new { time = "x" } end, "slow: time: number expected, got string")
  end)

  it("refuses an event that is not counted", function()
    for message, list in pairs { ["page-fault: unknown event; did you mean 'page-faults'?"] = false,
      ["slow: 'page-fault' is not one of the events"] = { ["page-faults"] = true } } do
      local ok, err = pcall(slow.new, { time = 1, ["page-fault"] = 1 }, list or nil)
      assert.is_false(ok)
      assert.truthy(err:find(message, 1, true), err)
    end
    slow.new({ time = 1, mine = 1 }, { mine = true })
    slow.new({ ["page-faults"] = 1, ["task-clock"] = 1 }, require "resty.perf.worker_events".check "page-faults:u,task-clock")
  end)

  it("shows a URI without its query string, or as a function says", function()
    assert.equal("/cart?...", slow.redacting()("/cart?id=7?\n"))
    assert.equal("/cart", slow.redacting()("/cart"))
    assert.equal(("/"):rep(256), slow.redacting()(("/"):rep(256)))
    assert.equal(("/"):rep(256) .. "... (cut)", slow.redacting()(("/"):rep(257) .. "?x"))
    assert.equal("x", slow.redacting(function() return "x" end)("/cart?id=7"))
    for _, wrong in ipairs { error, function() end } do assert.equal("(redacted)", slow.redacting(wrong)("/cart?id=7")) end
    assert.error_matches(function() slow.redacting "x" end, "redact: function expected, got string")
  end)

  it("writes a line", function()
    assert.equal("slow request: 0.512 s, /cart, GET /cart?id=7 200: lua 1.210ms, task-clock 1.204ms, page-faults 64",
      slow.line { seconds = 0.512, route = "/cart", method = "GET", uri = "/cart?id=7", status = 200, counts = counts })
  end)
end)
