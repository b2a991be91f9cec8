-- A bounded queue of finished spans. A span that does not fit is refused, and the caller counts it: a tracer neither waits nor
-- grows.
local Queue = {}
Queue.__index = Queue

local M = {}

-- A new queue of at most `size` elements.
function M.new(size)
  local slots = {}
  for i = 1, size do slots[i] = false end -- all at once: a growing table would be copied
  return setmetatable({ slots = slots, size = size, first = 1, n = 0 }, Queue)
end

-- Append. Returns false when it is full.
function Queue:push(v)
  local n = self.n
  local size = self.size
  if n == size then return false end
  local at = self.first + n
  if at > size then at = at - size end
  self.slots[at] = v
  self.n = n + 1
  return true
end

-- Move up to `most` elements from the front into an array. Returns their number.
function Queue:take(most, into)
  local n = self.n < most and self.n or most
  local slots, first, size = self.slots, self.first, self.size
  local at = first
  for i = 1, n do -- all of them before any is removed: memory may run out
    into[i] = slots[at]
    at = at == size and 1 or at + 1
  end
  self.first, self.n = at, self.n - n
  for _ = 1, n do
    slots[first] = false
    first = first == size and 1 or first + 1
  end
  return n
end

-- The oldest element, or nil.
function Queue:peek()
  return self.n > 0 and self.slots[self.first] or nil
end

-- Remove all. Returns their number.
function Queue:clear()
  local n = self:take(self.n, {})
  return n
end

return M
