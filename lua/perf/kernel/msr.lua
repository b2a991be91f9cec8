--- Model-specific registers of an x86 CPU, through /dev/cpu/N/msr: temperatures, frequencies, RAPL, and other values that no
-- event counts.
--
--     local msr = assert(perf.msr(0))
--     local tsc = assert(msr:read(0x10))
--     msr:close()
--
-- Registers can only be read. The kernel executes RDMSR on that CPU, wherever the caller runs.
-- @classmod Msr
local argument = require "perf.base.argument"
local strict = require "perf.api.strict"
local core = require "perf.core"
local host = require "perf.kernel.host"

local M = {}
local Msr = {}
Msr.__index = Msr
Msr.__name = "perf.msr"

local function exists(path)
  return core.listdir(path) ~= nil
end

local function locked_down()
  local mode = (host.line "/sys/kernel/security/lockdown" or ""):match "%[(%a+)%]"
  return mode and mode ~= "none" and mode or nil
end

-- The reason why the device cannot be opened, and a remedy.
local function open_hint(cpu, code)
  if code == "ENOENT" or code == "ENXIO" or code == "ENODEV" then
    local _, machine = core.uname()
    if not machine:find "86" then return machine .. " has no model-specific registers" end
    if not exists("/sys/devices/system/cpu/cpu" .. cpu) then return "there is no CPU " .. cpu end
    if code == "ENXIO" and exists "/sys/module/msr" then return "is the CPU online?" end
    return "run as root: modprobe msr; a kernel built without CONFIG_X86_MSR, as those of some virtual machines are, has none"
  elseif code == "EACCES" or code == "EPERM" then
    local mode = locked_down()
    if mode then return "the kernel is locked down (" .. mode .. ")" end
    return "run as root: that needs CAP_SYS_RAWIO besides the permission to read the file"
  end
end

local function read_hint(code)
  if code == "EIO" then return "this CPU has no such register, or the host does not pass it on to this virtual machine" end
  if code == "EPERM" then
    local mode = locked_down()
    return mode and "the kernel is locked down (" .. mode .. ")" or "CAP_SYS_RAWIO"
  end
  if code == "ENXIO" then return "the CPU is offline" end
end

local function explained(message, code, hint)
  return nil, hint and ("%s (%s)"):format(message, hint) or message, code
end

--- Open the model-specific registers of a CPU; return an Msr.
-- @tparam integer cpu its number
-- @treturn Msr @fails "ENOENT" or "ENXIO" if there is no device, "EACCES" or "EPERM" if it is refused
function M.msr(cpu)
  if type(cpu) ~= "number" or cpu < 0 or cpu ~= math.floor(cpu) or cpu > 65535 then
    argument.raise("number of a CPU expected, got " .. (type(cpu) == "number" and cpu or type(cpu)))
  end
  return M.open(("/dev/cpu/%d/msr"):format(cpu), cpu)
end

-- Open the device by its path; for M.msr and for specs.
function M.open(path, cpu)
  local device, message, code = core.msr(path)
  if not device then return explained(message, code, open_hint(cpu or 0, code)) end
  return setmetatable({ device = device, path = path, cpu = cpu }, Msr)
end

--- The 64 bits of a register.
-- @tparam integer register its number (address)
-- @treturn integer its 64 bits @fails "EIO" if the CPU does not have the register
function Msr:read(register)
  local value, message, code = argument.call_as_method("read", self.device.read, self.device, register)
  if value ~= nil then return value end
  return explained(("%s: %s"):format(self.path, message), code, read_hint(code))
end

--- Close the device. Idempotent.
function Msr:close() self.device:close() end
argument.check_methods(Msr, "Msr", "read close")
Msr.__close = Msr.close

strict.class(Msr, "Msr")

return M
