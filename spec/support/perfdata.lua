--- Builds perf.data files byte by byte, in either byte order, for specs that read them. It follows the format's description, and
-- uses no code of the module.
--
--     local m = perfdata.maker(">")      -- ">" big endian, "<" little endian
--     local bytes = m.file{attrs = {{attr = m.attr{...}, ids = {1, 2}}}, data = m.record(3, 0, ...), features = {[3] = ...}}
local perfdata = {}

-- The bit fields of perf_event_attr, in order, with their widths.
local flags = {{"disabled", 1}, {"inherit", 1}, {"pinned", 1}, {"exclusive", 1}, {"exclude_user", 1}, {"exclude_kernel", 1},
  {"exclude_hv", 1}, {"exclude_idle", 1}, {"mmap", 1}, {"comm", 1}, {"freq", 1}, {"inherit_stat", 1}, {"enable_on_exec", 1},
  {"task", 1}, {"watermark", 1}, {"precise_ip", 2}, {"mmap_data", 1}, {"sample_id_all", 1}, {"exclude_host", 1},
  {"exclude_guest", 1}, {"exclude_callchain_kernel", 1}, {"exclude_callchain_user", 1}, {"mmap2", 1}, {"comm_exec", 1},
  {"use_clockid", 1}, {"context_switch", 1}, {"write_backward", 1}, {"namespaces", 1}, {"ksymbol", 1}, {"bpf_event", 1},
  {"aux_output", 1}, {"cgroup", 1}, {"text_poke", 1}, {"build_id", 1}}

local branch_flags = {{"mispred", 1}, {"predicted", 1}, {"in_tx", 1}, {"abort", 1}, {"cycles", 16}, {"type", 4}, {"spec", 2},
  {"new_type", 4}, {"priv", 3}}

