-- Waits in the shared dictionary: the rows of many workers, of which only so many are kept.
local nginx = require "spec.support.nginx"

describe("resty.perf.shared_waits", function()
  local host, dict, slots, shared_waits
  local MOST = 1000
  local LENGTH -- bytes of a row

  before_each(function()
    requires { lua = "luajit", perf_open = true }
    host = nginx.new()
    host:load()
    dict, slots, shared_waits = host.ngx.shared.perf, require "resty.perf.slots", require "resty.perf.shared_waits"
    LENGTH = 4 + require "resty.perf.waits".BUCKETS
  end)

  -- The record of a worker that has ended, with a row for each peer: that of peer n has n waits.
  local function leave_record(routes)
    local sections = {}
    for i, route in ipairs(routes) do
      local values = slots.array(LENGTH)
      values[0] = i
      sections[i] = { name = ("wait\0%s\0content\0receive\0peer %d\0a.lua:1"):format(route, i), values = values, n = LENGTH,
        changed = true }
    end
    host:run(function()
      local record = slots.record(dict, "waits", "waits ")
      record.take(function() end)
      assert.is_nil(record.write(sections, true))
    end)
  end

  local function read(shown)
    local by_route, rows, all = {}, 0, 0
    for _, row in ipairs(host:run(shared_waits.read, dict, shown or {}).waits) do
      by_route[row.route], rows, all = (by_route[row.route] or 0) + row.count, rows + 1, all + row.count
    end
    return by_route, rows, all
  end

  -- Takes the record over and writes it, as a new worker does.
  local function take_over(shown) assert.is_nil(host:run(function() return shared_waits.writer(dict, {}, shown).add() end)) end

  it("adds up the rows that have no room", function()
    local routes, sum = {}, 0
    for i = 1, MOST + 500 do routes[i], sum = "/a", sum + i end
    leave_record(routes)
    local before, shown_rows, all = read()
    assert.equal(sum, all)
    assert.is_true(shown_rows <= MOST + 1)
    take_over {}
    local after, rows
    after, rows, all = read()
    assert.equal(sum, all)
    assert.is_true(rows >= MOST and rows <= MOST + 1, rows)
    assert.equal(before["/a"] + before["(other)"], after["/a"] + after["(other)"])
  end)

  it("makes room from the rows of routes that have lost their places", function()
    local routes, gone, kept = {}, 0, 0
    for i = 1, MOST + 400 do
      local old = i <= 600
      routes[i] = old and "/old" or "/real"
      if old then gone = gone + i else kept = kept + i end
    end
    leave_record(routes)
    take_over { route = function(name) return name == "/old" and "(other)" or name end,
      peer = function(name) return tonumber(name:match "%d+") <= 600 and "(other)" or name end }
    local by_route, rows, all = read()
    assert.equal(gone + kept, all)
    assert.is_true(rows <= MOST + 1)
    assert.equal(kept, by_route["/real"])
    assert.equal(gone, by_route["(other)"])
    assert.is_nil(by_route["/old"])
  end)

  it("writes nothing if the accounting was closed in a pause, and everything later", function()
    leave_record { "/a", "/b", "/c" }
    local left = dict:get "waits slot 1"
    local writer = host:run(shared_waits.writer, dict, {}, {})
    local calls = 0
    assert.is_nil(host:run(writer.add, function()
      calls = calls + 1
      return false
    end))
    assert.equal(1, calls)
    assert.equal(left, (dict:get "waits slot 1"))
    assert.is_nil(host:run(writer.add, function() return true end))
    assert.not_equal(left, (dict:get "waits slot 1"))
    assert.equal(6, (select(3, read())))
  end)
end)
