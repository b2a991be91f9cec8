-- Why the memory of another process cannot be read, and what would change that.
--
-- Without CAP_SYS_PTRACE the kernel demands that the caller has the process's user and group, that the process allows tracing
-- (prctl PR_SET_DUMPABLE) and has no capability that the caller lacks, and that Yama's rule permits it.
local core = require "perf.core"
local host = require "perf.kernel.host"

local M = {}

-- Yama's rule for reading another process's memory: 0 is none; 1 permits ancestors, 2 CAP_SYS_PTRACE alone, 3 nobody.
local SCOPE = "kernel.yama.ptrace_scope"

local function is_descendant(pid)
  for _, child in ipairs(host.descendants(core.pid())) do
    if child == pid then return true end
  end
  return false
end

-- The first of a process's ids (real, effective, saved) that differs from the real id of this program, and that id; or nil.
-- @string what "Uid" or "Gid"
local function other_id(theirs, mine, what)
  local own = mine[what]:match "%d+"
  for id in theirs[what]:match "^%d+%s+%d+%s+%d+":gmatch "%d+" do
    if id ~= own then return id, own end
  end
end

-- Whether a set of capabilities has one that another set lacks. Both are hexadecimal digits.
local function has_more(theirs, mine)
  for bit = 0, 4 * #theirs - 1 do
    if host.has_bit(theirs, bit) and not host.has_bit(mine, bit) then return true end
  end
  return false
end

-- The reason why CAP_SYS_PTRACE is necessary; nil if none is known.
local function cause(pid)
  local theirs, mine = host.status(pid), host.status()
  if not theirs or not mine then return nil end -- it has ended, or /proc is not mounted
  for _, kind in ipairs { "Uid", "Gid" } do
    local id, own = other_id(theirs, mine, kind)
    if id then return ("it has the %s %s, and this program %s"):format(kind:lower(), id, own) end
  end
  if has_more(theirs.CapPrm, mine.CapPrm) then return "it has capabilities that this program lacks" end
  local _, _, code = host.read_file(("/proc/%d/auxv"):format(pid))
  if code == "EACCES" or code == "EPERM" then return "it does not allow tracing" end
  local scope = host.sysctl(SCOPE) or 0
  if scope > 1 or scope == 1 and not is_descendant(pid) then return ("%s is %d"):format(SCOPE, scope) end
end

local function lacking(pid, why)
  return ("process %d: its memory cannot be read: that needs CAP_SYS_PTRACE, since %s: %s"):format(pid, why, core.euid() == 0
    and "this program's container has to allow it" or "setcap cap_bpf,cap_perfmon,cap_sys_ptrace+ep on the interpreter")
end

-- The message if this program lacks CAP_SYS_PTRACE and needs it to read a process's memory; or nil.
function M.lacks(pid)
  if host.has_capability "sys_ptrace" or host.in_user_namespace() then return nil end
  local why = cause(pid)
  return why and lacking(pid, why)
end

-- The message for a process whose memory the kernel refused to read.
function M.refusal(pid)
  local why = host.sysctl(SCOPE) == 3 and SCOPE .. " is 3, which permits nobody to read another process"
    or host.has_capability "sys_ptrace" and "a security module, or a seccomp filter, refuses it despite CAP_SYS_PTRACE"
  if why then return ("process %d: its memory cannot be read: %s"):format(pid, why) end
  return lacking(pid, cause(pid) or "a security module refuses it without that")
end

return M
