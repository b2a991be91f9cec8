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
local pairs_of = require "perf.base.pairs"
local extension = require "perf.base.optional"
local checks = require "perf.api.check"
local ext = extension.load("bpf", "libbpf 1.0", "libbpf-dev", "perf.bpf")
local core = require "perf.core"
local host = require "perf.kernel.host"

local M = { available = true, version = ext.version }

-- A remedy for a refusal, or nil.
local function hint(code, verifier)
  if code == "EPERM" then
    if core.euid() ~= 0 then
      local level = host.line "/proc/sys/kernel/unprivileged_bpf_disabled"
      return "loading needs root, or CAP_BPF with CAP_PERFMON (setcap cap_bpf,cap_perfmon+ep on the interpreter)"
        .. (level and "; kernel.unprivileged_bpf_disabled is " .. level or "")
    end
    local soft = core.rlimit "memlock"
    return "root is refused too: a container without CAP_BPF, its seccomp filter, the kernel's lockdown mode, or, before "
      .. ("Linux 5.11, too little locked memory (ulimit -l is %s kB)")
        :format(soft == math.huge and "unlimited" or ("%.0f"):format(soft / 1024))
  elseif code == "ENOEXEC" then
    return "not a BPF object file: compile with clang -O2 -g -target bpf -c"
  elseif code == "ENOSYS" then
    return "this kernel has no bpf(2), or a seccomp filter hides it"
  elseif verifier then
    return "the kernel's verifier refused a program"
  elseif code == "EINVAL" or code == "E2BIG" then
    return "a program or map that this kernel does not know"
  end
end

local function failure(path, what, message, code, log)
  local advice = hint(code, log:find("PROG LOAD LOG", 1, true))
  return nil, ("%s: bpf: %s%s%s"):format(path, what .. message:match ":.*", advice and " (" .. advice .. ")" or "",
    log ~= "" and "\n" .. log or ""), code
end

local check = checks.options "perf.bpf.load"

-- Call a method with the value of an option, and raise its argument errors as errors of the option.
local function apply(what, fn, obj, name, value)
  local ok, result, message, code = pcall(fn, obj, name, value)
  if not ok then
    obj:close()
    argument.raise(("option '%s': %s"):format(what, argument.why(result)), 2)
  end
  return result, message, code
end

--- Load a BPF object file; return a BpfObject. Its maps are made and its programs verified.
-- @tparam string path the output of `clang -O2 -g -target bpf -c`
-- @tparam[opt] table options
-- @treturn BpfObject @fails with the messages of libbpf and the verifier
-- @raise for a name in the options that the file does not have
function M.load(path, opts)
  argument.check_path(path, "load", 1)
  opts = check(opts, 2)
  local obj, message, code, log = ext.open(path)
  if not obj then return failure(path, "cannot be read", message, code, log) end
  local ok
  for name, n in pairs_of(opts.max_entries or {}) do
    ok, message, code = apply("max_entries", obj.set_max_entries, obj, name, n)
    if not ok then
      obj:close()
      return nil, ("%s: bpf: max_entries of '%s': %s"):format(path, name, message), code
    end
  end
  for name, value in pairs_of(opts.globals or {}) do
    apply("globals", obj.set_global, obj, name, value)
  end
  if opts.programs then
    local wanted = {}
    for _, name in ipairs(opts.programs) do
      apply("programs", obj.program, obj, name)
      wanted[name] = true
    end
    for _, program in ipairs(obj:programs()) do
      obj:set_autoload(program.name, wanted[program.name] or false)
    end
  end
  ok, message, code, log = obj:load()
  if not ok then
    obj:close()
    return failure(path, "cannot be loaded", message, code, log)
  end
  return obj
end

return M
