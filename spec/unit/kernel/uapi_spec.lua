-- The module's tables, compared with the installed kernel header: every name of the header is a row of a table, with the header's
-- value. A header that is newer than the tables fails here, with the new names.
local core = require "perf.core"

local HEADER = "/usr/include/linux/perf_event.h"

local function read(path)
  local f = io.open(path)
  if not f then return nil end
  local text = f:read "*a"
  f:close()
  return (text:gsub("/%*.-%*/", " "):gsub("//[^\n]*", " "))
end

-- The value of a constant expression in a header, or nil for other expressions.
local function value_of(text, known)
  text = text:gsub("%(__u64%)", ""):gsub("[()]", " "):gsub("^%s+", ""):gsub("%s+$", "")
  local function term(s)
    s = s:gsub("^%s+", ""):gsub("%s+$", "")
    if known[s] then return known[s] end
    local number = s:match "^(%-?%d+)[ULul]*$" or s:match "^(0[xX]%x+)[ULul]*$"
    return number and tonumber(number)
  end
  local a, b = text:match "^(.-)<<(.-)$"
  if a then
    a, b = term(a), term(b)
    return a and b and a * 2 ^ b
  end
  return term(text)
end

-- Every constant of the header: {name = value, or true if the value is not a number}.
local function constants(text)
  local names = {}
  for body in text:gmatch "enum%s*[%w_]*%s*(%b{})" do
    local following = 0
    for item in body:sub(2, -2):gmatch "[^,]+" do
      local name, expression = item:match "^%s*([%w_]+)%s*=%s*(.-)%s*$"
      name = name or item:match "^%s*([%w_]+)%s*$"
      if name then
        local v = expression and value_of(expression, names) or not expression and following
        names[name] = v or true
        following = type(v) == "number" and v + 1 or nil
      end
    end
  end
  for name, expression in text:gsub("\\\n", " "):gmatch "#define%s+([%w_]+)[ \t]+([^\n]+)" do
    names[name] = value_of(expression, names) or true
  end
  return names
end

local text = read(HEADER)
local names = text and constants(text) or {}

