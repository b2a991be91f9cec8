-- Makes the pictures of README.md from the library's output: measurement.svg shows `luaperf stat` of examples/slow.lua and
-- examples/fast.lua, flamegraph.svg the flame graph of a profile.
--
--     eval "$(make -s env)" && luajit tools/pictures.lua [DIRECTORY [PROFILE]]
--
-- The profile is of examples/demo.lua (which needs cjson and dkjson), unless a file of `luaperf record` is given.
local load_profile = require "perf.profile.load".load

local directory = arg[1] or "doc/images"
local WIDTH = 860

local STYLE = [[
  <style>
    text { font: 12px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; fill: #1f2328; white-space: pre }
    .title { font: 600 14px system-ui, "DejaVu Sans", sans-serif }
    .soft { fill: #59636e }
    .page { fill: #ffffff }
    .lua { fill: #f4a460 } .builtin { fill: #9fd3a8 } .c { fill: #8fc1e3 } .state { fill: #d6c2e9 } .other { fill: #d9d9d9 }
    .terminal { fill: #f6f8fa; stroke: #d1d9e0 }
  </style>]]

local function escape(s)
  return (s:gsub("[&<>]", { ["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;" }))
end

local function text(x, y, s, class)
  return ('  <text x="%.1f" y="%.1f"%s>%s</text>'):format(x, y, class and ' class="' .. class .. '"' or "", escape(s))
end

local function write(name, label, height, body)
  local path = directory .. "/" .. name
  local file = assert(io.open(path, "w"))
  file:write(('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-label="%s">\n')
    :format(WIDTH, height, WIDTH, height, label))
  file:write(STYLE, ('\n  <rect class="page" width="%d" height="%d"/>\n'):format(WIDTH, height), table.concat(body, "\n"),
    "\n</svg>\n")
  file:close()
  print("wrote " .. path)
end

local function output_of(command)
  local pipe = assert(io.popen(command))
  local output = pipe:read "*a"
  pipe:close()
  return output
end

-- "encode2 dkjson.lua:308", or "dkjson.lua:308-310", for Lua code; the name of any other frame.
local function title_of(frame)
  if not frame.file then return frame.name end
  local lines = ("%d"):format(frame.line) .. (frame.lastline and ("-%d"):format(frame.lastline) or "")
  return ("%s %s:%s"):format(frame.func or "?", frame.file:match "[^/]*$", lines)
end

-- A tree of frames: {name=, kind=, weight=, children = {frame, ...}}, with the outermost frame of the stacks at its root.
local function tree_of(profile)
  local root = { name = "all", kind = "other", weight = 0, children = {} }
  for _, sample in ipairs(profile:samples()) do
    local node = root
    root.weight = root.weight + tonumber(sample.weight)
    for i = #sample.stack, 1, -1 do
      local frame, child = sample.stack[i], nil
      local name = title_of(frame)
      for _, known in ipairs(node.children) do
        if known.name == name then child = known end
      end
      if not child then
        child = { name = name, kind = frame.kind, weight = 0, children = {} }
        node.children[#node.children + 1] = child
      end
      child.weight = child.weight + tonumber(sample.weight)
      node = child
    end
  end
  return root
end

local ROW, CHARACTER, LEFT = 17, 7.3, 10

-- Draws a frame and the frames that it called; returns the deepest level reached.
local function draw(body, frame, x, level, scale, bottom)
  local width = frame.weight * scale
  if width < 1.5 then return level end
  local y = bottom - level * ROW
  local class = STYLE:find("." .. frame.kind .. " ", 1, true) and frame.kind or "other"
  body[#body + 1] = ('  <rect class="%s" x="%.1f" y="%g" width="%.1f" height="%g" rx="1"><title>%s</title></rect>')
    :format(class, x, y, math.max(width - 0.5, 0.5), ROW - 1, escape(frame.name))
  local room = math.floor((width - 6) / CHARACTER)
  if room >= 4 then
    body[#body + 1] = text(x + 3, y + 12, #frame.name <= room and frame.name or frame.name:sub(1, room - 2) .. "..")
  end
  table.sort(frame.children, function(a, b) return a.name < b.name end)
  local deepest = level
  for _, child in ipairs(frame.children) do
    deepest = math.max(deepest, draw(body, child, x, level + 1, scale, bottom))
    x = x + child.weight * scale
  end
  return deepest
end

local function flamegraph(path)
  local profile = assert(load_profile(path))[1] -- a file may have several events
  local root = tree_of(profile)
  local scale = (WIDTH - 2 * LEFT) / root.weight
  local levels = draw({}, root, LEFT, 0, scale, 0)
  local body, height = {}, 34 + (levels + 1) * ROW + 28
  body[1] = text(LEFT, 22, "CPU time by Lua line", "title")
  draw(body, root, LEFT, 0, scale, height - 28 - ROW)
  local x = LEFT
  for _, kind in ipairs { { "lua", "Lua" }, { "builtin", "Lua's library" }, { "c", "C" }, { "state", "collector, compiler" } } do
    body[#body + 1] = ('  <rect class="%s" x="%g" y="%g" width="10" height="10"/>'):format(kind[1], x, height - 17)
    body[#body + 1] = text(x + 15, height - 8, kind[2], "soft")
    x = x + 35 + #kind[2] * CHARACTER
  end
  write("flamegraph.svg", "A flame graph: CPU time by Lua line", height, body)
end

local function measurement()
  local body, y = {}, 30
  for _, name in ipairs { "slow", "fast" } do
    local command = ("luaperf stat examples/%s.lua"):format(name)
    body[#body + 1] = text(24, y, "$ " .. command)
    for line in output_of(command .. " 2>&1"):gmatch "([^\n]*)\n" do
      y = y + 16
      body[#body + 1] = text(24, y, line)
    end
    y = y + 24
  end
  table.insert(body, 1, ('  <rect class="terminal" x="8" y="8" width="%d" height="%d" rx="6"/>'):format(WIDTH - 16, y - 20))
  write("measurement.svg", "What luaperf stat prints for a slow and a fast program", y, body)
end

local recorded = arg[2]
if not recorded then
  recorded = os.tmpname()
  os.remove(recorded)
  recorded = recorded .. ".json"
  output_of("luaperf record -o " .. recorded .. " examples/demo.lua 2>&1")
end
flamegraph(recorded)
if not arg[2] then os.remove(recorded) end
measurement()
