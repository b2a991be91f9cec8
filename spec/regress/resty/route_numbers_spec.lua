-- A route that loses its place leaves its number to another route. Its waits stayed under the number, so that perf.worker and
-- wait_profile showed them under the new name.
local nginx = require "spec.support.nginx"
local opened = require "spec.support.accounting"

describe("the number of a route that is used again", function()
  local ffi, accounting, host

  before_each(function()
    ffi, accounting = opened.open(function()
      host = nginx.new()
      host:load()
    end)
    assert.equal(1, accounting.route())
    assert.is_true(accounting.count_waits())
  end)
  after_each(opened.close)

  local CONTENT = 4

  -- A request with so many yields: each is a wait, and so may be its begin and its end.
  local function request(route, yields)
    local r = ffi.cast("void *", 4096)
    assert.equal(0, accounting.admit(r, route, 0, 0))
    assert.equal(1, accounting.enter(r, CONTENT))
    for _ = 1, yields do
      accounting.leave(r)
      accounting.back(r, CONTENT, 0)
    end
    accounting.exit(r, 0)
    assert.equal(route, accounting.finish(r))
  end

  local function counts_by_route(waits)
    local t = {}
    for route, _, row in waits.rows() do t[route] = (t[route] or 0) + tonumber(row.count) end
    return t
  end

  it("has none of the old route's waits", function()
    local waits, shared_waits = package.loaded["resty.perf.waits"], package.loaded["resty.perf.shared_waits"]
    local dict, name = host.ngx.shared.perf, { [0] = "(other)", "/old" }
    local writer = shared_waits.writer(dict, name)
    local function in_dict()
      local t, all = {}, 0
      for _, row in ipairs(host:run(shared_waits.read, dict, {}).waits) do
        t[row.route] = (t[row.route] or 0) + row.count
        all = all + row.count
      end
      return t, all
    end

    request(0, 3)
    request(1, 5)
    local before = counts_by_route(waits)
    host:run(writer.merging, function() accounting.merge(1, 0) end)
    name[1] = "/new"
    assert.same({ [0] = before[0] + before[1] }, counts_by_route(waits))
    local profile = host:run(waits.profile, name, function() return function() return 0 end end)
    assert.is_nil(profile:folded():find("/new", 1, true))

    request(1, 2)
    request(0, 1)
    local after = counts_by_route(waits)
    assert.is_true(after[0] > before[0] + before[1])
    assert.is_true(after[1] >= 2 and after[1] < before[1], after[1])
    assert.is_nil(host:run(writer.add))
    local found, all = in_dict()
    assert.equal(after[0] + after[1], all)
    assert.equal(before[1], found["/old"])
    assert.equal(after[1], found["/new"])

    -- Only routes that have a place are shown.
    local function name_of(route) return route == "/old" and "(other)" or route end
    local shown = host:run(shared_waits.read, dict, { route = name_of }).waits
    local other = 0
    for _, row in ipairs(shown) do
      assert.not_equal("/old", row.route)
      if row.route == "(other)" then other = other + row.count end
    end
    assert.equal(after[0], other)
  end)
end)
