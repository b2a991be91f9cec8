-- Clients of the pages: who may see them, who may get a profile, and who may change something.
--
-- Addresses are compared as bytes. A request that changes something is refused in three cases: if a browser sends it for another
-- site (Origin, Sec-Fetch-Site); if its Host is a foreign name, which an attacker's DNS server may have led here; and if a
-- browser lacks the token, which only a page of this site can read. A profile is refused in the first two cases. If the
-- configuration has a token, all clients need it for both.
local argument = require "perf.base.argument"
local checks = require "perf.api.check"
local ffi = require "ffi"

ffi.cdef "int inet_pton(int family, const char *text, void *bytes);"

local M = {}

local families = { { 2, 4 }, { 10, 16 } } -- AF_INET and AF_INET6, with the bytes of an address
local bytes = ffi.new "uint8_t[16]"
local MAPPED = ("\0"):rep(10) .. "\255\255" -- ::ffff:192.0.2.1 is the address 192.0.2.1

-- The bytes of an address in text: 4 or 16, or nil.
local function address_of(text)
  for _, family in ipairs(families) do
    if ffi.C.inet_pton(family[1], text, bytes) == 1 then
      local address = ffi.string(bytes, family[2])
      return address:sub(1, 12) == MAPPED and address:sub(13) or address
    end
  end
end

-- A range of addresses from text such as "10.0.0.0/8": {bytes=, bits=}, or nil.
local function range_of(text)
  local from, bits = text:match "^([%x:.]+)/?(%d*)$"
  local address = from and address_of(from)
  if not address then return nil end
  local most = 8 * #address
  bits = bits == "" and most or tonumber(bits) - (from:find(":", 1, true) and most == 32 and 96 or 0)
  return bits >= 0 and bits <= most and { bytes = address, bits = bits } or nil
end

local function is_within(address, range)
  if #address ~= #range.bytes then return false end
  local whole, rest = math.floor(range.bits / 8), range.bits % 8
  if address:sub(1, whole) ~= range.bytes:sub(1, whole) then return false end
  local unit = 2 ^ (8 - rest)
  return rest == 0 or math.floor(address:byte(whole + 1) / unit) == math.floor(range.bytes:byte(whole + 1) / unit)
end

local function is_local(address)
  return address == "::1" or address == "unix:" or address:gsub("^::ffff:", ""):find "^127%.%d+%.%d+%.%d+$" ~= nil
end

local function from_list(list)
  local ranges = {}
  for i, text in ipairs(list) do
    ranges[i] = type(text) == "string" and range_of(text)
      or argument.raisef("option 'from': '%s' is neither an address nor a range such as 10.0.0.0/8", tostring(text))
  end
  return function(text)
    local address = address_of(text)
    for _, range in ipairs(address and ranges or {}) do
      if is_within(address, range) then return true end
    end
    return false
  end
end

-- A function of a client's address that tells whether the client may see the pages. Raises for an invalid option.
-- @param from option of resty.perf.status
function M.allowing(from)
  if from == nil then return is_local end
  if from == "any" then return function() return true end end
  if type(from) == "function" then return from end
  return from_list(type(from) == "table" and from or { from })
end

-- A function that checks the options of a page, and remembers the results.
-- @param name in perf.api.options
-- @param[opt] more function of the checked options
-- @return function(opts), which returns {allows=, token=, more=}
function M.options(name, more)
  local check, prepared = checks.options(name), setmetatable({}, { __mode = "k" })
  return function(opts)
    local known = opts and prepared[opts]
    if known then return known end
    local checked = check(opts, 1)
    local result = { allows = M.allowing(checked.from), token = checked.token, more = more and more(checked) }
    if opts then prepared[opts] = result end
    return result
  end
end

-- Whether a Host names this machine: by an address, "localhost", or the server's name in nginx.conf.
local function is_ours(host, server_name)
  local name = host:gsub(":%d+$", ""):lower()
  return name == "localhost" or name == server_name:lower() or address_of((name:gsub("^%[(.*)%]$", "%1"))) ~= nil
end

-- The reason to suspect that another site has led a browser here; nil if there is none.
function M.foreign()
  local var = ngx.var
  local host, origin, site = var.http_host, var.http_origin, var.http_sec_fetch_site
  if not host and ngx.req.http_version() < 2 then return "a Host is missing" end
  -- nginx's own `host` is that of the request line, if it has one.
  for _, name in ipairs { host or var.host, var.host } do
    if not is_ours(name, var.server_name) then return "Host is neither an address nor the server_name of nginx.conf" end
  end
  if site == "cross-site" or site == "same-site" or origin and origin:gsub("^%w+://", "") ~= host then
    return "from another site"
  end
end

-- The reason why this request may not get a profile; nil if it may.
-- @param[opt] secret the token of the configuration
function M.no_profile(secret)
  local reason = M.foreign()
  if reason or not secret or ngx.var.http_x_perf_token == secret then return reason end
  return "the header X-Perf-Token has to be the configured token"
end

-- The reason why this request may not change anything; nil if it may.
-- @param[opt] secret the token of the configuration
-- @param[opt] page_token the token that pages have
function M.refusal(secret, page_token)
  local reason = M.no_profile(secret)
  if reason then return reason end
  local var = ngx.var
  local token = var.http_x_perf_token or ""
  local browser = var.http_origin or var.http_sec_fetch_site or var.http_referer or var.http_cookie
  if not secret and browser and token ~= page_token then
    return "the header X-Perf-Token has to be the page's token"
  end
end

-- The token of pages, the same in all workers.
-- @param dict ngx.shared.DICT
function M.page_token(dict)
  local token = dict:get "token"
  if token then return token end
  local random = io.open("/dev/urandom", "rb")
  local text = random and random:read(16) or ""
  if random then random:close() end
  if #text < 16 then return nil end
  dict:safe_add("token", (text:gsub(".", function(c) return ("%02x"):format(c:byte()) end)))
  return dict:get "token"
end

return M
