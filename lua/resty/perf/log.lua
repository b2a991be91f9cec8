-- Lines of the error log. Bytes of requests are escaped, since a newline would let a client write its own lines, and an escape
-- sequence would reach the terminal. The form is that of nginx's access log: "\x0A".
local ffi = require "ffi"

local M = {}

local after = ngx.timer.at -- the original: callbacks of the wrapped one are counted
local has_exdata, exdata = pcall(require, "thread.exdata") -- OpenResty's LuaJIT keeps the address of the request there

local function escape(c) return ("\\x%02X"):format(c:byte()) end

-- Write a line to the error log.
function M.write(level, ...) ngx.log(level, (table.concat { ... }:gsub('[^ -~]', escape))) end

-- Whether the error log has lines of this level.
function M.writes(level)
  local ok, errlog = pcall(require, "ngx.errlog")
  return not ok or errlog.get_sys_filter_level() >= level
end

local waiting = {} -- {level, text}

-- Write the pending lines.
function M.flush()
  local lines = waiting
  waiting = {}
  for _, line in ipairs(lines) do M.write(line[1], line[2]) end
end

-- Write a line later, outside of the request: to lines written within a request, nginx adds its first line with the query string.
function M.later(level, text)
  waiting[#waiting + 1] = { level, text }
  if #waiting == 1 then after(0, M.flush) end -- if nginx has no free timer, resty.perf's own timer writes it
end

-- Call this when the Lua state closes, before anything is written. nginx has freed all requests by then, but the state still has
-- the address of the last one, whose memory ngx.log and other functions would read. From now on lines for later wait for `flush`,
-- since ngx.timer.at needs a request.
function M.close()
  after = function() end
  if has_exdata then exdata(ffi.cast("void *", 0)) else rawset(getfenv(0), "__ngx_req", nil) end
end

-- A function of a message, which writes a line about the first one: "resty.perf: OPTION: MESSAGE; EFFECT".
function M.once(option, effect)
  local done = false
  return function(message)
    if done then return end
    done = true
    M.later(ngx.ERR, ("resty.perf: %s: %s; %s"):format(option, message, effect))
  end
end

return M
