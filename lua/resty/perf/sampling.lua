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

-- Samplers: one for each route that has its own n, by number from 1, and 0 for the other routes.
-- @param[opt] sample n, or {every=n, header="X-Perf", secret=text, trust=function, routes={[name]=n}}: a request with that header
-- is counted if the value is the secret, or if trust(value) returns true
-- @param[opt] random math.random
-- @param[opt] failed called with a message if trust raises an error
-- @return {number=, of=, decide=, skip=, by_route=, header=, trusts=}. number: how many samplers there are; of(route): the number
-- of a route's sampler; decide[i](): whether the next request of sampler i is counted; skip[i](): how many of its next requests
-- are not, so that decide need not be called for them; by_route: whether there is more than one sampler; header: the variable of
-- nginx that has the header, or nil; trusts(value): whether a request is counted for this value of the header (nil: none), so
-- that no sampler decides
function M.new(sample, random, failed)
  if type(sample) ~= "table" then sample = { every = sample } end
  sample = check(sample, 1)
  random = random or math.random
  local numbers, s = {}, { number = 0, decide = {}, skip = {} }
  local function add(n, what)
    s.decide[s.number], s.skip[s.number] = one_of(check_every(n, what), random)
    s.number = s.number + 1
  end
  add(sample.every or 1, "every")
  local header = sample.header
  if header ~= nil and (type(header) ~= "string" or not header:find "^[%w-]+$") then bad("header: a header's name expected") end
  local trust, secret = sample.trust, sample.secret
  if trust ~= nil and type(trust) ~= "function" then bad("trust: function expected, got %s", type(trust)) end
  if secret ~= nil and (type(secret) ~= "string" or secret == "") then bad "secret: text expected" end
  if header and (trust or secret) then s.header = "http_" .. header:lower():gsub("-", "_") end
  if sample.routes ~= nil and type(sample.routes) ~= "table" then bad("routes: table expected") end
  for route, n in pairs_of(sample.routes or {}) do
    numbers[route] = s.number
    add(n, "routes." .. tostring(route))
  end
  s.by_route = s.number > 1
  function s.of(route) return numbers[route] or 0 end

  function s.trusts(value)
    if not value or value == "" then return false end
    if value == secret or not trust then return value == secret end
    local ok, trusted = pcall(trust, value)
    if not ok and failed then failed(tostring(trusted)) end
    return ok and trusted or false
  end
  return s
end

return M
