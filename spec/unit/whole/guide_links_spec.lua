-- The story: two guides were renamed, and the links to them in three places were broken. Once: it only reads pages.
local util = require "spec.support.util"

-- The anchors of a page's headings, as GitHub makes them.
local function anchors(path)
  local set, before = {}, ""
  local function add(heading)
    set[heading:lower():gsub("[^%w%s_-]", ""):gsub("%s", "-")] = true
  end
  for line in (util.read_file(path) .. "\n"):gmatch "([^\n]*)\n" do
    if line:find "^#+ " then add(line:match "^#+ (.*)$") end
    if line:find "^===+$" or line:find "^%-%-%-+$" then add(before) end
    before = line
  end
  return set
end

describe("the guides", function()
  it("link to files and headings that exist", function()
    local checked, with_anchor = 0, 0
    for path in util.shell("ls *.md doc/*.md"):gmatch "%S+" do
      local folder = path:match "^(.*/)" or ""
      for target in util.read_file(path):gmatch "%]%(([^)%s]+)%)" do
        local file, anchor = target:match "^([^#]*)#?(.*)$"
        if not target:find "^%a+:" then
          file = file == "" and path or folder .. file
          local linked = io.open(file)
          if not linked then error(path .. " links to " .. target .. ", which is not there") end
          linked:close()
          checked = checked + 1
          if anchor ~= "" then
            if not anchors(file)[anchor] then error(path .. " links to " .. target .. ", which is no heading") end
            with_anchor = with_anchor + 1
          end
        end
      end
    end
    assert.is_true(checked > 60)
    assert.is_true(with_anchor > 15)
  end)
end)
