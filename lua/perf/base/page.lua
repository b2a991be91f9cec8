-- Writes a page as one HTML file that needs no network. All pages share a frame; each has its own body, style and scripts.
local core = require "perf.core"
local json = require "perf.base.json"

local M = {}

-- JSON for the inside of an HTML element, without anything that looks like a tag.
function M.encode(v) return (json.encode(v):gsub("<", "\\u003c")) end

local function escaped(s) return (s:gsub("[&<>\"]", { ["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ['"'] = "&quot;" })) end

-- Write a page.
-- @param put function(text)
-- @string title
-- @string dir the directory of its page.html (the body), style.css and scripts; these files are in the library
-- @tparam {string,...} scripts their names, in order
-- @param data function that puts the page's data as JSON
function M.write(put, title, dir, scripts, data)
  local function file(name) put(core.web_file(dir .. name)) end
  local fill = { DATA = data }
  function fill.TITLE() put(escaped(title)) end
  function fill.STYLE() file "style.css" end
  function fill.BODY() file "page.html" end
  function fill.SCRIPT()
    for _, name in ipairs(scripts) do file(name .. ".js") end
  end
  local frame, from = core.web_file "perf/base/page.html", 1
  for before, name, after in frame:gmatch "()@(%u+)@()" do
    put(frame:sub(from, before - 1))
    fill[name]()
    from = after
  end
  put(frame:sub(from))
end

return M