-- A table of the module: the kernel's names of its rows, and the values in the header. Removes them from `names`.
local function check(prefix, rows, value)
  local mine = {}
  for _, row in ipairs(rows) do mine[row.sym] = row end
  for name, theirs in pairs(names) do
    local sym = name:sub(1, #prefix) == prefix and name:sub(#prefix + 1)
    local row = sym and mine[sym]
    if row then
      if type(theirs) == "number" then assert.equal(theirs, value and value(row) or tonumber(row.value), name) end
      names[name] = nil
    end
  end
end

local function bit(row) return 2 ^ row.value end

-- The tables by which records are decoded: {sym=, value=, name=} of each row of their files; data_src has also field and prefix.
local function record_tables()
  local tables = { data_src = {} }
  local function add(key, path, macro)
    local rows = {}
    for sym, value, name in read("csrc/core/" .. path):gmatch("\n" .. macro .. '%(([%w_]+),%s*(%-?%w+),%s*"([^"]*)"') do
      rows[#rows + 1] = { sym = sym, value = tonumber(value), name = name }
    end
    assert.is_true(#rows > 0, key)
    tables[key] = rows
  end
  for _, key in ipairs { "mode", "context", "txn", "aux_flag", "ksymbol", "bpf_event", "namespace" } do
    add(key, "kernel/defs/" .. key .. ".def", "X")
  end
  add("misc", "record/misc.def", "X")
  for _, part in ipairs { "type", "new_type", "spec", "priv" } do
    add("branch_" .. part, "kernel/defs/branch_entry.def", part:upper())
  end
  for field, prefix, sym, value, name in read "csrc/core/kernel/defs/data_src.def":gmatch
    '\nVALUE%((%w[%w_]*),%s*([%w_]+),%s*([%w_]+),%s*(%w+),%s*"([^"]*)"' do
    table.insert(tables.data_src, { field = field, prefix = prefix, sym = sym, value = tonumber(value), name = name })
  end
  assert.is_true(#tables.data_src > 50)
  return tables
end

-- The registers of the table: {arch=, name=, value=}.
local function registers()
  local rows = {}
  for arch, first, list in read "csrc/core/kernel/defs/regs.def":gmatch "\nREGISTERS%((%w+), (%d+), ([^)]*)%)" do
    local value = tonumber(first)
    for name in list:gmatch "[%w_]+" do
      rows[#rows + 1] = { arch = arch, name = name, value = value }
      value = value + 1
    end
  end
  assert.is_true(#rows > 100)
  return rows
end

-- All tables; the names that remain in `names` are new to them.
local function compare()
  local defs, records = core.defs(), record_tables()
  -- Longer prefixes first, since each removes its names.
  check("PERF_SAMPLE_BRANCH_", defs.branch, bit)
  check("PERF_SAMPLE_", defs.sample, bit)
  check("PERF_FORMAT_", defs.format, bit)
  check("PERF_RECORD_MISC_", records.mode)
  check("PERF_RECORD_MISC_", records.misc, bit)
  check("PERF_RECORD_KSYMBOL_TYPE_", records.ksymbol)
  check("PERF_RECORD_", defs.record)
  check("PERF_BPF_EVENT_", records.bpf_event)
  check("PERF_CONTEXT_", records.context)
  check("PERF_TXN_", records.txn, bit)
  check("PERF_AUX_FLAG_", records.aux_flag, bit)
  check("PERF_BR_NEW_", records.branch_new_type)
  check("PERF_BR_PRIV_", records.branch_priv)
  check("PERF_BR_", records.branch_spec)
  check("PERF_BR_", records.branch_type)
  for _, row in ipairs(records.data_src) do check("PERF_MEM_" .. row.prefix .. "_", { row }) end
  check("PERF_COUNT_HW_CACHE_OP_", defs.cache_op)
  check("PERF_COUNT_HW_CACHE_RESULT_", defs.cache_result)
  check("PERF_COUNT_HW_CACHE_", defs.cache)
  check("PERF_COUNT_HW_", defs.hardware)
  check("PERF_COUNT_SW_", defs.software)
  check("PERF_TYPE_", defs.types)
  check("PERF_EVENT_IOC_", defs.ioctl)
  local namespaces = {}
  for i, row in ipairs(records.namespace) do namespaces[i] = { sym = row.sym .. "_NS_INDEX", value = row.value } end
  check("", namespaces)
end

describe("the tables", function()
  before_each(function() requires { file = HEADER } end)

  it("have the values of the header", function()
    compare()
  end)

  it("have every name of the header", function()
    compare()
    -- Ends of enums, places of fields, and names that other parts of the module use.
    local known = {
      "_MAX$", "^PERF_MEM_%w+_SHIFT$", "^PERF_SAMPLE_BRANCH_[%w_]+_SHIFT$", "^PERF_RECORD_MISC_CPUMODE_MASK$",
      "^PERF_SAMPLE_BRANCH_PLM_ALL$", "^PERF_SAMPLE_WEIGHT_TYPE$", "^PERF_SAMPLE_REGS_ABI_%w+$", "^PERF_TXN_ABORT_%w+$",
      "^PERF_ATTR_SIZE_VER%d$", "^PERF_FLAG_[%w_]+$", "^PERF_IOC_FLAG_GROUP$", "^PERF_MAX_[%w_]+$", "^PERF_MEM_S$",
      "^PERF_RECORD_KSYMBOL_FLAGS_UNREGISTER$", "^PERF_AUX_FLAG_PMU_FORMAT_TYPE_MASK$", "^PERF_AUX_FLAG_CORESIGHT_[%w_]+$",
      "^PERF_BR_ARM64_%w+$", "^PERF_BR_ARM64_DEBUG_%w+$", "^PERF_PMU_TYPE_SHIFT$", "^PERF_HW_EVENT_MASK$", "^NR_NAMESPACES$",
      "^PERF_BRANCH_ENTRY_INFO_BITS_MAX$", "^_[%w_]*LINUX_PERF_EVENT_H$", "^perf_flags$",
      "^__PERF_SAMPLE_CALLCHAIN_EARLY$", -- the kernel's own bit, in headers before 5.11
    }
    local unknown = {}
    for name in pairs(names) do
      local found
      for _, pattern in ipairs(known) do found = found or name:find(pattern) end
      if not found then unknown[#unknown + 1] = name end
    end
    table.sort(unknown)
    assert.same({}, unknown)
  end)

  it("have each field of perf_event_attr", function()
    local body = text:match "struct perf_event_attr%s*(%b{})"
    local mine = { size = true, aux_action = true } -- aux_action: the word of aux_start_paused, aux_pause and aux_resume
    for _, field in ipairs(core.defs().attr) do mine[field.name] = true end
    local n = 0
    for name in body:gmatch "([%a_][%w_]*)%s*:?%s*%d*%s*[;,]" do
      if not name:find "^__" then
        n = n + 1
        assert.is_true(mine[name], name)
      end
    end
    assert.is_true(n > 50)
  end)

  it("have the requests of ioctl by their numbers", function()
    for name, number in text:gmatch "PERF_EVENT_IOC_([%u_]+)%s+_IO%u*%s*%('%$',%s*(%d+)" do
      local found
      for _, row in ipairs(core.defs().ioctl) do
        if row.sym == name then found = row.value % 256 end
      end
      assert.equal(tonumber(number), found, name)
    end
  end)

  it("have this machine's registers", function()
    local _, machine = core.uname()
    local arch = machine:match "^x86" and "X86" or machine:match "^aarch64" and "ARM64" or machine:match "^arm" and "ARM"
      or machine:match "^riscv" and "RISCV"
    local path
    for _, p in ipairs { "/usr/include/asm/perf_regs.h", "/usr/include/" .. machine .. "-linux-gnu/asm/perf_regs.h" } do
      path = path or read(p) and p
    end
    requires { file = path or "/usr/include/asm/perf_regs.h" }
    local prefix = "PERF_REG_" .. arch .. "_"
    local mine = {}
    for _, row in ipairs(registers()) do
      if row.arch == arch then mine[row.name:upper()] = row.value end
    end
    local n = 0
    for name, value in pairs(constants(read(path))) do
      local sym = name:sub(1, #prefix) == prefix and not name:find "MAX$" and name:sub(#prefix + 1)
      if sym then
        n = n + 1
        assert.equal(value, mine[sym], name)
      end
    end
    assert.is_true(n >= 16)
  end)

  it("have no value twice and no name twice", function()
    local tables = record_tables()
    tables.regs = registers()
    for key, rows in pairs(tables) do
      local seen = {}
      for _, row in ipairs(rows) do
        local where = (row.field or "") .. (row.arch or "")
        if key ~= "misc" then -- its bits have another meaning in each type
          local value, name = where .. " " .. tostring(row.value), where .. " " .. row.name
          assert.is_nil(seen[value], key .. " " .. value)
          assert.is_nil(seen[name], key .. " " .. name)
          seen[value], seen[name] = true, true
        end
      end
    end
  end)
end)
