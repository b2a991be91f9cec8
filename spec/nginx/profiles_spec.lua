-- Profiles of workers: of one or of all, with the route of each sample.
local load_profile = require "perf.profile.load"
local server = require "spec.nginx.server"
local util = require "spec.support.util"

local EVENT = "syscalls:sys_enter_getppid"

describe("resty.perf's profiles", function()
  local s

  before_each(function()
    requires(server.needs)
    requires { tracepoint = EVENT }
    s = server.start { user = "root", workers = 2, server = [[
      location = /left { content_by_lua_block { perf.content(app.left) } }
      location = /right { content_by_lua_block { perf.content(app.right) } }
      location = /bare { content_by_lua_block { app.left() } } ]] }
  end)
  after_each(server.stop)

  -- Serves requests until the profile is there.
  local function profile(query)
    local out = s.dir .. "/profile"
    local curl = ("curl -s -m 60 -D %s.head -o %s 'http://127.0.0.1:%d/perf?flame=%s&%s'"):format(out, out, s.port, EVENT, query)
    os.execute(("(%s; touch %s.done) >/dev/null 2>&1 &"):format(curl, out))
    s:wait(function()
      for _, path in ipairs { "/left", "/right", "/bare" } do s:load(path, 20, 4) end
      return io.open(out .. ".done")
    end)
    local text, head = util.read_file(out), util.read_file(out .. ".head")
    os.execute(("rm -f %s*"):format(out))
    return text, head
  end

  -- The sums of the samples by zone; and whether each sample's zone is that of its function.
  local function check(prof)
    local sums = {}
    for _, sample in ipairs(prof:samples()) do
      local zone = sample.zone or ""
      sums[zone] = (sums[zone] or 0) + sample.weight
      local left, right
      for _, f in ipairs(sample.stack) do
        left, right = left or f.func == "M.left", right or f.func == "M.right"
      end
      if zone ~= "" then assert.equal(left and "/left" or right and "/right", zone) end
      if right then assert.equal("/right", zone) end
    end
    return sums
  end

  local function profile_all()
    local text, head = profile "seconds=1&workers=all&as=speedscope"
    assert.matches("HTTP/1.1 200.*application/json", head)
    assert.matches("filename=\"profile.speedscope.json\"", head, 1, true)
    local prof = assert(load_profile.decode(text))
    assert.equal("nginx, 2 workers", prof.comm)
    local sums = check(prof)
    assert.equal(prof.total, (sums["/left"] or 0) + (sums["/right"] or 0) + (sums[""] or 0))
    return sums
  end

  it("of all workers have the routes of requests, and other code", function()
    local seen = {}
    s:wait(function() -- on a busy machine one second may be too short for all of the three
      for zone in pairs(profile_all()) do seen[zone] = true end
      return seen["/left"] and seen["/right"] and seen[""]
    end)
  end)

  it("of one worker, and of one route", function()
    for _, pid in ipairs(s:workers()) do
      local prof = assert(load_profile.decode((profile("seconds=0.5&as=speedscope&route=/right&workers=" .. pid))))
      assert.equal(pid, prof.pid)
      local sums = check(prof)
      assert.equal(prof.total, sums["/right"] or 0)
    end
    s:wait(function() -- each stack begins with its route
      return ("\n" .. profile "seconds=0.5&workers=all&as=folded&route=/right"):find "\n/right;[^\n]*M%.right"
    end)
    assert.matches('filename="profile.pb.gz"', select(2, profile "seconds=0.1&as=pprof"), 1, true)
  end)

  it("refuse unknown formats, workers and events", function()
    for query, message in pairs { ["as=svg"] = "as: expected", ["workers=none"] = "workers: a process id",
      ["seconds=0"] = "seconds" } do
      local text, status = s:get("/perf?flame=" .. EVENT .. "&" .. query)
      assert.matches(message, text)
      assert.truthy(status >= 400)
    end
    local text, status = s:get "/perf?flame=nonsense&workers=all"
    assert.same({ 400, "nonsense: unknown event\n" }, { status, text })
    for _, pid in ipairs { 1, s:master(), 0, -1, 1.5, "nan", 2 ^ 31 } do -- the answer came after ten seconds
      assert.same({ ("workers: no worker has the process id %s\n"):format(pid), 404 },
        { s:get("/perf?flame=task-clock&seconds=60&workers=" .. pid) })
    end
    text, status = s:get("/perf?flame=nonsense&seconds=0.1&workers=" .. s:workers()[1])
    assert.equal(400, status)
    assert.matches("nonsense: unknown event", text)
  end)
end)
