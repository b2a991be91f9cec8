-- The story: a profile of 89 processes with C functions took 21 seconds to be made, and each snapshot of it again: the debug
-- information of the same libraries was read for each process, and at each snapshot.
local foreign = require "perf.profile.foreign"
local host = require "perf.kernel.host"
local core = require "perf.core"

it("the symbols of a file are read once for all processes and snapshots", function()
  requires { ext = { "symbols" } }
  local symbols = require "perf.symbols"
  local open, opened = symbols.open, 0
  function symbols.open(...)
    opened = opened + 1
    return open(...)
  end
  local maps, shift = host.read_file "/proc/self/maps", 0x10000000
  -- The page of vsyscalls is at the end of the addresses, and stays there.
  local function moved(digits) return #digits < 16 and ("%x"):format(tonumber(digits, 16) + shift) or digits end
  -- This process, and one that has ended, with all files at other addresses.
  local other = ("\n" .. maps):gsub("\n(%x+)%-(%x+)", function(a, b) return "\n" .. moved(a) .. "-" .. moved(b) end):sub(2)
  local images = { { pid = (core.pid()), maps = maps }, { pid = 2 ^ 22 + 1, maps = other } }
  local here = core.object_address()
  local names = foreign.new(images, 0, {})
  finally(function()
    symbols.open = open
    names:close()
  end)
  local first = names:native { kind = "native", image = 1, address = here }
  for _ = 1, 2 do
    for i = 1, 2 do
      local frame = names:native { kind = "native", image = i, address = here + (i - 1) * shift }
      assert.equal(first.name, frame.name)
      assert.equal(first.module, frame.module)
    end
    assert.equal(1, opened)
    names:see(images)
  end
end)
