-- Profiles of a worker's Lua memory, by the page: which line of which route allocates, and which one's memory is never freed.
local load_profile = require "perf.profile.load"
local server = require "spec.nginx.server"
local util = require "spec.support.util"

describe("resty.perf's profiles of memory", function()
  local s

  before_each(function()
    requires(server.needs)
    requires { registers = true }
    s = server.start { user = "root", server = [[
      location = /cached { content_by_lua_block { perf.content(app.cached) } }
      location = /leak { content_by_lua_block { perf.content(app.leak) } }
      location = /garbage { content_by_lua_block { perf.content(app.garbage) } } ]] }
  end)
  after_each(server.stop)

  -- Serves requests until the profile is there: of the one path and of the other in turn.
  local function profile_once(event)
    local out, url = s.dir .. "/profile", "http://127.0.0.1:" .. s.port
    local curl = ("curl -s -m 60 -o %s '%s/perf?flame=%s&seconds=2&as=speedscope'"):format(out, url, event)
    os.execute(("(%s; touch %s.done) >/dev/null 2>&1 &"):format(curl, out))
    s:wait(function()
      util.execute(("nice -n 5 h2load --h1 -n 100 -c 4 -t 1 %s/leak %s/garbage >/dev/null"):format(url, url))
      return io.open(out .. ".done")
    end)
    local prof = assert(load_profile.decode(util.read_file(out)))
    os.execute(("rm -f %s*"):format(out))
    return prof
  end

  -- On a busy machine, a profile may have seen only a few requests: then another one is made.
  local function profile(event)
    local prof
    for _ = 1, 10 do
      prof = profile_once(event)
      if prof.blocks.allocated_bytes > 2e7 then break end
    end
    return prof
  end

  it("show what lines and routes allocate", function()
    local prof = profile "alloc"
    local top = prof:top()
    assert.equal("bytes", prof.unit)
    assert.equal("M.garbage", top.lines[1].func) -- ten times what M.leak allocates
    assert.equal("/garbage", top.zones[1].name)
    assert.equal(prof.total, prof.blocks.allocated_bytes)
  end)

  it("show a cache that grows with each request first, at a period of 64 KB", function()
    local out = s.dir .. "/profile"
    s:wait(function() -- on a busy machine, the profile may end before most of the requests come
      local client = s:begin("/perf?flame=heap&period=65536&survived=1&seconds=8&as=speedscope", out)
      assert.equal(2000, s:load("/cached", 2000, 8))
      assert.equal(40, s:load("/garbage", 40, 4))
      s:wait(function() return not io.open("/proc/" .. client .. "/exe") end)
      local prof = assert(load_profile.decode(util.read_file(out)))
      if prof.total < 2e6 then return false end
      local top = prof:top()
      assert.equal("M.cached", top.lines[1].func)
      assert.equal("/cached", top.zones[1].name)
      assert.equal(65536, prof.period)
      return true
    end)
    for query, reason in pairs { ["period=4095"] = "period: at least 4096 bytes", ["period=x"] = "period: number",
      ["survived=1"] = "the option 'survived' is for the event heap" } do
      local text, status = s:get("/perf?flame=alloc&seconds=0.1&" .. query)
      assert.equal(400, status)
      assert.truthy(text:find(reason, 1, true), text)
    end
  end)

  it("show a leak first", function()
    local prof = profile "heap"
    local top = prof:top()
    assert.equal("M.leak", top.lines[1].func)
    assert.equal("/leak", top.zones[1].name)
    assert.is_true(prof.blocks.allocated_bytes > 4 * prof.total)
  end)
end)
