-- Loads BPF programs by libbpf: from a file, or from the bytes of one.
local argument = require "perf.base.argument"
local pairs_of = require "perf.base.pairs"
local extension = require "perf.base.optional"
local ext = extension.load("bpf", "libbpf 1.0", "libbpf-dev", "perf.bpf.load")
local core = require "perf.core"
local host = require "perf.kernel.host"

local M = {}

-- Return as text what the process lacks to load a program; nil if nothing is known to be missing.
local function lacks()
  if host.in_user_namespace() then
    return "it is loaded in a user namespace, whose capabilities do not count: run this outside of that"
  end
  local missing = {}
  for _, name in ipairs { "bpf", "perfmon" } do
    if not (host.has_capability(name) or host.has_capability "sys_admin") then missing[#missing + 1] = "CAP_" .. name:upper() end
  end
  if not missing[1] then return nil end
  return ("loading needs root, or CAP_BPF with CAP_PERFMON; this process lacks %s: %s"):format(table.concat(missing, " and "),
    core.euid() == 0 and "its container has to allow that" or "setcap cap_bpf,cap_perfmon+ep on the interpreter")
end

-- The kernel's lockdown mode, if it keeps programs from reading the kernel's memory.
local function locked_down()
  local modes = host.line "/sys/kernel/security/lockdown" or ""
  if modes:find("[confidentiality]", 1, true) then return "the kernel's lockdown mode is confidentiality; integrity allows it" end
end

-- Why a process that may load programs is refused.
local function refuser()
  if locked_down() then return locked_down() end
  if host.seccomp() == 2 then return "a seccomp filter, such as a container's, refuses bpf(2)" end
  local soft = core.rlimit "memlock"
  return ("root is refused too: a security module, or, before Linux 5.11, too little locked memory (ulimit -l is %s kB)")
    :format(soft == math.huge and "unlimited" or ("%.0f"):format(soft / 1024))
end

-- A remedy for a refusal, or nil.
local function hint(code, verifier, log)
  if log:find "valid kernel BTF" then
    return "this kernel does not describe its types: /sys/kernel/btf/vmlinux, by CONFIG_DEBUG_INFO_BTF"
  elseif code == "EPERM" then
    return lacks() or refuser()
  elseif code == "ENOEXEC" then
    return "not a BPF object file: compile with clang -O2 -g -target bpf -c"
  elseif code == "ENOSYS" then
    return "this kernel has no bpf(2), or a seccomp filter hides it"
  elseif verifier then
    return locked_down() or "the kernel's verifier refused a program"
  elseif code == "EINVAL" or code == "E2BIG" then
    return "a program or map that this kernel does not know"
  end
end

-- The part of libbpf's messages that tells more than the hint. Of the verifier's log of this library's own program, that is the
-- end, which has the reason: the user cannot change the program.
local function shown(code, log, is_own)
  if code == "EPERM" or code == "ENOSYS" or log:find "valid kernel BTF" then return "" end
  local verifier = is_own and log:match "BEGIN PROG LOAD LOG %-%-\n(.*)\nprocessed %d+ insns"
  return verifier and verifier:match "[^\n]*\n[^\n]*$" or log
end

local function failure(path, what, message, code, log, is_own)
  local advice = hint(code, log:find("PROG LOAD LOG", 1, true), log)
  if log:find "valid kernel BTF" then message, code = ": Operation not supported", "ENOTSUP" end
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
