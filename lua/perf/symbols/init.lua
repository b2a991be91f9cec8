--- Names for addresses: functions and source lines, by elfutils' libdwfl; stacks; the kernel's symbols; maps of a JIT's compiled
-- code.
--
--     local offset = assert(perf.symbols.offset("/usr/bin/luajit", "lua_pcall"))     -- for a uprobe
--
--     local r = assert(perf.symbols.open{ pid = 0 })
--     print(r:resolve(rec.ip))                           --> lua_pcall+0x12 (/usr/bin/luajit) lj_api.c:1126
--     for i, addr in ipairs(rec.callchain) do print(r:resolve(addr, i > 1)) end
--     for _, frame in ipairs(r:unwind{ regs = rec.user_regs, stack = rec.user_stack }) do print(frame) end
--     r:close()
--
-- A Frame has `addr`, `symbol`, `offset` (bytes from the symbol on), `module` (the file, "[kernel.kallsyms]", "[ext4]" ... or
-- "[jit]"), `module_offset`, `file` and `line`, as far as they are known. Frames are cached and shared: do not change them.
-- @module perf.symbols
local argument = require "perf.base.argument"
local printed = require "perf.base.printed"
local strict = require "perf.api.strict"
local pairs_of = require "perf.base.pairs"
local extension = require "perf.base.optional"
local checks = require "perf.api.check"
local ext = extension.load("symbols", "elfutils", "libdw-dev libelf-dev", "perf.symbols")
local core = require "perf.core"
local host = require "perf.kernel.host"
local jitmap = require "perf.symbols.jitmap"
local u64 = require "perf.base.u64"

local M = { available = true, version = ext.version }

local hex = core.hex

-- One file ------------------------------------------------------------------------------------------------------------

--- The offset of a function's code in a file, as a uprobe needs it. Searches .symtab and .dynsym, then the file's separate debug
-- information if that is installed.
-- @function perf.symbols.offset
-- @tparam string path of a program or shared object
-- @tparam string symbol its name; `name@VERSION` for one version of it; without a version, the default one
-- @treturn integer offset in the file, in bytes
-- @treturn integer its address in the file's own numbering
-- @fails "ENOENT" if there is no such function (or no such file), "EEXIST" if there are several of that name, "EOPNOTSUPP" for an
-- indirect function (IFUNC), "ENOEXEC" if it is not an ELF file
function M.offset(...) return argument.call_as_method("offset", ext.offset, ...) end

--- The build id of an ELF file, or of the running kernel for "[kernel]".
-- @tparam string path
-- @treturn string hexadecimal digits @fails "ENODATA" when it has none
function M.build_id(path)
  if path == "[kernel]" then return core.build_id() end
  return core.build_id(argument.check_path(path, "build_id", 1))
end

-- Frames --------------------------------------------------------------------------------------------------------------

local Frame = {}
Frame.__index = Frame

function Frame.__tostring(f)
  local what = f.symbol and (f.offset ~= 0 and f.symbol .. "+" .. hex(f.offset) or f.symbol) or hex(f.addr)
  local where = f.module and (" (%s%s)"):format(f.module, not f.symbol and f.module_offset and "+" .. hex(f.module_offset) or "")
  local line = f.file and (" %s:%d"):format(f.file, f.line)
  return what .. (where or "") .. (line or "")
end

-- The kernel ----------------------------------------------------------------------------------------------------------

--- The symbols of a kernel.
-- @type KernelSymbols
local Kernel = {}
Kernel.__index = Kernel

