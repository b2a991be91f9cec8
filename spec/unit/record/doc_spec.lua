-- doc/record.md names every field and type that a Record can have, and every method of an Event's ring.
local core = require "perf.core"
local util = require "spec.support.util"

describe("doc/record.md", function()
  local text = util.read_file "doc/record.md"
  local function names(word)
    return text:find("`" .. word .. "`", 1, true) ~= nil
  end

  it("names every field of a Record", function()
    for _, field in ipairs(core.record_fields()) do assert.is_true(names(field), field) end
    assert.is_true(names "raw_fields")
  end)

  it("names every type of record and every bit of sample_type", function()
    for _, row in ipairs(core.defs().record) do assert.is_true(names(row.name), row.name) end
    for _, row in ipairs(core.defs().sample) do assert.is_true(names(row.name), row.name) end
  end)

  it("names every method of a ring", function()
    for _, method in ipairs { "map", "is_mapped", "read_record", "records", "read_raw", "drain", "has_record", "poll",
      "read_aux", "lost",
      "pause_output", "resume_output", "set_output", "refresh", "fd" } do
      assert.is_function(core.Event.__index[method])
      assert.is_truthy(text:find("ev:" .. method .. "[({]"), method)
    end
  end)
end)
