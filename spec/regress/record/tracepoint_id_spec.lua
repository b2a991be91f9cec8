-- The story: `totable` and `raw_fields` of a sample raised "tracepoint's name, id or Format expected" if the file's attr is of a
-- tracepoint and its config is 0 or more than a number can hold. No kernel writes that, but a damaged file may contain it.
local data = require "perf.data"
local perfdata = require "spec.support.perfdata"
local util = require "spec.support.util"

local RAW = 2 ^ 10
local m = perfdata.maker "<"

describe("a raw record of a tracepoint with an impossible id", function()
  it("has no raw_fields, and can be read", function()
    for _, config in ipairs { 0, { 1, 2 ^ 31 }, { 2 ^ 32 - 1, 2 ^ 32 - 1 } } do
      util.with_tmpname(function(path)
        local attr = m.attr { type = 2, config = config, sample_type = RAW }
        local sample = m.record(9, 0, m.u32(12), ("x"):rep(12))
        util.write_file(path, m.file { attrs = { { attr = attr, ids = { 1 } } }, data = sample })
        local file = assert(data.open(path))
        local rec = assert(file:read_record())
        assert.equal(("x"):rep(12), rec.raw)
        assert.is_nil(rec.raw_fields)
        assert.equal("sample", rec:totable().type)
        assert.matches("raw=12 bytes", tostring(rec), 1, true)
        file:close()
      end)
    end
  end)
end)
