-- Selects the requests that are counted: one of n, those with a header that is trusted, more or fewer of a route. Any client can
-- send a header, so one is trusted only if its value is the secret, or if the function `trust` says so.
--
-- One of n means one of each n consecutive requests, at a random place among them: the share is exact, and a pattern in the
-- traffic does not always meet the same place.
local argument = require "perf.base.argument"
local checks = require "perf.api.check"
local pairs_of = require "perf.base.pairs"

local check = checks.options(checks.rows "resty.perf.start".sample.options)

local M = {}

local function bad(text, ...) argument.raisef("sample: " .. text, ...) end

local function check_every(n, what)
  if type(n) ~= "number" or n ~= math.floor(n) or n < 0 or n >= 2 ^ 53 then
    bad("%s: 1 for every request, n for one of n, or 0 for none expected, got %s", what, tostring(n))
  end
  return n
end

local function never() return false end
local function infinite() return math.huge end

-- Choose one of each n consecutive calls, at a random place among them.
-- @return decide(), whether this call is chosen; skip(), how many of the next calls are not chosen, and are left out then
local function one_of(n, random)
  if n == 0 then return never, infinite end
  local left, after -- the calls before the next chosen one; those of its n that come after it
  local function choose()
    local place = n == 1 and 1 or random(n)
    left, after = (after or 0) + place - 1, n - place
  end
  local function decide()
    if not left then choose() end
    left = left - 1
    if left >= 0 then return false end
    left = nil
    return true
  end
  local function skip()
    if not left then choose() end
    local skipped = left
    left = 0
    return skipped
  end
  return decide, skip
end

-- A sampler.
-- @param[opt] sample n, or {every=n, header="X-Perf", secret=text, trust=function, routes={[name]=n}}: a request with that header
-- is counted if the value is the secret, or trust(value) returns true
-- @param[opt] random math.random
-- @param[opt] failed called with a message if trust raises an error
-- @return decide(route, header_value); the variable of nginx that has the header, or nil; and, if decide needs neither argument,
-- skip(): how many of the next requests are not chosen, so that decide need not be called for them
function M.new(sample, random, failed)
  if type(sample) ~= "table" then sample = { every = sample } end
  sample = check(sample, 1)
  random = random or math.random
  local general, skip = one_of(check_every(sample.every or 1, "every"), random)
  local header = sample.header
  if header ~= nil and (type(header) ~= "string" or not header:find "^[%w-]+$") then bad("header: a header's name expected") end
  local trust, secret = sample.trust, sample.secret
  if trust ~= nil and type(trust) ~= "function" then bad("trust: function expected, got %s", type(trust)) end
  if secret ~= nil and (type(secret) ~= "string" or secret == "") then bad "secret: text expected" end
  if not (trust or secret) then header = nil end
  local by_route = {}
  if sample.routes ~= nil and type(sample.routes) ~= "table" then bad("routes: table expected") end
  for route, n in pairs_of(sample.routes or {}) do
    by_route[route] = (one_of(check_every(n, "routes." .. tostring(route)), random))
  end

  local function is_trusted(value)
    if value == secret or not trust then return value == secret end
    local ok, trusted = pcall(trust, value)
    if not ok and failed then failed(tostring(trusted)) end
    return ok and trusted
  end

  local function decide(route, value)
    if value and value ~= "" and is_trusted(value) then return true end
    return (by_route[route] or general)()
  end
  return decide, header and "http_" .. header:lower():gsub("-", "_") or nil,
    not header and next(by_route) == nil and skip or nil
end

return M
