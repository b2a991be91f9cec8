-- The story: the names of zones were kept for ever, so a program that labelled each request by its id grew without a bound.
local util = require "spec.support.util"

local program = [[
local core, perf = require "perf.core", require "perf"
local function number(name) return perf.zone(name, function()
  local n = core.set_zone(0)
  core.set_zone(n)
  return n
end) end
local seen, different = {}, 0
for i = 1, 5000 do
  local n = number("request " .. i)
  if not seen[n] then seen[n], different = true, different + 1 end
end
local zones = require "perf.profile.zone"
print(different, zones.name(number "request 1"), zones.name(number "request 1000"), zones.name(number "request 1001"),
  zones.name(number "new"))
]]

it("zones have at most 1,000 names, and the later ones are (other)", function()
  util.with_tmpname(function(path)
    util.write_file(path, program)
    local output = util.shell(util.lua() .. " " .. path .. " 2>&1")
    assert.equal("1001\trequest 1\trequest 1000\t(other)\t(other)", (output:gsub("%s+$", "")))
  end)
end)
