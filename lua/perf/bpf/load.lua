-- Loads BPF programs by libbpf: from a file, or from the bytes of one.
local argument = require "perf.base.argument"
local pairs_of = require "perf.base.pairs"
local extension = require "perf.base.optional"
local ext = extension.load("bpf", "libbpf 1.0", "libbpf-dev", "perf.bpf.load")
local core = require "perf.core"
local host = require "perf.kernel.host"

local M = {}

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

-- The part of libbpf's messages that tells more than the hint. Of the verifier's log of this library's own program, that is the
-- end, which has the reason: the user cannot change the program.
local function shown(code, log, is_own)
  if code == "EPERM" or code == "ENOSYS" then return "" end
  local verifier = is_own and log:match "BEGIN PROG LOAD LOG %-%-\n(.*)\nprocessed %d+ insns"
  return verifier and verifier:match "[^\n]*\n[^\n]*$" or log
end

local function failure(path, what, message, code, log, is_own)
  local advice = hint(code, log:find("PROG LOAD LOG", 1, true))
  log = shown(code, log, is_own)
  return nil, ("%s: bpf: %s%s%s"):format(path, what .. message:match ":.*", advice and " (" .. advice .. ")" or "",
    log ~= "" and "\n" .. log or ""), code
end

-- Call a method with the value of an option, and raise its argument errors as errors of the option.
local function apply(what, fn, obj, name, value)
  local ok, result, message, code = pcall(fn, obj, name, value)
  if not ok then
    obj:close()
    argument.raise(("option '%s': %s"):format(what, argument.why(result)), 2)
  end
  return result, message, code
end

-- Load an object; a mistake in the options is one in argument 2.
-- @string path its file
-- @tab opts of perf.bpf.load, checked
-- @string[opt] bytes what is in the file, if there is none; then path is a name for messages
-- @return BpfObject; or nil, message, code. Raises for a name in the options that the file does not have
function M.load(path, opts, bytes)
  local obj, message, code, log = ext.open(path, bytes)
  if not obj then return failure(path, "cannot be read", message, code, log, bytes) end
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
    return failure(path, "cannot be loaded", message, code, log, bytes)
  end
  return obj
end

return M
