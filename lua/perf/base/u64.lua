-- 64-bit numbers in event names, on interpreters whose numbers may be doubles.

local core = require "perf.core"

local u64 = {}

local ALL = "0xffffffffffffffff"
local HALF = 4294967296

-- The value of a decimal or "0x" number, exact over all 64 bits.
-- @string text digits
-- @return the value, as perf.core passes 64-bit values; or nil and the reason
function u64.parse(text)
  local hex = text:match("^0[xX](%x+)$")
  if hex then return u64.parse_hex(hex) end
  if not text:find("^%d+$") then return nil, "is not a number" end
  local lo, hi = 0, 0
  for i = 1, #text do
    lo = lo * 10 + (text:byte(i) - 48)
    hi = hi * 10 + math.floor(lo / HALF)
    lo = lo % HALF
    if hi >= HALF then return nil, "does not fit into 64 bits" end
  end
  return core.u64(lo, hi)
end

-- The value of hexadecimal digits without a prefix.
-- @return the value; or nil and the reason
function u64.parse_hex(digits)
  digits = digits:gsub("^0+", "")
  if #digits > 16 then return nil, "does not fit into 64 bits" end
  return core.u64(tonumber(digits:sub(-8), 16) or 0, tonumber(digits:sub(1, -9), 16) or 0)
end

-- The sum of two values, modulo 2^64.
function u64.add(a, b)
  local alo, ahi = core.halves(a)
  local blo, bhi = core.halves(b)
  local lo = alo + blo
  return core.u64(lo % HALF, (ahi + bhi + math.floor(lo / HALF)) % HALF)
end

-- a - b of addresses whose difference a double can hold.
function u64.distance(a, b)
  local alo, ahi = core.halves(a)
  local blo, bhi = core.halves(b)
  return (ahi - bhi) * HALF + (alo - blo)
end

-- Whether an address is the kernel's.
function u64.is_kernel(addr)
  local _, high = core.halves(addr)
  return high >= HALF / 2
end

-- Whether a value fits into `width` bits.
-- @param v a 64-bit value
-- @int width 1 to 64
function u64.fits(v, width)
  return width >= 64 or core.shr(v, width) == 0
end

-- The bits of v distributed to ranges, the lowest bits to the first range, as a PMU's format file prescribes.
-- @param v a 64-bit value that fits
-- @tparam {{int,int},...} ranges first and last bit of each
-- @return the 64-bit value with those bits set
function u64.scatter(v, ranges)
  local out = 0
  for _, range in ipairs(ranges) do
    local width = range[2] - range[1] + 1
    out = core.bor(out, core.shl(core.band(v, core.shr(ALL, 64 - width)), range[1]))
    v = core.shr(v, width)
  end
  return out
end

return u64