--- Read the kernel's symbols; return a KernelSymbols.
-- @tparam[opt] string path a copy of /proc/kallsyms from the machine that made a recording; without it the running kernel's
-- @treturn KernelSymbols @fails "EPERM" if the kernel hides its addresses
function M.kernel(path)
  local where = path == nil and "/proc/kallsyms" or argument.check_path(path, "kernel", 1)
  local map, message, code = ext.kernel(where)
  if map then return setmetatable({ map = map, path = where }, Kernel) end
  if code == "EPERM" then
    message = where .. ": the kernel hides its addresses"
    local level = not path and host.sysctl "kernel.kptr_restrict"
    if level == 0 then
      message = message .. " (kernel.kptr_restrict is 0: run as root, give the program CAP_SYSLOG, or run: "
        .. host.paranoid_command(1) .. ")"
    elseif level then
      message = message .. (" (kernel.kptr_restrict is %d: run as root or with CAP_SYSLOG%s)"):format(level,
        level >= 2 and " after sysctl kernel.kptr_restrict=1" or ", or run: sysctl kernel.kptr_restrict=0")
    end
  elseif code == "EBADMSG" then
    message = where .. ": no symbols in it"
  end
  return nil, message, code
end

--- Find the symbol at an address of the kernel.
-- @tparam integer addr
-- @treturn table a Frame @fails "ENOENT"
function Kernel:resolve(addr)
  local symbol, offset, module = argument.call_as_method("resolve", self.map.find, self.map, addr)
  if not symbol then return nil, ("%s: no symbol at %s"):format(self.path, hex(addr)), "ENOENT" end
  return setmetatable({ addr = addr, symbol = symbol, offset = offset, module = module or "[kernel.kallsyms]" }, Frame)
end

--- Find the address of a symbol of the kernel.
-- @tparam string name
-- @treturn integer address @fails "ENOENT"
function Kernel:address(name)
  local addr = argument.call_as_method("address", self.map.address, self.map, name)
  if not addr then return nil, ("%s: no symbol '%s'"):format(self.path, name), "ENOENT" end
  return addr
end

function Kernel:__tostring() return ("perf.symbols.Kernel(%s)"):format(self.path) end

--- The number of symbols.
-- @treturn integer
function Kernel:count() return argument.call_as_method("count", self.map.count, self.map) end

--- Free its memory. Idempotent.
function Kernel:close() self.map:close() end
Kernel.__close = Kernel.close

-- Resolver ------------------------------------------------------------------------------------------------------------

--- Names for the addresses of a process or a file. `resolver(addr)` is `resolver:resolve(addr)`.
-- @type Resolver
local Resolver = {}
Resolver.__index = Resolver
Resolver.__name = "perf.symbols.Resolver"

local MOST_KEPT = 65536 -- the largest number of frames; then all are dropped and looked up again

local check = checks.options("perf.symbols.open", { path = checks.path })
local map_fields = { addr = "address", filename = "string", pgoff = "address", len = "address", build_id = "string" }

local function forget(self)
  self.kept, self.n = { {}, {} }, 0
end

local function check_map(map, i)
  local function fail(text) argument.raise(("option 'maps': [%d]%s"):format(i, text), 1) end
  if type(map) ~= "table" then fail(": table expected, got " .. type(map)) end
  for _, key in ipairs { "addr", "filename" } do
    if map[key] == nil then fail(": field '" .. key .. "' expected") end
  end
  for key, kind in pairs_of(map_fields) do
    local v = map[key]
    if v ~= nil and (kind == "string" and type(v) ~= "string" or kind == "address" and not pcall(core.hex, v)) then
      fail((": field '%s': %s expected, got %s"):format(key, kind, type(v)))
    end
  end
end

local function from_hex(text)
  return text and (text:gsub("%x%x", function(two) return string.char(tonumber(two, 16)) end))
end

