-- Functions of nginx and its Lua module that take the address of any request. Some versions lack some of them.
local ffi = require "ffi"
local pairs_of = require "perf.base.pairs"
local get_request = require "resty.core.base".get_request

ffi.cdef "void *ngx_http_cleanup_add(void *request, size_t n);"
pcall(ffi.cdef, "int ngx_http_lua_ffi_get_resp_status(ngx_http_request_t *r);")
pcall(ffi.cdef, "int ngx_http_lua_ffi_req_get_method(ngx_http_request_t *r);")
pcall(ffi.cdef, [[int ngx_http_lua_ffi_var_get(ngx_http_request_t *r, const char *name_data, size_t name_len, char *lowcase_buf,
  int capture_id, char **value, size_t *value_len, char **err);]])

pcall(ffi.cdef, "double ngx_http_lua_ffi_req_start_time(ngx_http_request_t *r);")

local host = {} -- the functions that the accounting calls, and `beat`
for name, symbol in pairs_of { add_end = "ngx_http_cleanup_add", get_status = "ngx_http_lua_ffi_get_resp_status",
  get_method = "ngx_http_lua_ffi_req_get_method", get_variable = "ngx_http_lua_ffi_var_get",
  get_start = "ngx_http_lua_ffi_req_start_time" } do
  local found, f = pcall(function() return ffi.C[symbol] end)
  host[name] = found and f or nil
end

-- nginx's clock in milliseconds, which it sets whenever it goes round its event loop.
pcall(ffi.cdef, 'extern uintptr_t perf_resty_beat[1] __asm__("ngx_current_msec");')
local found, beat = pcall(function() return ffi.C.perf_resty_beat end)
host.beat = found and beat or nil

local M = { functions = host }

local value, size, message = ffi.new "char *[1]", ffi.new "size_t[1]", ffi.new "char *[1]"
local ROOM = 128
local room = ffi.new("char[?]", ROOM)

-- A variable of a request, by its name in lower case; nil if it does not exist. This is the call of ngx.var without its
-- tables, for any request.
function M.variable(r, name)
  local get, n = host.get_variable, #name
  if not get then return r == get_request() and ngx.var[name] or nil end
  if get(r, name, n, n <= ROOM and room or ffi.new("char[?]", n), 0, value, size, message) ~= 0 then return nil end
  return ffi.string(value[0], size[0])
end

local has_start, start_time = pcall(function() return ffi.C.ngx_http_lua_ffi_req_start_time end)

-- The time at which a request began, in seconds. LuaJIT compiles this, but not ngx.req.start_time.
function M.start_time(r)
  if not has_start then return ngx.req.start_time() end
  local seconds = start_time(r)
  return seconds
end

return M
