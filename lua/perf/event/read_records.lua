-- The methods by which Groups and Sets read the records of their events.
local argument = require "perf.base.argument"
local core = require "perf.core"
local late = require "perf.base.late"

local function merge() return late "perf.event.merge" end -- large, and not needed to count

-- Add them to a class.
-- @tab class its methods
-- @string what its name
-- @func events_of function(object, method): an array of its events; raises for any other value
return function(class, what, events_of)
  local function reader(self, method, timeout)
    local events = events_of(self, method)
    if events[1]:is_inherited() then argument.raise_in_method(method, core.inherited(what), 1) end
    events.reader = events.reader or merge().reader(events)
    merge().check_timeout(timeout, method)
    return events.reader
  end

  --- Iterate over the Records of all events, in time order.
  -- @function Group:records, Set:records
  -- @tparam[opt] table options
  -- @treturn function iterator of Records
  function class:records(opts) return (reader(self, "records"):records(opts)) end

  --- The next Record of any event.
  -- @function Group:read_record, Set:read_record
  -- @tparam[opt=0] number timeout seconds
  -- @treturn Record @fails as `Event:read_record`
  function class:read_record(timeout)
    local record, message, code = reader(self, "read_record", timeout):read_record(timeout)
    if message then return nil, message, code end
    return record
  end

  --- Wait until one of the events has records.
  -- @function Group:poll, Set:poll
  -- @tparam[opt=0] number timeout seconds
  -- @treturn boolean true @fails as `Event:read_record`
  function class:poll(timeout)
    local ready, message, code = reader(self, "poll", timeout):poll(timeout)
    if message then return nil, message, code end
    return ready
  end

  --- Whether a record can be read at once.
  -- @function Group:has_record, Set:has_record
  -- @treturn boolean
  function class:has_record() return (reader(self, "has_record"):has_record()) end

  --- End the read of its records that is waiting, or else the next one: see `Event:wake`.
  -- @function Group:wake, Set:wake
  -- @since 0.2.0
  function class:wake() reader(self, "wake"):wake() end

  --- A descriptor that wakes the reader when a byte is written into it: see `Event:wake_fd`.
  -- @function Group:wake_fd, Set:wake_fd
  -- @treturn integer @fails
  -- @since 0.2.0
  function class:wake_fd()
    local fd, message, code = reader(self, "wake_fd"):wake_fd()
    if message then return nil, message, code end
    return fd
  end

  --- The number of records that its events lost: see `Event:lost`.
  -- @function Group:lost, Set:lost
  -- @treturn integer
  -- @treturn table `at_least`: true if the number is a lower bound
  -- @since 0.2.0
  function class:lost() return merge().lost(events_of(self, "lost")) end
end
