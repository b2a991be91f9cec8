-- A profile as a perf.data file, for `perf report`, `perf script` and other readers.
--
-- perf has only addresses, and looks up their names in files. So each frame gets a separate address in a file of symbols, which
-- is written beside the perf.data file (PATH.symbols), and which the perf.data file shows as mapped. Each stack is one sample,
-- with its weight as the period, and its zone and its frames as the call chain. So perf's sum is the event's count, but its
-- number of samples is the number of different stacks. Keep the two files together; if they are moved, pass the new prefix of
-- the path to perf: --symfs.
local argument = require "perf.base.argument"
local attempt = require "perf.base.attempt"
local core = require "perf.core"
local file = require "perf.base.file"
local late = require "perf.base.late"
local memo = require "perf.base.memo"
local state = require "perf.data.synthesize"
local symbol_file = require "perf.profile.report.symbol_file"
local synthesize = require "perf.record.synthesize"
local text = require "perf.profile.report.frame_names"

local M = {}

local try, catch = attempt.try, attempt.catch

local BASE = 0x10000000 -- the address at which the symbols are mapped
local SAMPLE, USER, CONTEXT_USER = 9, 2, -512 -- of PERF_RECORD_, PERF_RECORD_MISC_ and PERF_CONTEXT_
local HALF = math.floor(symbol_file.STEP / 2)
local MOST = 8000 -- frames of a stack: a record's size has 16 bits

local attr = { type = "software", config = 0, sample_period = 1, sample_type = { "ip", "tid", "time", "period", "callchain" },
  sample_id_all = true, mmap = true, mmap2 = true, comm = true, task = true }

-- Numbers frames in the order of their first use: frame -> its bytes in a call chain.
local function addresses()
  local names = {}
  return names, memo(function(frame)
    names[#names + 1] = text.line(frame.name)
    -- An address within the symbol, since readers look up the byte before a caller's address.
    return core.bytes("8", BASE + symbol_file.TEXT + #names * symbol_file.STEP - HALF)
  end)
end

-- All samples as records, written in blocks.
local function records_of(prof)
  local names, address = addresses()
  local blocks, parts, n = {}, {}, 0
  local who = core.bytes("44", prof.pid or 0, prof.tid or prof.pid or 0)
  local none, no_frames = { { name = "(no stack)" } }, {}
  local zones = memo(function(zone) return address[{ name = zone }] end)
  -- Caches of repeated parts. No string is made of a single record: LuaJIT's string table is slow with similar strings.
  local head = memo(function(depth) return core.bytes("422", SAMPLE, USER, 56 + 8 * depth) end)
  local chain = memo(function(depth) return core.bytes("88", depth + 1, CONTEXT_USER) end)
  for i, sample in ipairs(prof:samples()) do
    local zone = sample.zone and zones[sample.zone]
    local stack = #sample.stack > 0 and sample.stack or zone and no_frames or none
    local depth = math.min(#stack, MOST)
    local all = depth + (zone and 1 or 0)
    parts[n + 1], parts[n + 2], parts[n + 3] = head[all], depth > 0 and address[stack[1]] or zone, who
    parts[n + 4], parts[n + 5] = core.bytes("8", i), core.bytes("8", math.floor(text.number(sample.weight)))
    parts[n + 6] = chain[all]
    n = n + 6
    for k = 1, depth do parts[n + k] = address[stack[k]] end
    parts[n + all] = zone or parts[n + all]
    n = n + all
    if n >= 32768 then
      blocks[#blocks + 1] = table.concat(parts, "", 1, n)
      n = 0
    end
  end
  blocks[#blocks + 1] = n > 0 and table.concat(parts, "", 1, n) or nil
  return blocks, names
end

local function write_all(w, prof, blocks, symbols, size)
  local trailer = core.trailer(attr)
  local pid, tid = prof.pid or 0, prof.tid or prof.pid or 0
  local first = synthesize.comm(pid, tid, text.line(prof.comm or "lua"), trailer)
    .. synthesize.map({ pid = pid, tid = tid, addr = BASE, len = symbol_file.TEXT + size, pgoff = 0, prot = 5, flags = 2,
      filename = symbols }, trailer)
  local function write(bytes) try(w:write(bytes)) end
  write(first)
  state.kernel(write, trailer) -- perf warns about a file without the kernel's map
  for _, block in ipairs(blocks) do write(block) end
  return true
end

-- Write both files, through `outputs`, which the caller closes.
local function write_files(prof, path, outputs)
  local blocks, names = records_of(prof)
  local elf, size = symbol_file.encode(names)
  local symbols = path .. ".symbols"
  outputs[1] = try(core.output(path))
  outputs[2] = try(core.output(symbols))
  try(outputs[2]:write(elf))
  -- The core's writer writes to the temporary file of the output.
  outputs.place = outputs[1]:place()
  local w = try(late "perf.data".create(outputs.place, { mode = "overwrite", build_ids = false,
    events = { { attr = attr, ids = { 1 }, name = text.line(prof.event) } } }))
  local ok, message, code = catch(write_all, w, prof, blocks, file.absolute(symbols), size)
  local closed, m, c = w:close()
  try(ok, message, code)
  try(closed, m, c)
  try(outputs[2]:commit())
  return try(outputs[1]:commit())
end

--- Write a profile as perf.data, and PATH.symbols beside it.
-- @function Profile:perf_data
-- @tparam string path the file
-- @treturn boolean true @fails if they cannot be written
function M.perf_data(prof, path)
  argument.check_path(path, "perf_data", 2)
  local outputs = {}
  local ok, message, code = catch(write_files, prof, path, outputs)
  if ok then return true end
  for _, out in ipairs(outputs) do out:close() end
  return nil, outputs.place and message:gsub(outputs.place:gsub("%p", "%%%0"), (path:gsub("%%", "%%%%"))) or message, code
end

return M
