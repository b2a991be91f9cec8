-- Functions of nginx and its Lua module that the accounting calls. Some versions lack some of them.
local ffi = require "ffi"
local pairs_of = require "perf.base.pairs"

ffi.cdef "void *ngx_http_cleanup_add(void *request, size_t n);"
pcall(ffi.cdef, "int ngx_http_lua_ffi_get_resp_status(ngx_http_request_t *r);")
pcall(ffi.cdef, "int ngx_http_lua_ffi_req_get_method(ngx_http_request_t *r);")
pcall(ffi.cdef, [[int ngx_http_lua_ffi_var_get(ngx_http_request_t *r, const char *name_data, size_t name_len, char *lowcase_buf,
  int capture_id, char **value, size_t *value_len, char **err);]])

local host = {}
for name, symbol in pairs_of { add_end = "ngx_http_cleanup_add", get_status = "ngx_http_lua_ffi_get_resp_status",
  get_method = "ngx_http_lua_ffi_req_get_method", get_variable = "ngx_http_lua_ffi_var_get" } do
  local found, f = pcall(function() return ffi.C[symbol] end)
  host[name] = found and f or nil
end

return host
