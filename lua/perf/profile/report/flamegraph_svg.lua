-- A flame graph as a picture: an SVG without scripts, for a page, a report or a README. Frames that are narrower than a pixel are
-- left out. It follows the viewer's light or dark colours where a browser shows it.
local text = require "perf.profile.report.frame_names"

local M = {}

local WIDTH, ROW, CHARACTER, MARGIN = 1200, 17, 7.3, 10

M.style = [[
<style>
text { font: 12px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; fill: #1f2328; white-space: pre }
.title { font: 600 14px system-ui, "DejaVu Sans", sans-serif }
.soft { fill: #59636e }
.page { fill: #ffffff }
.lua, .range { fill: #f4a460 } .builtin { fill: #9fd3a8 } .c { fill: #8fc1e3 } .native { fill: #a5c8d9 } .kernel { fill: #eda3ae }
.state { fill: #d6c2e9 } .zone { fill: #9ad8c8 } .jit { fill: #c9b1dd } .root, .other { fill: #d9d9d9 }
.more { fill: #f2857d } .less { fill: #7da7f2 }
@media (prefers-color-scheme: dark) {
text { fill: #e6e8ec } .soft { fill: #9aa3ad } .page { fill: #18181b }
.lua, .range { fill: #98571c } .builtin { fill: #3b7a47 } .c { fill: #2f668d } .native { fill: #3b6579 } .kernel { fill: #8d3945 }
.state { fill: #61477c } .zone { fill: #2f6f60 } .jit { fill: #5c4275 } .root, .other { fill: #3d3d44 }
.more { fill: #a23b33 } .less { fill: #3560ad }
}
</style>]]

local function escape(s)
  return (s:gsub("[&<>\"]", { ["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ['"'] = "&quot;" }))
end

M.escape = escape

-- The number of characters of UTF-8, and a text of its first n.
local function length(s) return select(2, s:gsub("[^\128-\191]", "")) end

local function first(s, n)
  local at, count = 1, 0
  for from in s:gmatch "()[^\128-\191]" do
    count = count + 1
    if count > n then break end
    at = from
  end
  if count <= n then return s end
  return s:sub(1, (s:find("[^\128-\191]", at + 1) or #s + 1) - 1)
end

-- The text in a frame with room for n characters: "parse app.lua:12", "parse:12" or "pa..:12": the line is kept.
-- @param f {name=, func=, file=, line=, lastline=}
function M.label(f, n)
  local full = text.title(f)
  if length(full) <= n then return full end
  local name, line = f.func or f.name, f.file and f.line and text.lines(f) or ""
  if length(name .. line) <= n then return name .. line end
  local room = n - #line - 2
  if room >= 2 then return first(name, room) .. ".." .. line end
  return n >= 4 and first(name, n - 2) .. ".." or nil
end

-- The change of a node's share, or of its weight for memory.
local function change(tree, node, memory)
  local a, b = tree.sums_of[1], tree.sums_of[2]
  local function share(sums) return memory and (sums[node] or 0) or (sums[1] or 0) > 0 and (sums[node] or 0) / sums[1] or 0 end
  return share(a) - share(b)
end

-- The sums of each side alone: children come after their parents.
local function sums_of(tree, side)
  local sums, parent = {}, tree.parent
  for i = tree.n, 1, -1 do
    sums[i] = (sums[i] or 0) + (side.own[i] or 0)
    local p = parent[i]
    if p > 0 then sums[p] = (sums[p] or 0) + sums[i] end
  end
  return sums
end

-- Write the picture.
-- @param tree, each_node of flamegraph.lua
function M.write(put, pause, tree, each_node, prof, before, title, subtitle)
  local memory, sums = prof.unit == "bytes", tree.sums
  if before then tree.sums_of = { sums_of(tree, tree[1]), sums_of(tree, tree[2]) } end
  local scale = sums[1] > 0 and (WIDTH - 2 * MARGIN) / sums[1] or 0
  local body, deepest, x_of = {}, 0, { [0] = MARGIN }
  each_node(tree, function(node, depth)
    local width, x = sums[node] * scale, x_of[depth]
    x_of[depth], x_of[depth + 1] = x + width, x
    if width < 1 then return end
    deepest = math.max(deepest, depth)
    local f = tree.frames[tree.frame[node] + 1]
    local class = f.kind or "other"
    if before then
      local d = change(tree, node, memory)
      class = node == 1 and "other" or d > 0 and "more" or d < 0 and "less" or "other"
    end
    local room = math.floor((width - 6) / CHARACTER)
    local share = ("%.2f %%"):format(100 * sums[node] / sums[1])
    local label = room >= 3 and M.label(f, room)
    local y = depth * ROW
    local words = label and ('<text x="%.1f" y="%d">%s</text>'):format(x + 3, y + 12, escape(label)) or ""
    body[#body + 1] = ("<g><title>%s: %s, %s</title>"):format(escape(text.title(f)), text.amount(sums[node], prof.unit), share)
      .. ('<rect class="%s" x="%.1f" y="%d" width="%.1f" height="%d" rx="1"/>%s</g>'):format(class, x, y,
        math.max(width - 0.5, 0.5), ROW - 1, words)
  end, pause)
  local height = 62 + (deepest + 1) * ROW + MARGIN
  put(('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-label="%s">\n')
    :format(WIDTH, height, WIDTH, height, escape("Flame graph: " .. title)))
  put(M.style .. ('\n<rect class="page" width="%d" height="%d"/>\n'):format(WIDTH, height))
  put(('<text class="title" x="%d" y="22">%s</text>\n'):format(MARGIN, escape(title)))
  put(('<text class="soft" x="%d" y="42">%s</text>\n<g transform="translate(0,54)">\n'):format(MARGIN, escape(subtitle)))
  put(table.concat(body, "\n"))
  put "\n</g>\n</svg>\n"
end

return M
