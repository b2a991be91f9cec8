-- Breakpoints: the attr fields to watch an address.

local core = require "perf.core"
local generic = require "perf.names.generic"

local breakpoint = {}

local BITS = {r = 1, w = 2, x = 4}

-- The length of an execution breakpoint: that of a long; on Arm, that of an instruction.
local function execute_length()
  local _, machine = core.uname()
  return (machine:find("^aarch64") or machine:find("^arm") or not machine:find("64")) and 4 or 8
end

-- Whether this machine may watch so many bytes. On x86 the lengths are those of its debug registers; other machines have more.
function breakpoint.is_length(len)
  local _, machine = core.uname()
  return len == 1 or len == 2 or len == 4 or len == 8 or machine ~= "x86_64" and not machine:find("^i%d86$")
end

-- The bits of an access such as "rw".
-- @treturn ?int nil when text is not one to three different letters of r, w, x
function breakpoint.access(text)
  local bits = 0
  for letter in text:gmatch(".") do
    local bit = BITS[letter]
    if not bit or math.floor(bits / bit) % 2 == 1 then return nil end
    bits = bits + bit
  end
  return bits > 0 and bits or nil
end

-- The attr.
-- @param addr 64-bit address
-- @int[opt] len bytes; 4, and for execution the length that the machine needs
-- @int[opt=3] bits the result of breakpoint.access
function breakpoint.attr(addr, len, bits)
  bits = bits or 3
  return {type = generic.BREAKPOINT, config = 0, bp_addr = addr, bp_type = bits,
    bp_len = len or (bits == 4 and execute_length() or 4)}
end

return breakpoint
