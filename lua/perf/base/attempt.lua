-- Refusals of the machine within a function of many steps: `try` raises the nil, message, code of a step, and `catch` returns
-- them to the caller of the public function. So no step needs a check of its own.
local M = {}

local Refusal = { __tostring = function(refusal) return refusal.message end }

-- Raise a refusal.
function M.refuse(message, code) error(setmetatable({ message = message, code = code }, Refusal), 0) end

-- The results of a step; raises the refusal if the first one is nil or false.
function M.try(ok, message, code)
  if ok then return ok, message, code end
  M.refuse(message, code)
end

-- The same, with a message that begins with what was attempted.
function M.try_as(what, ok, message, code)
  if ok then return ok, message, code end
  M.refuse(what .. ": " .. message, code)
end

local function refusal_of(err)
  if getmetatable(err) == Refusal then return nil, err.message, err.code end
  error(err, 0)
end

local function results_of(ok, ...)
  if ok then return ... end
  return refusal_of(...)
end

-- Call a function of steps.
-- @return its results; or nil, message, code. Other errors are raised again, unchanged
function M.catch(f, ...) return results_of(pcall(f, ...)) end

return M
