--- The picture of the results: for each row with a picture, a block of bars, one for each contestant, whose length is the ratio
-- to the floor. SVG by hand; its colours follow the reader's light or dark scheme.
local M = {}

local WIDTH, LEFT, RIGHT = 760, 190, 96 -- names to the left of the bars, figures to the right
local BAR, GAP, BLOCK = 16, 5, 30
local MOST = 4 -- the axis ends here; a longer bar is cut, and marked

local style = [[
  <style>
    svg { background: #ffffff }
    text { font: 13px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; fill: #1f2328 }
    .title { font-weight: 600; font-size: 15px }
    .row { font-weight: 600 }
    .soft { fill: #59636e }
    .ours { fill: #1a7f5a }
    .peer { fill: #8c959f }
    .floor { stroke: #1f2328; stroke-width: 1.5 }
    .grid { stroke: #d1d9e0; stroke-width: 1 }
    .cut { fill: #ffffff }
    @media (prefers-color-scheme: dark) {
      svg { background: #0d1117 }
      text { fill: #f0f6fc }
      .soft { fill: #9198a1 }
      .ours { fill: #3fb98a }
      .peer { fill: #656c76 }
      .floor { stroke: #f0f6fc }
      .grid { stroke: #3d444d }
      .cut { fill: #0d1117 }
    }
  </style>]]

local function escape(s) return (s:gsub("&", "&amp;"):gsub("<", "&lt;"):gsub(">", "&gt;")) end

local function text(x, y, class, s, anchor)
  return ('  <text x="%g" y="%g" class="%s"%s>%s</text>'):format(x, y, class, anchor and ' text-anchor="' .. anchor .. '"' or "",
    escape(s))
end

local function ns(v) return v < 1000 and ("%.0f ns"):format(v) or ("%.2f us"):format(v / 1000) end

--- The SVG's text.
-- @param host the result of bench/machine.lua
-- @param done array of {row=, result=}
-- @param all the contestants
function M.draw(host, done, all)
  local scale = (WIDTH - LEFT - RIGHT) / MOST
  local out, y = {}, 30
  local function add(s) out[#out + 1] = s end
  add(text(16, y, "title", "Time of an empty measurement, in multiples of the bare system calls in C"))
  y = y + 20
  add(text(16, y, "soft", ("%s, %s%s. Minimum of many rounds; shorter is better."):format(host.kernel or "", host.cpu or "",
    host.virtual and ", " .. host.virtual or "")))
  local top = y + 14
  local bars = {}
  for _, d in ipairs(done) do
    local floor = d.result.results.floor
    if d.row.picture and floor then
      y = y + BLOCK
      bars[#bars + 1] = text(16, y, "row", d.row.picture)
      bars[#bars + 1] = text(WIDTH - 16, y, "soft", "C: " .. ns(floor.min), "end")
      y = y + 8
      for _, c in ipairs(all) do
        local r = d.result.results[c.id]
        if r and c.id ~= "floor" and not c.inner then
          local ratio = r.min / floor.min
          local shown = math.min(ratio, MOST)
          bars[#bars + 1] = text(LEFT - 8, y + BAR - 4, "", c.title:gsub("^lua%-perf, ", "perf, "), "end")
          bars[#bars + 1] = ('  <rect x="%g" y="%g" width="%.1f" height="%g" rx="2" class="%s"/>'):format(LEFT, y, shown * scale,
            BAR, c.ours and "ours" or "peer")
          if ratio > MOST then
            local x = LEFT + shown * scale - 22
            bars[#bars + 1] = ('  <path d="M%g %g l6 -%g h5 l-6 %g z" class="cut"/>'):format(x, y + BAR + 1, BAR + 2, BAR + 2)
          end
          bars[#bars + 1] = text(LEFT + shown * scale + 6, y + BAR - 4, "", ("%.2fx"):format(ratio))
          y = y + BAR + GAP
        end
      end
    end
  end
  local bottom = y + 4
  for i = 1, MOST do
    local x = LEFT + i * scale
    add(('  <line x1="%g" y1="%g" x2="%g" y2="%g" class="%s"/>'):format(x, top, x, bottom, i == 1 and "floor" or "grid"))
    add(text(x, bottom + 16, "soft", i == 1 and "1x: C" or i .. "x", "middle"))
  end
  local height = bottom + 30
  return ('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" '
    .. 'aria-label="Time of an empty measurement against bare system calls">\n%s\n%s\n%s\n</svg>\n'):format(WIDTH, height, WIDTH,
    height, style, table.concat(out, "\n"), table.concat(bars, "\n"))
end

return M
