-- A bounded queue of finished spans. A span that does not fit is refused, and the caller counts it: a tracer neither waits nor
-- grows. Only push changes `pushed` and only take changes `taken`, so a debug hook may take while it interrupts a push.
local Queue = {}
Queue.__index = Queue

local M = {}

-- A new queue of at most `size` elements.
function M.new(size)
  local slots = {}
  for i = 1, size do slots[i] = false end -- all at once: a growing table would be copied
  return setmetatable({ slots = slots, size = size, pushed = 0, taken = 0 }, Queue)
end

-- The number of elements.
function Queue:length() return self.pushed - self.taken end

-- Append. Returns the new number of elements, or false when it is full.
function Queue:push(v)
  local pushed, size = self.pushed, self.size
  local n = pushed - self.taken
  if n == size then return false end
  self.slots[pushed % size + 1] = v
  self.pushed = pushed + 1
  return n + 1
end

-- Move up to `most` elements from the front into an array. Returns their number.
function Queue:take(most, into)
  local slots, size, taken = self.slots, self.size, self.taken
  local n = math.min(self.pushed - taken, most)
  for i = 1, n do into[i] = slots[(taken + i - 1) % size + 1] end -- copy before any is removed: memory may run out
  for i = 1, n do slots[(taken + i - 1) % size + 1] = false end
  self.taken = taken + n
  return n
end

-- The oldest element, or nil.
function Queue:peek() return self.pushed > self.taken and self.slots[self.taken % self.size + 1] or nil end

-- Remove all. Returns their number.
function Queue:clear() return (self:take(self:length(), {})) end

return M
