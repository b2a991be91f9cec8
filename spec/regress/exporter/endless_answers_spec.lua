-- The story: a backend whose answer never ended (header lines, one "100 Continue" after another, trailers) kept flush(1), poll
-- and the finish() of a span for ever, since the deadline was only looked at when a socket would block, and only the buffer was
-- bounded, not the answer. Lines of many spaces took time by the square of the spaces.
local clock = require "perf.base.clock"
local http = require "perf.exporter.http"

-- Post over a stream that never blocks: it has the texts of `first`, and then `again` without end; "closed" if there is none.
-- @return the results of http.post; the number of reads
local function post(first, again, deadline)
  local reads, closed = 0, false
  local stream = { send = function() return true end, close = function() closed = true end }
  function stream.receive()
    reads = reads + 1
    local text = first[reads] or again
    if text then return text end
    return nil, "closed"
  end
  local self = {}
  local status, message, body = http.post(self, { url = http.parse_url "http://host/", headers = {}, body = "" },
    deadline or clock.now() + 3600e9, function() return stream end)
  assert.equal(self.stream == nil, closed)
  return status, message, body, reads
end

local OK = "HTTP/1.1 200 OK\r\n"
local CONTINUE = "HTTP/1.1 100 Continue\r\n\r\n"
local CHUNKED = OK .. "Transfer-Encoding: chunked\r\n\r\n"

describe("an answer that does not end", function()
  for name, answer in pairs {
    ["header lines"] = { OK, ("x: y\r\n"):rep(1000) },
    ["one line"] = { OK, ("x"):rep(8192) },
    ["a line of spaces"] = { OK .. "a: b", (" "):rep(8192) },
    ["answers before the final one"] = { CONTINUE, CONTINUE:rep(100) },
    ["trailers"] = { CHUNKED .. "0\r\n", ("x: y\r\n"):rep(1000) },
    ["a long chunk"] = { CHUNKED .. "7fffffff\r\n", ("x"):rep(8192) },
    ["a chunk of 2^64 bytes and more"] = { CHUNKED .. ("f"):rep(20) .. "\r\n", ("x"):rep(8192) },
    ["short chunks"] = { CHUNKED, ("1\r\nx\r\n"):rep(1000) },
    ["a body of a given length"] = { OK .. "Content-Length: 1" .. ("0"):rep(30) .. "\r\n\r\n", ("x"):rep(8192) },
  } do
    it("is refused: " .. name, function()
      local status, message, _, reads = post({ answer[1] }, answer[2])
      assert.is_nil(status)
      assert.equal("host:80: the answer is too long", message)
      assert.is_true(reads * #answer[2] <= 2 ^ 20 + 3 * 8192, reads)
    end)
  end

  it("is accepted by its status if its body has no length", function()
    local status, _, body = post({ OK .. "\r\n" }, ("x"):rep(8192))
    assert.equal(200, status)
    assert.is_true(#body > 0 and #body <= 2 ^ 20)
  end)

  it("ends at the deadline, even if its bytes are always there", function()
    local status, message, _, reads = post({ OK }, "x", 0)
    assert.is_nil(status)
    assert.equal("host:80: timeout", message)
    assert.is_true(reads <= 2, reads)
  end)
end)

describe("an answer", function()
  it("that came in time is accepted, even if it is read late", function()
    assert.equal(200, (post({ OK .. "Content-Length: 2\r\n\r\n{}" }, nil, 0)))
  end)

  it("is read from pieces of any size", function()
    local text = CONTINUE .. CHUNKED .. "3;a=b\r\nabc\r\n0a\r\ndefghijklm\r\n0\r\nx: y\r\n\r\n"
    for size = 1, #text do
      local pieces = {}
      for from = 1, #text, size do pieces[#pieces + 1] = text:sub(from, from + size - 1) end
      local status, headers, body = post(pieces)
      assert.same({ 200, "chunked", "abcdefghijklm" }, { status, headers["transfer-encoding"], body })
    end
    local _, headers, body = post { "HTTP/1.1 200 OK\nContent-Length: \t 3 \n", "A:  b c  \n\nabc" }
    assert.same({ "3", "b c", "abc" }, { headers["content-length"], headers.a, body })
  end)
end)
