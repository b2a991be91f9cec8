-- The story: perf.start with other events opens a new accounting before it closes the older one. If the older one grew between
-- these, it showed its own labels to profilers in other processes again, so samples had the routes of ended requests.
local kit = require "testkit"

describe("the label of resty.perf's open turn", function()
  it("is that of the newest accounting, whatever the older one does", function()
    assert.same({ "newer", "newer", "newer", "newer" }, { kit.labels_of_two() })
  end)
end)
