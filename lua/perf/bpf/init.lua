--- BPF programs for perf events: load them with libbpf, attach them to an Event, read their maps from Lua.
--
--     local obj = assert(perf.bpf.load("count.o"))
--     local ev = assert(perf.open("raw_syscalls:sys_enter"))
--     assert(ev:set_bpf(obj:program("count").fd))
--     ev:enable()
--     ...
--     for key, value in obj:map("counts"):pairs() do print(key, value) end
--     ev:close() obj:close()
--
-- The section of a program selects its kind of event: `SEC("perf_event")` for counters and clocks (it runs at each overflow, so
-- the event needs a sample_period or sample_freq), `SEC("tracepoint")` for tracepoints, `SEC("kprobe")` for kprobes and uprobes.
-- If a program returns 0, the hit is not counted or recorded. On counters and clocks it runs while the event is enabled, for the
-- tasks that the event counts. On tracepoints and probes the kernel attaches it to the point itself: it runs from `set_bpf` until
-- the event is closed, enabled or not, and on tracepoints and kprobes for every task of the machine; so the program must check
-- the task itself (`bpf_get_current_pid_tgid`). A 0 there hides the hit from the events of every program on the machine: return 1
-- for tasks that are not yours.
--
-- libbpf raises this process's limit of locked memory on kernels before 5.11, which count maps against it.
-- @module perf.bpf
local argument = require "perf.base.argument"
local checks = require "perf.api.check"
local extension = require "perf.base.optional"
local ext = extension.load("bpf", "libbpf 1.0", "libbpf-dev", "perf.bpf")
local loader = require "perf.bpf.load"

local M = { available = true, version = ext.version }

local check = checks.options "perf.bpf.load"

--- Load a BPF object file; return a BpfObject. Its maps are made and its programs verified.
-- @tparam string path the output of `clang -O2 -g -target bpf -c`
-- @tparam[opt] table options
-- @treturn BpfObject @fails with the messages of libbpf and the verifier
-- @raise for a name in the options that the file does not have
function M.load(path, opts)
  argument.check_path(path, "load", 1)
  local obj, message, code = loader.load(path, check(opts, 2)) -- not a tail call, so that an error has this function's name
  if obj then return obj end
  return nil, message, code
end

return M
