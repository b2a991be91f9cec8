-- The story: two guides got other names, and the links to them in three places led nowhere.
describe("the guides", function()
  it("link to files that exist", function()
    local checked = 0
    local list = assert(io.popen "ls *.md doc/*.md")
    for path in list:lines() do
      local folder = path:match "^(.*/)" or ""
      local file = assert(io.open(path))
      for target in file:read("*a"):gmatch "%]%(([^)#%s]+)" do
        if not target:find "^%a+:" then
          local linked = io.open(folder .. target)
          if not linked then error(path .. " links to " .. target .. ", which is not there") end
          linked:close()
          checked = checked + 1
        end
      end
      file:close()
    end
    list:close()
    assert.is_true(checked > 10)
  end)
end)