-- Report maps to the resolver. Files that cannot be read are listed in r.problems; the others are still used.
local function report_maps(self, maps)
  self.ext:begin()
  local seen, problems = {}, {}
  for _, map in ipairs(maps) do
    local key = map.filename .. "\0" .. hex(map.addr)
    if map.filename:sub(1, 1) == "/" and not seen[key] then
      seen[key] = true
      local ok, message, code = self.ext:report_map(map.filename, map.addr, map.pgoff or 0, from_hex(map.build_id))
      if not ok then problems[#problems + 1] = { filename = map.filename, message = message, code = code } end
    end
  end
  self.ext:finish()
  self.problems = problems
end

-- Report the files whose code a process has mapped. A program may also map a file only to read it, as libdwfl itself does, so
-- only runs of mappings of one file that have rising offsets and include code are modules.
local function report_process(self, pid)
  local mappings, message, code = host.maps(pid)
  if message then return nil, message, code end
  local run = {}
  self:begin()
  local function report()
    if run.code then self:report_module(run.path, "0x" .. run.from, "0x" .. run.to, pid) end
  end
  for from, to, perms, offset, major, minor, inode, path in mappings do
    local file, at = table.concat({ major, minor, inode, path }, " "), tonumber(offset, 16)
    if path == "[vdso]" then self:report_module(("[vdso: %d]"):format(pid), "0x" .. from, "0x" .. to, pid) end
    if file ~= run.file or at == 0 or at < run.offset then
      report()
      run = { file = file, path = path, from = from, code = false }
    end
    run.to, run.offset, run.code = to, at, inode ~= "0" and (run.code or perms:sub(3, 3) == "x")
  end
  report()
  self:finish()
  return true
end

local function proc_refused(pid, message, code)
  if code == "EACCES" or code == "EPERM" then
    message = message .. " (that needs the user and the group of the process, or CAP_SYS_PTRACE)"
  elseif code == "ENOENT" or code == "ESRCH" then
    return nil, ("no process %d"):format(pid), "ESRCH"
  end
  return nil, message, code
end

function Resolver:__tostring()
  return ("perf.symbols.Resolver(%s)"):format(self.name)
end

--- Open a Resolver for the addresses of a process or a file.
-- @tparam table options exactly one of `pid`, `path` and `maps`, and others
-- @treturn Resolver @fails
-- @raise for an unknown option
function M.open(opts)
  opts = check(opts, 1)
  local n = (opts.pid and 1 or 0) + (opts.path and 1 or 0) + (opts.maps and 1 or 0)
  if n ~= 1 then argument.raise(("exactly one of 'pid', 'path' and 'maps' expected, got %d"):format(n), 1) end
  for i, map in ipairs(opts.maps or {}) do check_map(map, i) end
  local resolver, message, code = ext.resolver(opts.debuginfod)
  if not resolver then return nil, message, code end
  local name = opts.path or opts.maps and #opts.maps .. " mappings" or "process " .. (opts.pid == 0 and core.pid() or opts.pid)
  local self = setmetatable({ ext = resolver, kernel = opts.kernel, problems = {}, name = name }, Resolver)
  forget(self)
  local ok = true
  if opts.pid then
    local pid = opts.pid == 0 and core.pid() or opts.pid
    ok, message, code = report_process(resolver, pid)
    if not ok then ok, message, code = proc_refused(pid, message, code) end
    self.pid, self.read_at, self.jit = pid, os.time(), jitmap.new(pid, ext.read_owned)
  else
    self.kernel = self.kernel or false
    if opts.path then ok, message, code = resolver:report_path(opts.path) else report_maps(self, opts.maps) end
  end
  if ok then return self end
  resolver:close()
  return nil, message, code
end

local function kernel_frame(self, addr)
  if self.kernel == nil or self.kernel == true then
    self.kernel = M.kernel() or false
    self.own_kernel = self.kernel
  end
  local frame = self.kernel and self.kernel:resolve(addr)
  return frame or setmetatable({ addr = addr, module = "[kernel.kallsyms]" }, Frame)
end

-- A process may map more files while it runs: for an address in no module its mappings are read again, at most once a second.
local function find(self, addr, back)
  local t = self.ext:find(addr, back)
  if t or not self.pid then return t end
  local now = os.time()
  if now ~= self.read_at then
    self.read_at = now
    if report_process(self.ext, self.pid) then return self.ext:find(addr, back) end
  end
end

local function look_up(self, addr, back)
  local t = find(self, addr, back)
  if t then
    t.addr = addr
    return setmetatable(t, Frame)
  end
  if self.kernel ~= false and u64.is_kernel(addr) then return kernel_frame(self, addr) end
  local symbol, offset = nil, nil
  if self.jit then symbol, offset = self.jit:find(addr) end
  if symbol then return setmetatable({ addr = addr, symbol = symbol, offset = offset, module = "[jit]" }, Frame) end
end

local function check_open(r, method)
  if not argument.check_object(r, Resolver, "Resolver", method).ext:is_open() then
    argument.raise_in_method(method, "Resolver is closed", 1)
  end
end

--- The function, file and line of an address.
-- @tparam integer addr the address
-- @tparam[opt=false] boolean is_return true for a return address (all but the first of a call chain): then the line is that of
-- the call, not of the code after it
-- @treturn table a Frame @fails "ENOENT" if no module has the address
function Resolver:resolve(addr, is_return)
  check_open(self, "resolve")
  local key = type(addr) == "number" and addr or argument.call_as_argument(1, "", hex, addr)
  local kept = self.kept[is_return and 2 or 1]
  local frame = kept[key]
  if frame == nil then
    frame = argument.call_as_argument(1, "", look_up, self, addr, is_return and 1 or 0) or false
    if self.n >= MOST_KEPT then
      forget(self)
      kept = self.kept[is_return and 2 or 1]
    end
    kept[key] = frame
    self.n = self.n + 1
  end
  if frame then return frame end
  return nil, ("nothing is known of address %s"):format(hex(addr)), "ENOENT"
end

Resolver.__call = Resolver.resolve

local machines = { x86_64 = true, aarch64 = true }
local check_unwind = checks.options "Resolver:unwind"

--- Unwind a user stack that a sample copied (`sample_type = {"regs_user", "stack_user"}`).
-- @tparam table options
-- @treturn {table,...} Frames, the innermost first; a frame in no known module has only `addr`
-- @treturn ?string the reason if it ends before the outermost frame
-- @fails "EOPNOTSUPP" for other machines and 32-bit code, "ENODATA" for a sample without registers
function Resolver:unwind(t)
  check_open(self, "unwind")
  t = check_unwind(t, 2)
  local abi = tostring(t.abi or t.regs.abi or 2)
  if abi == "0" then return nil, "the sample has no registers: its task is the kernel's own (abi 0)", "ENODATA" end
  local wide = abi == "64" or abi == "2"
  local machine = t.machine or select(2, core.uname())
  if not (machines[machine] and wide) then
    return nil, ("stacks of %s%s cannot be unwound here"):format(machine, wide and "" or " (32-bit)"), "EOPNOTSUPP"
  end
  local list, why = argument.call_as_argument(1, "", self.ext.frames, self.ext, machine, t.regs, t.stack, t.max)
  if not list then return nil, why, "ENOEXEC" end
  for i, pair in ipairs(list) do
    list[i] = self:resolve(pair[1], pair[2]) or setmetatable({ addr = pair[1] }, Frame)
  end
  if why then return list, why end
  return list
end

--- The files that are mapped.
-- @treturn {table,...} `{file=, start=, ["end"]=, build_id=}`
function Resolver:modules()
  check_open(self, "modules")
  return printed.rows(self.ext:modules())
end

--- Read the process's mappings again, and forget the previous answers.
-- @treturn boolean true @fails
function Resolver:refresh()
  check_open(self, "refresh")
  forget(self)
  if not self.pid then return true end
  self.jit:forget()
  self.read_at = os.time()
  local ok, message, code = report_process(self.ext, self.pid)
  if not ok then return proc_refused(self.pid, message, code) end
  return true
end

--- Whether the resolver is open.
-- @treturn boolean
function Resolver:is_open() return self.ext:is_open() end

--- Free its memory. Idempotent.
function Resolver:close()
  self.ext:close()
  if self.own_kernel then self.own_kernel:close() end
  forget(self)
end
Resolver.__close = Resolver.close

argument.check_methods(Resolver, "Resolver", "is_open close")
argument.check_methods(Kernel, "KernelSymbols", "resolve address count close")

strict.class(Resolver, "Resolver")
strict.class(Kernel, "KernelSymbols")

return M
