-- The bytes of records that a recorder makes itself, for what existed before its events were opened: running programs, their
-- mappings, the kernel's code. `trailer` is the number of bytes that sample_id_all adds to a record (core.trailer).
local core = require "perf.core"

local M = {}

local KERNEL_MODE, USER_MODE = 1, 2 -- the cpu mode in misc
local MAX_NAME = 4095

local types = {}
for _, row in ipairs(core.defs().record) do types[row.name] = row.value end

local function record(type, misc, body)
  return core.bytes("422", types[type], misc, 8 + #body) .. body
end

-- A record that ends with a name, which is padded with zeros to 8 bytes, and a trailer of zeros.
local function named(type, misc, body, name, trailer)
  name = name:sub(1, MAX_NAME)
  return record(type, misc, body .. name .. ("\0"):rep(8 - #name % 8 + trailer))
end

-- A trailer of `size` bytes: zeros, and in the last 8 the event's id, where the sample_type "identifier" puts it.
local function trailer_of(id, size)
  return size < 8 and "" or ("\0"):rep(size - 8) .. core.bytes("8", id)
end

function M.comm(pid, tid, comm, trailer)
  return named("comm", USER_MODE, core.bytes("44", pid, tid), comm, trailer)
end

-- Code of the kernel or of a module.
function M.kernel_map(addr, len, pgoff, name, trailer)
  return named("mmap", KERNEL_MODE, core.bytes("44888", -1, 0, addr, len, pgoff), name, trailer)
end

-- An executable mapping: {pid=, tid=, addr=, len=, pgoff=, ino=, maj=, min=, prot=, flags=, filename=}.
function M.map(m, trailer)
  local body = core.bytes("44888448844", m.pid, m.tid, m.addr, m.len, m.pgoff, m.maj or 0, m.min or 0, m.ino or 0, 0, m.prot,
    m.flags)
  return named("mmap2", USER_MODE, body, m.filename, trailer)
end

-- How many samples of the event with that id were lost, as perf record writes it.
function M.lost_samples(id, lost, trailer)
  return record("lost_samples", 0, core.bytes("8", lost) .. trailer_of(id, trailer))
end

-- A lost record, as the kernel writes it.
function M.lost(id, lost, trailer)
  return record("lost", 0, core.bytes("88", id, lost) .. trailer_of(id, trailer))
end

return M
