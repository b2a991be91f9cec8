-- LuaJIT's FFI, through which compiled code calls the core; false if the C API is used.
--
-- PERF_NO_FFI=1 selects the C API on LuaJIT too: for specs of both ways, and to measure the benefit of FFI.
local has_ffi, ffi = pcall(require, "ffi")

return { ffi = has_ffi and type(jit) == "table" and os.getenv "PERF_NO_FFI" ~= "1" and ffi }
