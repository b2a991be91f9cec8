--- Programs with page faults on known lines, for the specs of LuaJIT's compiled code. Call `map` before each spec, and `unmap`
-- after it.
local perf = require "perf"

local page_fault = {}

local SIZE = 65536 -- a multiple of all sizes of a page
-- The functions have names that no other spec declares: an FFI declaration is never forgotten.
local STATEMENT = "C.page_fault_drop(at, size, 4) C.page_fault_touch(at, 1, 1)"
-- Expressions with integer results: the compiler knows that these are true.
local EXPRESSIONS = { DROPPED = "C.page_fault_drop(at, size, 4)", TOUCHED = "C.page_fault_touched(at, 1, 1)" }

local ffi, at

--- Checks the needs of the machine, and maps the memory that the programs touch.
function page_fault.map()
  requires { lua = "luajit", registers = true, perf_open = true, nosan = true }
  if not ffi then
    ffi = require "ffi"
    ffi.cdef [[
      void *mmap(void *, size_t, int, int, int, long); int munmap(void *, size_t);
      int page_fault_drop(void *, size_t, int) __asm__("madvise");
      void page_fault_touch(void *, int, size_t) __asm__("memset");
      int page_fault_touched(void *, int, size_t) __asm__("memset");]]
  end
  at = ffi.cast("char *", ffi.C.mmap(nil, SIZE, 3, 0x22, -1, 0))
end

function page_fault.unmap()
  if at then ffi.C.munmap(at, SIZE) end
  at = nil
end

--- The end of a spec that has set options of the compiler: unmaps the page, and sets the default options.
function page_fault.restore()
  page_fault.unmap()
  local jit = rawget(_G, "jit")
  if jit then jit.opt.start(3, "hotloop=56", "hotexit=10") end
end

--- Runs a text as a chunk named "program", and returns its result. FAULT in it stands for a statement with one page fault.
-- DROPPED and TOUCHED stand for expressions: DROPPED frees the page, so that the TOUCHED after it has one page fault.
-- @param functions a table of functions to call instead of those of C
function page_fault.program(text, functions)
  text = text:gsub("%u+", EXPRESSIONS)
  return assert(loadstring("local C, at, size = ... " .. text:gsub("FAULT", STATEMENT), "=program"))(functions or ffi.C, at, SIZE)
end

--- An iterator of the faults in the memory that the programs touch, in their order: the number of each, and its sample.
-- @param prof a profile with a timeline
function page_fault.timeline(prof)
  local samples, address, n = prof:timeline(), tonumber(ffi.cast("intptr_t", at)), 0
  return function()
    for sample in samples do
      if sample.addr == address then
        n = n + 1
        return n, sample
      end
    end
  end
end

--- Calls fn(...) and returns the profile of its page faults.
function page_fault.profile(fn, ...) return perf.profile({ event = "page-faults", period = 1 }, fn, ...) end

--- The calling frames of the program, from the innermost one: what the interpreter itself says.
function page_fault.frames()
  local frames = {}
  for level = 2, math.huge do
    local info = debug.getinfo(level, "Sl")
    if not info then return frames end
    if info.source == "=program" then frames[#frames + 1] = { line = info.currentline, linedefined = info.linedefined } end
  end
end

--- Is this a frame of the program?
function page_fault.in_program(frame) return frame.name:find("program:", 1, true) == 1 end

--- The weights of a profile by line: of the innermost frames of the program, without those that have a range of lines.
function page_fault.by_line(prof)
  local weights = {}
  for _, s in ipairs(prof:samples()) do
    for _, frame in ipairs(s.stack) do
      if frame.line and page_fault.in_program(frame) then
        if not frame.lastline then weights[frame.line] = (weights[frame.line] or 0) + tonumber(s.weight) end
        break
      end
    end
  end
  return weights
end

return page_fault
