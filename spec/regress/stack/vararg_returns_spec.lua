-- The story: where a vararg function returned, the interpreter's base was that of its lower frame already, its pc still the link
-- from the upper one. No function was found there: 1 % of the samples of a loop of vararg calls. The same was true where a
-- metamethod returned or made a tail call.
local stepped = require "spec.support.stepped"

local TEXT = [[
  local function first(...)
    local a = ...
    return a
  end
  local function none(...) end
  local function all(...) return ... end
  local function tail(...) return all(...) end
  local function pack(...) return { ... } end
  local t = setmetatable({}, { __index = function(...) return select("#", ...) end, __call = function(...) return all(...) end })
  local function calls()
    local sum = 0
    for i = 1, 3 do
      none()
      none(i)
      sum = sum + first(i, i, i) + all(i, i) + #pack(i, i) + tail(i) + t[i] + #{ t(i) }
      pcall(first, i)
    end
    return sum
  end
]]

it("the stack of vararg calls is whole, with its lines, after each machine instruction", function()
  requires { lua = "luajit", registers = true }
  local cut, without_line = stepped.run(TEXT)
  if not cut then return pending(without_line) end
  assert.same({ 0, 0 }, { cut, without_line })
end)
