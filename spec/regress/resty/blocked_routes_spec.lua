-- The story: two workers that found the same new route at the same time both put it in the list of routes with blocked turns, and
-- then its turns were shown twice. The same happened if the dictionary had no room for the mark that the route is in the list.
local nginx = require "spec.support.nginx"

describe("a route with blocked turns", function()
  local host, dict, accounting, blocked, turns, next_turn
  before_each(function()
    requires { lua = "luajit", perf_open = true }
    host = nginx.new()
    host:load()
    dict, blocked, accounting = host.ngx.shared.perf, require "resty.perf.blocked", require "resty.perf.accounting"
    turns, next_turn = 0, accounting.blocked
    accounting.blocked = function()
      if turns == 0 then return nil end
      turns = turns - 1
      return { route = 0, phase = 4, wall_ns = 10, seen_ns = 0, uri = "", stack = {} }
    end
  end)
  after_each(function()
    if accounting then accounting.blocked = next_turn end
    accounting = nil
  end)

  local function report()
    turns = 1
    blocked.report(dict, function() return "/cart" end, function(uri) return uri end)
  end

  local function routes()
    return blocked.read(dict, function(name) return name end).routes
  end

  it("is in the list once if two workers find it at the same time", function()
    local get = dict.get
    function dict.get(self, key)
      local v = get(self, key)
      if key:find "^blocked i" then
        dict.get = get
        report() -- the other worker, just after this one has found no mark
      end
      return v
    end
    host:run(report)
    assert.same({ { route = "/cart", count = 2, lasted_ns = 20 } }, host:run(routes))
  end)

  it("is in the list at most once if the dictionary has no room for a time", function()
    local add, set = dict.safe_add, dict.safe_set
    local function refuse(f)
      return function(self, key, v)
        if key:find "^blocked i" then return nil, "no memory" end
        return f(self, key, v)
      end
    end
    dict.safe_add, dict.safe_set = refuse(add), refuse(set)
    for _ = 1, 2 do host:run(report) end
    dict.safe_add, dict.safe_set = add, set
    host:run(report)
    assert.same({ { route = "/cart", count = 3, lasted_ns = 30 } }, host:run(routes))
  end)
end)