function perfdata.maker(order)
  local m = {}
  local big = order == ">"

  local function bytes_of(n, width)
    local out = {}
    for i = 1, width do
      out[big and width + 1 - i or i] = string.char(n % 256)
      n = math.floor(n / 256)
    end
    return table.concat(out)
  end

  function m.u8(...) return string.char(...) end
  function m.u16(n) return bytes_of(n, 2) end
  function m.u32(n) return bytes_of(n % 4294967296, 4) end

  --- A number, or {low, high} halves.
  function m.u64(n)
    local lo, hi
    if type(n) == "table" then lo, hi = n[1], n[2] else lo, hi = n % 4294967296, math.floor(n / 4294967296) % 4294967296 end
    return big and m.u32(hi) .. m.u32(lo) or m.u32(lo) .. m.u32(hi)
  end

  function m.u64s(list)
    local out = {}
    for i, v in ipairs(list) do out[i] = m.u64(v) end
    return table.concat(out)
  end

  --- Text with a final zero, padded to a multiple of 8.
  function m.text(s)
    return s .. ("\0"):rep(8 - #s % 8)
  end

  --- A feature's string.
  function m.string(s)
    local padded = s .. ("\0"):rep(64 - #s % 64)
    return m.u32(#padded) .. padded
  end

  -- C's bit fields begin at the lowest bit on little endian machines, at the highest on big endian ones.
  function m.bits(fields, values, width)
    local halves, at = {0, 0}, 0
    for _, f in ipairs(fields) do
      local v = values[f[1]] or 0
      if v == true then v = 1 end
      for bit = 0, f[2] - 1 do
        if math.floor(v / 2 ^ bit) % 2 == 1 then
          local pos = big and width - at - f[2] + bit or at + bit
          local half = pos < 32 and 1 or 2
          halves[half] = halves[half] + 2 ^ (pos % 32)
        end
      end
      at = at + f[2]
    end
    return width == 32 and m.u32(halves[1]) or m.u64(halves)
  end

  --- perf_event_attr of 128 bytes, or size.
  function m.attr(t)
    local b = m.u32(t.type or 0) .. m.u32(t.size or 128) .. m.u64(t.config or 0) .. m.u64(t.sample_period or t.sample_freq or 0)
      .. m.u64(t.sample_type or 0) .. m.u64(t.read_format or 0) .. m.bits(flags, t, 64) .. m.u32(t.wakeup_events or 0)
      .. m.u32(t.bp_type or 0) .. m.u64(t.config1 or 0) .. m.u64(t.config2 or 0) .. m.u64(t.branch_sample_type or 0)
      .. m.u64(t.sample_regs_user or 0) .. m.u32(t.sample_stack_user or 0) .. m.u32(t.clockid or 0)
      .. m.u64(t.sample_regs_intr or 0) .. m.u32(t.aux_watermark or 0) .. m.u16(t.sample_max_stack or 0) .. m.u16(0)
      .. m.u32(t.aux_sample_size or 0) .. m.bits({{"aux_start_paused", 1}, {"aux_pause", 1}, {"aux_resume", 1}}, t, 32)
      .. m.u64(t.sig_data or 0)
    assert(#b == 128)
    return b:sub(1, t.size or 128)
  end

  function m.branch(b)
    return m.u64(b.from) .. m.u64(b.to) .. m.bits(branch_flags, b, 64)
  end

  --- A record: header and the parts of its body.
  function m.record(type, misc, ...)
    local body = table.concat{...}
    return m.u32(type) .. m.u16(misc) .. m.u16(8 + #body) .. body
  end

  local function magic(old)
    return old and "PERFFILE" or big and "2ELIFREP" or "PERFILE2"
  end

  --- A file: attrs {attr, ids}, data, features {bit = bytes}. Options for unusual files: old (the first format, without
  -- features), types (the section of names), word (64 or 32, the bits of a long of the recording machine), edit(header) {size,
  -- attr_size ...}.
  function m.file(t)
    local h = {size = t.old and 72 or 104, attr_size = #t.attrs[1].attr + 16}
    local ids, entries = {}, {}
    local at = h.size
    for i, a in ipairs(t.attrs) do
      ids[i] = m.u64s(a.ids or {})
      entries[i] = a.attr .. m.u64(at) .. m.u64(#ids[i])
      at = at + #ids[i]
    end
    h.attrs_at, h.attrs_size = at, #table.concat(entries)
    h.types_at, h.types_size = at + h.attrs_size, #(t.types or "")
    h.data_at, h.data_size = h.types_at + h.types_size, #t.data
    local bits, tables, sections, words = {}, {}, {}, {}
    local n = 0
    for _ in pairs(t.features or {}) do n = n + 1 end
    local section_at = h.data_at + h.data_size + n * 16
    for bit = 0, 255 do
      local section = t.features and t.features[bit]
      bits[bit] = section and 1 or 0
      if section then
        tables[#tables + 1] = m.u64(section_at) .. m.u64(#section)
        sections[#sections + 1] = section
        section_at = section_at + #section
      end
    end
    local long = t.word or 64
    for at_bit = 0, 255, long do
      local lo, hi = 0, 0
      for b = 0, long - 1 do
        if b < 32 then lo = lo + bits[at_bit + b] * 2 ^ b else hi = hi + bits[at_bit + b] * 2 ^ (b - 32) end
      end
      words[#words + 1] = long == 64 and m.u64{lo, hi} or m.u32(lo)
    end
    if t.edit then t.edit(h) end
    local header = magic(t.old) .. m.u64s{h.size, h.attr_size, h.attrs_at, h.attrs_size, h.data_at, h.data_size,
      t.types and h.types_at or 0, h.types_size} .. (t.old and "" or table.concat(words))
    return header .. table.concat(ids) .. table.concat(entries) .. (t.types or "") .. t.data .. table.concat(tables)
      .. table.concat(sections)
  end

  --- A pipe's stream.
  function m.pipe(data, old)
    return magic(old) .. m.u64(16) .. data
  end

  return m
end

return perfdata
