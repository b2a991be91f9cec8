-- The story: a perf.data file whose attr has a bit of sample_type that no table names, or a mask that no attr accepts, could not
-- be read on LuaJIT. The records' layout was looked up by the attr packed again, which raised an error: pack did not know the
-- names that unpack gives to such bits ("bit25"). Found by spec/fuzz/data_spec.lua.
local core = require "perf.core"
local data = require "perf.data"
local perfdata = require "spec.support.perfdata"
local util = require "spec.support.util"

local m = perfdata.maker "<"

local function read(attr)
  local out
  util.with_tmpname(function(path)
    local comm = m.record(3, 0, m.u32(5), m.u32(6), m.text "name")
    util.write_file(path, m.file {attrs = {{attr = m.attr(attr), ids = {1}}}, data = comm})
    local file = assert(data.open(path))
    for rec in file:records() do out = {rec.type, rec.comm, rec:totable().tid, file.attrs[1].attr} end
    file:close()
  end)
  return out
end

describe("an attr that is newer than the tables, or damaged,", function()
  it("is packed into the bytes that it was unpacked from", function()
    local attr = core.unpack(core.pack {type = 1, config = 9, sample_type = {"ip", "bit25", "bit63"}})
    assert.same({"ip", "bit25", "bit63"}, attr.sample_type)
    assert.equal(core.pack(attr), core.pack(core.unpack(core.pack(attr))))
    for _, name in ipairs {"bit64", "bit-1", "bit", "bit2x", "bit 5", "bit+5"} do
      assert.error_matches(function() core.pack {sample_type = {name}} end, "unknown name")
    end
  end)

  it("does not prevent reading a file's records", function()
    for _, attr in ipairs {{sample_type = 1 + 2 ^ 25}, {sample_type = 1, sample_regs_intr = -1}} do
      local got = assert(read(attr))
      assert.same({"comm", "name", 6}, {got[1], got[2], got[3]})
    end
  end)
end)
