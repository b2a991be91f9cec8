-- An ELF shared object with symbols only, for tools that look names up by address.
--
--     0x00  ELF header          64 bytes
--     0x40  1 program header    56 bytes: maps the whole file, and the text after it, at address 0
--     0x80  5 section headers   64 bytes each: null, .text (no bytes in the file), .symtab, .strtab, .shstrtab
--     ...   .symtab             24 bytes a symbol: u32 name, u8 info, u8 other, u16 section, u64 value, u64 size
--     ...   .strtab, .shstrtab
--
-- Everything is in the byte order of this machine. A symbol has STEP bytes of .text. Addresses equal offsets in the file, as in a
-- shared object that is mapped from its start.
local core = require "perf.core"

local M = {}

-- The size of a symbol.
M.STEP = 16
-- The address of the first symbol: a multiple of every page size.
M.TEXT = 65536

local SECTIONS = 0x80

local machines = { x86_64 = 62, aarch64 = 183 }

-- name, kind, flags, address, offset, size, link, info, alignment, size of an entry
local SECTION = "4488884488"

-- The file's bytes.
-- @param names array of the symbols' names
-- @return string, and the size of its text
function M.encode(names)
  local symbols, strings, at = { ("\0"):rep(24) }, { "\0" }, 1
  for i, name in ipairs(names) do
    name = name:gsub("%z", " ") .. "\0"
    -- STB_GLOBAL, STT_FUNC
    symbols[i + 1] = core.bytes("411288", at, 18, 0, 1, M.TEXT + (i - 1) * M.STEP, M.STEP)
    strings[i + 1] = name
    at = at + #name
  end
  local symtab, strtab = table.concat(symbols), table.concat(strings)
  local shstrtab = "\0.text\0.symtab\0.strtab\0.shstrtab\0"
  local text, first = #names * M.STEP, SECTIONS + 5 * 64
  local little = core.bytes("2", 1):byte(1) == 1
  local header = "\127ELF\2" .. (little and "\1" or "\2") .. "\1" .. ("\0"):rep(9)
    .. core.bytes("2248884222222", 3, machines[select(2, core.uname())] or 0, 1, 0, 0x40, SECTIONS, 0, 64, 56, 1, 64, 5, 4)
  local size = first + #symtab + #strtab + #shstrtab
  -- PT_LOAD, read and execute
  local segment = core.bytes("44888888", 1, 5, 0, 0, 0, math.min(size, M.TEXT), M.TEXT + text, 4096)
    .. ("\0"):rep(SECTIONS - 0x40 - 56)
  local sections = ("\0"):rep(64)
    .. core.bytes(SECTION, 1, 8, 6, M.TEXT, M.TEXT, text, 0, 0, 16, 0) -- NOBITS, ALLOC and EXECINSTR
    .. core.bytes(SECTION, 7, 2, 0, 0, first, #symtab, 3, 1, 8, 24)
    .. core.bytes(SECTION, 15, 3, 0, 0, first + #symtab, #strtab, 0, 0, 1, 0)
    .. core.bytes(SECTION, 23, 3, 0, 0, first + #symtab + #strtab, #shstrtab, 0, 0, 1, 0)
  return table.concat { header, segment, sections, symtab, strtab, shstrtab }, text
end

return M
