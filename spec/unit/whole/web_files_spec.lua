-- Pages, styles and scripts are built into the module: csrc/binding/web_files.c.
local core = require "perf.core"

describe("web files", function()
  it("are built in unchanged from lua/", function()
    local pipe, n = assert(io.popen "find lua -name '*.html' -o -name '*.css' -o -name '*.js'"), 0
    for path in pipe:lines() do
      local f = assert(io.open(path, "rb"))
      assert.equal(f:read "*a", core.web_file((path:gsub("^lua/", ""))))
      f:close()
      n = n + 1
    end
    pipe:close()
    assert.is_true(n > 0)
  end)

  it("have the paths that are listed, and no others", function()
    assert.has_error(function() core.web_file "none.html" end, "no file none.html is built in")
  end)
end)
