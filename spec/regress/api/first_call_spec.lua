-- The story: a mistake in the first call of some functions had no line on Lua 5.1, since the stub that loads their module called
-- them in tail position; or the error named a line of that stub. And strings with zero bytes reached the C code of five
-- functions, whose message then named a line of the library (perf.record, perf.bpf.load, perf.pfm.encode, perf.symbols.build_id
-- and .kernel).
local util = require "spec.support.util"

local script = [[
local perf, functions = require "perf", {}
for _, group in ipairs(require "perf.api") do
  for _, row in ipairs(group) do
    local name = (group.name and group.name .. "." or "") .. row[1]
    local fn = rawget(group.name and perf[group.name] or perf, row[1])
    if type(fn) == "function" then functions[name] = fn end
  end
end
local raised = 0
for name, fn in pairs(functions) do
  local ok, message = pcall(function() local result = fn(VALUE) return result end)
  if not ok then
    raised = raised + 1
    if not message:find("^" .. arg[0]:gsub("%p", "%%%0") .. ":11: ") then print(name .. ": " .. message) end
  end
end
print(raised)
]]

describe("a mistake in the first call of a public function", function()
  it("names the caller's line", function()
    for value, least in pairs { ["{ false }"] = 30, ['"\\0"'] = 20, ["0.5"] = 30 } do
      util.with_tmpname(function(path)
        util.write_file(path, (script:gsub("VALUE", value)))
        local output = util.shell(util.lua() .. " " .. path .. " </dev/null")
        assert.matches("^%d+%s*$", output)
        assert.truthy(tonumber(output) >= least, output)
      end)
    end
  end)
end)
