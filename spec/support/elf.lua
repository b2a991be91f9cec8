--- Builds little-endian 64-bit ELF files byte by byte, for any machine, without a compiler for it.
--
--     elf.build{machine = "aarch64", base = 0x10000, build_id = "\1\2\3\4",
--       symbols = {{name = "f", addr = 0x11000, size = 64}}, frames = {{addr = 0x11000, size = 64, cfa = 96, ra = -24}}}
--
-- One segment maps the whole file: the byte at an offset has the address base + offset. The code (4096 zeros) is at offset 4096.
-- A symbol without `addr` is undefined. `frames` are written to .eh_frame: in each function the frame's address (CFA) is the
-- stack pointer plus `cfa`, and the return address is saved at CFA + `ra`. `versions` is {of_all = the number of each symbol's
-- version, definitions = the bytes of .gnu.version_d, count = the number of definitions that the section claims}.
local elf = {}

local machines = { x86_64 = { number = 62, sp = 7, ra = 16 }, aarch64 = { number = 183, sp = 31, ra = 30 } }
local types = { rel = 1, exec = 2, dyn = 3, core = 4 }
local binds = { ["local"] = 0, global = 1, weak = 2 }
local kinds = { notype = 0, object = 1, func = 2, ifunc = 10 }

elf.TEXT = 4096

--- An integer of `size` bytes.
function elf.int(v, size)
  local t = {}
  if v < 0 then v = v + 256 ^ size end
  for i = 1, size do
    t[i] = string.char(v % 256)
    v = math.floor(v / 256)
  end
  return table.concat(t)
end
local int = elf.int

-- Append zeros to s, so that its size plus `more` becomes a multiple of n.
local function padded(s, n, more)
  return s .. ("\0"):rep(-(#s + (more or 0)) % n)
end

local function uleb(v)
  local out = ""
  repeat
    local byte = v % 128
    v = math.floor(v / 128)
    out = out .. string.char(v > 0 and byte + 128 or byte)
  until v == 0
  return out
end

-- .eh_frame at an address: a CIE, then an FDE for each function. Offsets of saved registers are in units of -8.
local function eh_frame(at, machine, frames)
  local cie = int(0, 4) .. "\1zR\0\1\120" .. string.char(machine.ra) .. "\1\27"
    .. "\12" .. uleb(machine.sp) .. "\0" -- DW_CFA_def_cfa
  cie = padded(cie, 8, 4)
  local out = int(#cie, 4) .. cie
  for _, f in ipairs(frames) do
    local body = "\0\14" .. uleb(f.cfa) .. string.char(128 + machine.ra) .. uleb(-f.ra / 8) -- def_cfa_offset, offset
    body = padded(body, 8)
    out = out .. int(12 + #body, 4) .. int(#out + 4, 4) .. int(f.addr - (at + #out + 8), 4) .. int(f.size, 4) .. body
  end
  return out .. int(0, 4)
end

-- A symbol table, local symbols first as the format requires. Adds their names to the strings.
local function symbol_table(symbols, strings)
  local out, locals, place = ("\0"):rep(24), 1, {}
  for _, first in ipairs { true, false } do
    for _, s in ipairs(symbols) do
      local is_local = s.bind == "local"
      if is_local == first then
        if not place[s.name] then
          place[s.name] = #strings.text
          strings.text = strings.text .. s.name .. "\0"
        end
        locals = locals + (is_local and 1 or 0)
        out = out .. int(place[s.name], 4) .. string.char(binds[s.bind or "global"] * 16 + kinds[s.kind or "func"], 0)
          .. int(s.addr and 1 or 0, 2) .. int(s.addr or 0, 8) .. int(s.size or 0, 8)
      end
    end
  end
  return out, locals
end

--- The bytes of a file.
function elf.build(spec)
  local machine, base = machines[spec.machine or "x86_64"], spec.base or 0
  local sections, file = {}, ("\0"):rep(elf.TEXT)
  local function add(name, kind, data, flags, link, info, entry)
    file = padded(file, 8)
    local s = { name = name, kind = kind, at = #file, size = #data, flags = flags or 0, link = link or 0, info = info or 0,
      entry = entry or 0 }
    file = file .. data
    sections[#sections + 1] = s
    return s
  end
  local note, header
  add(".text", 1, ("\0"):rep(4096), 6)
  if spec.build_id then
    note = add(".note.gnu.build-id", 7,
      padded(int(4, 4) .. int(#spec.build_id, 4) .. int(3, 4) .. "GNU\0" .. spec.build_id, 4), 2)
  end
  if spec.frames then
    file = padded(file, 8)
    local frame = add(".eh_frame", 1, eh_frame(base + #file, machine, spec.frames), 2)
    file = padded(file, 8)
    header = add(".eh_frame_hdr", 1, "\1\27\255\255" .. int(frame.at - (#file + 4), 4), 2)
  end
  local strings = { text = "\0" }
  local symbols, locals = symbol_table(spec.symbols or {}, strings)
  add(spec.dynamic and ".dynsym" or ".symtab", spec.dynamic and 11 or 2, symbols, 0, #sections + 2, locals, 24)
  add(".strtab", 3, strings.text)
  if spec.versions then
    add(".gnu.version", 0x6fffffff, int(spec.versions.of_all, 2):rep(#symbols / 24), 0, #sections - 1, 0, 2)
    add(".gnu.version_d", 0x6ffffffd, spec.versions.definitions, 0, #sections - 1, spec.versions.count)
  end
  local names = "\0"
  for _, s in ipairs(sections) do
    s.name_at = #names
    names = names .. s.name .. "\0"
  end
  add(".shstrtab", 3, names .. ".shstrtab\0").name_at = #names
  file = padded(file, 8)
  local function program(kind, flags, at, size, align)
    return int(kind, 4) .. int(flags, 4) .. int(at, 8) .. int(base + at, 8):rep(2) .. int(size, 8):rep(2) .. int(align, 8)
  end
  local head = "\127ELF\2\1\1" .. ("\0"):rep(9) .. int(types[spec.type or "dyn"], 2) .. int(machine.number, 2) .. int(1, 4)
    .. int(base + elf.TEXT, 8) .. int(64, 8) .. int(#file, 8) .. int(0, 4) .. int(64, 2) .. int(56, 2) .. int(3, 2)
    .. int(64, 2) .. int(#sections + 1, 2) .. int(#sections, 2)
    .. program(1, 5, 0, #file, 4096)
    .. program(header and 0x6474e550 or 0, 4, header and header.at or 0, header and header.size or 0, 4)
    .. program(note and 4 or 0, 4, note and note.at or 0, note and note.size or 0, 4)
  file = head .. file:sub(#head + 1) .. ("\0"):rep(64)
  for _, s in ipairs(sections) do
    file = file .. int(s.name_at, 4) .. int(s.kind, 4) .. int(s.flags, 8) .. int(s.flags > 0 and base + s.at or 0, 8)
      .. int(s.at, 8) .. int(s.size, 8) .. int(s.link, 4) .. int(s.info, 4) .. int(s.kind == 7 and 4 or 8, 8)
      .. int(s.entry, 8)
  end
  return file
end

return elf
