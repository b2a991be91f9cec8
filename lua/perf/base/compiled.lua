-- LuaJIT's FFI, through which compiled code calls the core; false where the C API is used.
--
-- PERF_NO_FFI=1 chooses the C API on LuaJIT too: the specs run both ways, and it shows what FFI is worth.
local has_ffi, ffi = pcall(require, "ffi")

return { ffi = has_ffi and type(jit) == "table" and os.getenv "PERF_NO_FFI" ~= "1" and ffi }
