--- Builds records byte by byte, in the byte order of this machine or in the other one.
--
--     local b = bytes.native
--     b.record(9, 2, b.u64(0x1234), b.u32(7), b.u32(8))      type, misc, body
--
-- `bytes.native` and `bytes.swapped` have the same functions. Numbers may be of any type that core.halves accepts: beyond 2^53
-- use "0x..." text.
local core = require "perf.core"

local little = core.pack { type = "software" }:byte(1) == 1

local function ordered(little_endian)
  local b = {}
  local function put(v, n)
    local low, high = core.halves(v)
    local t = {}
    for i = 1, n do
      local word = i <= 4 and low or high
      t[i] = string.char(math.floor(word / 256 ^ ((i - 1) % 4)) % 256)
    end
    local s = table.concat(t)
    return little_endian and s or s:reverse()
  end
  function b.u8(v) return put(v, 1) end
  function b.u16(v) return put(v, 2) end
  function b.u32(v) return put(v, 4) end
  function b.u64(v) return put(v, 8) end

  --- Several numbers of 64 bits.
  function b.u64s(...)
    local t = { ... }
    for i = 1, #t do t[i] = b.u64(t[i]) end
    return table.concat(t)
  end

  --- Text with a final zero byte, padded to a multiple of 8.
  function b.text(s)
    s = s .. "\0"
    return s .. ("\0"):rep(-#s % 8)
  end

  function b.header(type, misc, size) return b.u32(type) .. b.u16(misc) .. b.u16(size) end

  function b.record(type, misc, ...)
    local body = table.concat { ... }
    return b.header(type, misc, 8 + #body) .. body
  end
  return b
end

return { native = ordered(little), swapped = ordered(not little) }
