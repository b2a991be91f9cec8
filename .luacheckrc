-- Code that runs unchanged on LuaJIT and Lua 5.1 to 5.4: what all of them have, and the names that
-- some have and the code looks for.
std = "min"
max_line_length = 130
read_globals = {
  "jit", "unpack", "loadstring", "setfenv", "getfenv",
  table = {fields = {"unpack"}},
  math = {fields = {"type", "tointeger", "ult"}},
  debug = {fields = {"setuservalue", "getuservalue"}},
  coroutine = {fields = {"close", "isyieldable"}},
  package = {fields = {"searchpath", "searchers"}},
  _ENV = {},
}
exclude_files = {"build", "build-*"}
files["spec"] = {std = "+busted", globals = {"requires", "arg"}}
files["lua"] = {not_globals = {"pairs"}} -- lua/perf/base/pairs.lua says why
files["lua/perf/base/pairs.lua"] = {read_globals = {"pairs"}}
files["lua/resty"] = {std = "+ngx_lua"}
files["spec/nginx"] = {std = "+ngx_lua", read_globals = {ngx = {fields = {"run_worker_thread"}, other_fields = true}}}
files["bench/nginx_app.lua"] = {std = "+ngx_lua"}
files["tools/nginx"] = {std = "+ngx_lua"}
files["nvim"] = {read_globals = {vim = {other_fields = true, fields = {
  g = {read_only = false, other_fields = true}, bo = {read_only = false, other_fields = true}}}}}
files["examples"] = {ignore = {"212"}}
