-- Makes the pictures of README.md from the library's output: measurement.svg shows `luaperf stat` of examples/slow.lua and
-- examples/fast.lua, flamegraph.svg the flame graph of a profile.
--
--     eval "$(make -s env)" && luajit tools/pictures.lua [DIRECTORY [PROFILE]]
--
-- The profile is of examples/demo.lua (which needs cjson and dkjson), unless a file of `luaperf record` is given.
local load_profile = require "perf.profile.load".all

local directory = arg[1] or "doc/images"
local WIDTH = 860

local STYLE = [[
  <style>
    text { font: 12px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; fill: #1f2328; white-space: pre }
    .page { fill: #ffffff }
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

local function flamegraph(path)
  local profile = assert(load_profile(path))[1] -- a file may have several events
  local file = directory .. "/flamegraph.svg"
  assert(profile:flamegraph(file, { title = "CPU time by Lua line" }))
  print("wrote " .. file)
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
