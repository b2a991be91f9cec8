-- The story: a snapshot whose request takes longer than a minute is given up when another one is asked for. A request that
-- still waited for its child then raised "the Heap is closed". One that already wrote its answer forgot the other snapshot when
-- it ended, so that a third one ran beside that: two children of a worker, each with a copy of its memory. The host is simulated.
describe("a worker", function()
  local slices, pausing, saved, now, request

  local function go_on(r)
    _G.ngx.status, _G.ngx.header = r.status, r.header
    local _, paused = assert(coroutine.resume(r.co))
    r.status, r.paused = _G.ngx.status, paused
    return coroutine.status(r.co)
  end

  local function finish(r)
    while coroutine.status(r.co) == "suspended" do go_on(r) end
    return r.status
  end

  before_each(function()
    requires { lua = "luajit", heap = true }
    slices = require "resty.perf.slices"
    pausing, slices.pausing = slices.pausing, function() return function() coroutine.yield "paused" end end
    saved, now = rawget(_G, "ngx"), 1000
    local args
    rawset(_G, "ngx", {
      now = function() return now end, sleep = function() coroutine.yield() end, print = function() end, say = function() end,
      worker = { pid = function() return 1 end },
      var = { remote_addr = "127.0.0.1", http_host = "localhost", host = "localhost", server_name = "localhost" },
      req = { get_method = function() return "POST" end, http_version = function() return 1.1 end,
        get_uri_args = function() return args end },
    })
    local pages = require "resty.perf.pages"
    function request()
      args = { ["do"] = "snapshot" }
      local r = { header = {}, co = coroutine.create(function() pages.status { state = function() return {} end } end) }
      go_on(r)
      return r
    end
  end)
  after_each(function()
    if not pausing then return end -- the spec was skipped
    slices.pausing, pausing = pausing, nil
    rawset(_G, "ngx", saved)
  end)

  for _, when in ipairs { "while it waited", "while it wrote its answer" } do
    it("takes one snapshot at a time, also after it gave one up " .. when, function()
      local slow = request()
      while when == "while it wrote its answer" and not slow.paused do assert.equal("suspended", go_on(slow)) end
      now = now + 61
      local second = request()
      assert.is_nil(second.status)
      assert.equal(503, finish(slow))
      assert.equal(409, finish(request()))
      assert.is_nil(finish(second))
      assert.is_nil(finish(request()))
    end)
  end
end)
