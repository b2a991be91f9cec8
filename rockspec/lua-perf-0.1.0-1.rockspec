rockspec_format = "3.0"
package = "lua-perf"
version = "0.1.0-1"
source = {
  -- Made from a checkout: luarocks make rockspec/lua-perf-0.1.0-1.rockspec
  url = "git+file://.",
}
description = {
  summary = "perf events for Lua: count, sample, profile and trace with the kernel's perf_event_open",
  detailed = [[
    Measures what a Lua function costs in cycles, instructions, page faults or any other event that
    Linux counts; profiles Lua code by any event that can be sampled; reads and writes perf.data.
    LuaJIT 2.1 and Lua 5.1 to 5.4.]],
  license = "MIT",
}
supported_platforms = {"linux"}
dependencies = {"lua >= 5.1, < 5.5"}
build = {
  type = "make",
  build_target = "all",
  install_target = "install",
  build_variables = {
    LUA = "rock",
    BUILD = "build-rock$(LUA_INCDIR)", -- one for each version of Lua
    LUA_INCDIR = "$(LUA_INCDIR)",
    CFLAGS = "$(CFLAGS)",
    CC = "$(CC)",
  },
  install_variables = {
    LUA = "rock",
    BUILD = "build-rock$(LUA_INCDIR)", -- one for each version of Lua
    LUA_INCDIR = "$(LUA_INCDIR)",
    CFLAGS = "$(CFLAGS)",
    CC = "$(CC)",
    LUADIR = "$(LUADIR)",
    LIBDIR = "$(LIBDIR)",
    BINDIR = "$(BINDIR)",
    SHAREDIR = "$(PREFIX)/share", -- in the rock's own directory
  },
}
deploy = {
  wrap_bin_scripts = false, -- luaperf finds its interpreter and its modules itself
}
