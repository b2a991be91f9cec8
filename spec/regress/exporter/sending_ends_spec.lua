-- The story: one attribute of 25 MB lost the 300 spans in its batch, since the backend answered 413. And close(), at the end of a
-- program, gave up at the first answer that asked to retry later: after one 503, 100 spans were lost, which flush() would have
-- sent. Twice: the sender's answers to a backend are the same in Lua 5.1 to LuaJIT.
local perf = require "perf"
local stats = require("spec.support.spans").stats
local backend = require "spec.support.backend"
local posted = require "spec.support.posted"
local util = require "spec.support.util"

local function tracer(exporter, options)
  options = options or {}
  options.events, options.exporter = false, exporter
  return assert(perf.tracer(options))
end

local function finish(t, n)
  for i = 1, n do t:start("span " .. i):finish() end
end

local function names(bodies)
  local seen, n = {}, 0
  for _, body in ipairs(bodies) do
    for name in body:gmatch '"name":"(span %d+)"' do
      if not seen[name] then n = n + 1 end
      seen[name] = true
    end
  end
  return n
end

describe("a batch that is too large", function()
  for _, answer in ipairs { { 413, {}, "too much" }, { 400, {}, '{"code":3,"message":"http: request body too large"}' } } do
    it("is sent in parts, and loses only the span that is too large for any request (" .. answer[1] .. ")", function()
      local taken = {}
      local exporter = posted("otlp", function(request)
        if #request.body > 1e5 then return answer[1], answer[2], answer[3] end
        taken[#taken + 1] = request.body
        return 200
      end)
      local t = tracer(exporter)
      finish(t, 150)
      t:start("large", { attributes = { text = ("x"):rep(1e6) } }):finish()
      for i = 151, 300 do t:start("span " .. i):finish() end
      local ok, message, code = t:flush()
      assert.same({ nil, "EIO" }, { ok, code })
      assert.matches("answered " .. answer[1], message)
      assert.same({ 301, 300, 1, 0 }, stats(t))
      assert.equal(300, names(taken))
    end)
  end

  it("is not built from ordinary spans, since the size of a request is bounded", function()
    for _, kind in ipairs { "otlp", "zipkin" } do
      local exporter, bodies = posted(kind)
      local t = tracer(exporter, { batch_bytes = 5000 })
      finish(t, 200)
      t:start("large", { attributes = { text = ("x"):rep(20000) } }):finish()
      finish(t, 20)
      assert.is_true(t:flush())
      assert.same({ 221, 221, 0, 0 }, stats(t))
      assert.equal(200, names(bodies))
      local larger = 0
      for _, body in ipairs(bodies) do
        if #body > 6000 then
          larger = larger + 1
          assert.is_nil(body:find("span ", 1, true)) -- alone
        end
      end
      assert.equal(1, larger)
      assert.is_true(#bodies < 30, #bodies)
    end
  end)

  it("is not lost for one span that cannot be encoded", function()
    local exporter, bodies = posted "otlp"
    local writer_of = exporter.writer
    function exporter.writer(self, resource)
      local writer = writer_of(self, resource)
      local add = writer.add
      function writer.add(w, s)
        if s.name == "bad" then error "not enough memory" end
        return add(w, s)
      end
      return writer
    end
    local t = tracer(exporter)
    finish(t, 10)
    t:start "bad":finish()
    finish(t, 10)
    assert.equal("EIO", select(3, t:flush()))
    assert.same({ 21, 20, 1, 0 }, stats(t))
    assert.equal(1, #bodies)
    assert.matches("not enough memory", t:stats().last_error)
  end)

  it("is also split after the answer of a real backend", function()
    requires { module = { "socket", "dkjson" } }
    local b = backend.start { statuses = "413,200" }
    local t = tracer(perf.exporter.otlp { endpoint = b.url })
    finish(t, 100)
    assert.is_true(t:close())
    assert.same({ 100, 100, 0, 0 }, stats(t))
    assert.equal(200, #b:spans()) -- the whole batch, and its halves
    b:stop()
  end)
end)

describe("a batch that a backend asks to retry later", function()
  local b
  before_each(function()
    requires { module = { "socket", "dkjson" } }
    b = nil
  end)
  after_each(function() if b then b:stop() end end)

  it("is retried by close, until its deadline", function()
    b = backend.start { statuses = "503,drop,429,200" }
    local t = tracer(perf.exporter.otlp { endpoint = b.url })
    finish(t, 100)
    assert.is_true(t:close(60))
    assert.same({ 100, 100, 0, 0 }, stats(t))
    assert.equal(4, #b:requests())
    b:stop()
    b = backend.start { statuses = "503" }
    t = tracer(perf.exporter.otlp { endpoint = b.url })
    finish(t, 100)
    local ok, message, code = t:close(2)
    -- On a busy machine an attempt may be under way at the deadline.
    assert.is_true(not ok and (code == "EIO" or code == "ETIMEDOUT"), code)
    assert.matches("answered 503", message)
    assert.same({ 100, 0, 100, 0 }, stats(t))
    assert.is_true(#b:requests() >= 2)
  end)

  it("is retried at the end of a program", function()
    b = backend.start { statuses = "503,200" }
    local code = [[local t = require "perf".tracer {events = false} for _ = 1, 100 do t:start "last words":finish() end %s]]
    local function run(last)
      local before = #b:requests()
      local output, status = util.shell(("OTEL_EXPORTER_OTLP_ENDPOINT=%s %s -e '%s'")
        :format(b.url, util.lua(), code:format(last)))
      assert.same({ "", 0 }, { output, status })
      local requests = b:requests()
      assert.equal(2, #requests - before, last)
      assert.equal(100, select(2, requests[#requests].body:gsub('"last words"', "")))
    end
    for _, last in ipairs { "", "os.exit(0, true)" } do
      run(last)
      b:stop()
      b = backend.start { statuses = "503,200" }
    end
  end)

  it("is sent also if the backend did not answer at all, and is back before the deadline", function()
    local first = backend.start()
    finally(function() first:stop() end)
    first:crash()
    local t = tracer(perf.exporter.otlp { endpoint = first.url })
    finish(t, 100)
    backend.wait_for("a refused connection", function()
      t:poll()
      return t:stats().failures > 0 or nil
    end)
    b = backend.start { port = first.port, log = first.log }
    assert.is_true(t:close(60))
    assert.same({ 100, 100, 0, 0 }, stats(t))
  end)

  it("is retried at once by flush and close if the answer names no time", function()
    local n = 0
    local exporter = posted("otlp", function()
      n = n + 1
      return 503
    end)
    local t = tracer(exporter, { delay = 0 })
    finish(t, 1)
    t:poll()
    for i = 1, 5 do
      assert.equal(i, n)
      t:flush(0)
    end
    assert.same({ 1, 0, 0, 1 }, stats(t))
    t:close(0)
    assert.equal(7, n)
    assert.same({ 1, 0, 1, 0 }, stats(t))
  end)

  it("is not retried before the time that the answer names, except by close shortly before its deadline", function()
    local n = 0
    local exporter = posted("otlp", function()
      n = n + 1
      return n < 2 and 503 or 200, { ["retry-after"] = "3600" }
    end)
    local t = tracer(exporter, { delay = 0 })
    finish(t, 1)
    t:poll()
    assert.equal("ETIMEDOUT", select(3, t:flush(0.1)))
    assert.equal(1, n)
    assert.is_true(t:close(0.4))
    assert.same({ 1, 1, 0, 0 }, stats(t))
  end)
end)

describe("Retry-After", function()
  local function wanted(headers)
    local exporter = perf.exporter.otlp {}
    return (select(4, exporter:post({ post = function() return 503, headers, "" end }, "", "traces")))
  end

  it("is a number of seconds, or a date", function()
    local now = { "Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994" }
    local later = { [0] = now, [3] = { "Sun, 06 Nov 1994 08:49:40 GMT", "Sunday, 06-Nov-94 08:49:40 GMT" },
      [86400 * 116 + 1] = { "Thu, 02 Mar 1995 08:49:38 GMT" }, [86400 * 31] = { "Wed Dec  7 08:49:37 1994" } }
    for seconds, list in pairs(later) do
      for _, text in ipairs(list) do
        for _, date in ipairs(now) do assert.equal(seconds, wanted { ["retry-after"] = text, date = date }) end
      end
    end
    assert.equal(0, wanted { ["retry-after"] = now[1], date = "Mon, 07 Nov 1994 00:00:00 GMT" }) -- it is over
    assert.equal(29 * 86400, wanted { ["retry-after"] = "Fri, 01 Mar 2024 00:00:00 GMT", date = "Thu, 01 Feb 2024 00:00:00 GMT" })
    assert.equal(7, wanted { ["retry-after"] = "7" })
  end)

  it("is compared with the local clock if the answer has no date", function()
    local seconds = wanted { ["retry-after"] = os.date("!%a, %d %b %Y %H:%M:%S GMT", os.time() + 1000) }
    assert.is_true(seconds > 900 and seconds <= 1000, seconds)
  end)

  it("is ignored if it is invalid", function()
    for _, text in ipairs { "Sun, 06 Foo 1994 08:49:37 GMT", "Sun, 06 Nov 994 08:49:37 GMT", "tomorrow", "" } do
      assert.is_nil(wanted { ["retry-after"] = text })
    end
  end)
end)
