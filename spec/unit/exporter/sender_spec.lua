-- A tracer's reactions to a backend's answers. The backend is a function, so nothing waits.
local perf = require "perf"

-- An exporter whose n-th post returns the results of answer(n): rejected, message, again, wanted (seconds).
local function exporter(answer, without_transport)
  local self = { posts = 0 }
  function self.transport()
    if without_transport then return nil, "nothing to send with" end
    return { rest = coroutine.yield, wait = function() end, close = function() end }
  end
  function self.writer() return { add = function() end, finish = function() return "" end } end
  function self.metrics(_, _, list) return list end
  function self.post()
    self.posts = self.posts + 1
    return answer(self.posts)
  end
  return self
end

local function tracer(e, options)
  options = options or {}
  options.events, options.exporter, options.batch = false, e, 1
  return assert(perf.tracer(options))
end

local function taken() return 0 end

describe("a sender", function()
  it("waits as long as a backend asks for, up to 5 minutes", function()
    for wanted, most in pairs { [120] = 120, [1e6] = 300 } do
      local e = exporter(function() return nil, "busy", true, wanted end)
      local t = tracer(e, { retry = 60 }) -- and is asked once more then
      t:start "x":finish()
      local seconds = t:poll()
      assert.is_true(seconds > 60 and seconds <= most, seconds)
      assert.equal(1, e.posts)
      local ok, message, code = t:flush(0)
      assert.is_nil(ok)
      assert.equal("spans not sent yet: 1 (busy)", message)
      assert.equal("ETIMEDOUT", code)
      ok, message, code = t:close(0)
      assert.same({ nil, "busy", "EIO" }, { ok, message, code })
    end
  end)

  it("returns the error of unsent spans at the end, and accepts no more", function()
    local t = tracer(exporter(function() return nil, "away", false end))
    t:start "x":finish()
    local late = t:start "late"
    local ok, message, code = t:close()
    assert.is_nil(ok)
    assert.equal("away", message)
    assert.equal("EIO", code)
    assert.is_true(t:close())
    assert.is_true(t:flush())
    late:finish()
    t:start "x":finish()
    assert.same({ made = 3, sent = 0, dropped = 3, queued = 0, failures = 1, last_error = "away" }, t:stats())
    ok, message, code = t:flush()
    assert.is_nil(ok)
    assert.equal("spans were made after the tracer was closed", message)
    assert.equal("EIO", code)
    local list = {}
    t = tracer(function(batch) list[#list + 1] = batch[1].name end)
    t:start "before":finish()
    assert.is_true(t:close())
    t:start "after":finish()
    assert.same({ "before" }, list)
  end)

  it("sends metrics once in a flush, however soon they are due again", function()
    local e = exporter(taken)
    local t = tracer(e, { metrics = { interval = 1e-9 } })
    t:start "x":finish()
    local before = e.posts
    assert.is_true(t:flush())
    assert.is_true(e.posts - before <= 2, e.posts)
    t = tracer(exporter(taken, true), { metrics = { interval = 1e-9 } })
    t:start "x":finish()
    assert.equal("nothing to send with", select(2, t:flush()))
  end)
end)

describe("an exporter", function()
  local function post(kind, status, headers, body)
    return perf.exporter[kind] {}:post({ post = function() return status, headers or {}, body or "" end }, "", "traces")
  end

  it("retries the statuses that OTLP names, after the time that the backend names", function()
    for status, again in pairs { [400] = false, [408] = false, [429] = true, [500] = false, [502] = true, [503] = true,
      [504] = true } do
      local rejected, _, retry = post("otlp", status)
      assert.is_nil(rejected)
      assert.equal(again, retry, status)
    end
    for text, seconds in pairs { ["120"] = 120, ["nan"] = false, ["-1"] = false, ["inf"] = false, ["Fri, 31 Dec"] = false } do
      assert.equal(seconds or nil, (select(4, post("otlp", 503, { ["retry-after"] = text }))))
    end
  end)

  it("reads from OTLP's answer how many spans were rejected", function()
    local function rejected(body)
      local n, message = post("otlp", 200, nil, body)
      return { n, message }
    end
    assert.same({ 2, 'the backend says: the "x" is \\ long' },
      rejected [[{"partialSuccess":{"rejectedSpans":"2","errorMessage":"the \"x\" is \\ long"}}]])
    assert.same({ 3 }, rejected '{"partialSuccess": {"rejectedDataPoints": 3, "errorMessage": ""}}')
    for _, body in ipairs { "", "{}", "[", "5", '{"partialSuccess":null}', '{"partialSuccess":{"rejectedSpans":-5}}',
      '{"partialSuccess":{"rejectedSpans":{}}}' } do
      assert.same({ 0 }, rejected(body))
    end
  end)
end)
