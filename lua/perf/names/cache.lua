-- Names of the generic cache events: CACHE[-OP][-RESULT], in upper or lower case and in every spelling that perf(1) accepts.
--
--     L1-dcache-load-misses   =  l1d-read-miss   =  L1-data-load-misses
--     LLC-loads               =  LLC  =  llc-refs
--
-- config = cache | op << 8 | result << 16.  Without OP it is a load, without RESULT an access.

local core = require "perf.core"
local memo = require "perf.base.memo"
local pairs_of = require "perf.base.pairs"

local cache = {}

-- The kernel's symbol -> spellings, besides the names of cache.def and the symbol itself.
local spellings = {
  cache = {
    L1D = {"l1-d", "l1d", "L1-data"}, L1I = {"l1-i", "l1i", "L1-instruction"}, LL = {"L2"},
    DTLB = {"d-tlb", "Data-TLB"}, ITLB = {"i-tlb", "Instruction-TLB"}, BPU = {"branches", "bpu", "btb", "bpc"}, NODE = {},
  },
  op = {READ = {}, WRITE = {}, PREFETCH = {"speculative-read", "speculative-load"}},
  result = {ACCESS = {"refs", "Reference", "ops"}, MISS = {"miss"}},
}

local in_defs = {cache = "cache", op = "cache_op", result = "cache_result"}

-- "cache", "op" or "result" -> {rows =, by = rows by spelling}, made at the first use
local tables = memo(function(what)
  local by, rows = {}, core.defs()[in_defs[what]]
  for _, row in ipairs(rows) do
    by[row.sym:lower()], by[row.name:lower()] = row, row
    if row.plural then by[row.plural:lower()] = row end
    for _, s in ipairs(spellings[what][row.sym] or {}) do by[s:lower()] = row end
  end
  return {rows = rows, by = by}
end)

-- The longest spelling that text begins with, up to its end or a dash: its row and the rest of the text.
local function take(by, text)
  local best, rest
  for spelling, row in pairs_of(by) do
    if text:sub(1, #spelling) == spelling and (#text == #spelling or text:sub(#spelling + 1, #spelling + 1) == "-")
      and (not rest or #text - #spelling < #rest) then
      best, rest = row, text:sub(#spelling + 1)
    end
  end
  return best, rest
end

local function valid(c, op)
  return c.ops:find(op.name:sub(1, 1) == "l" and "r" or op.name:sub(1, 1) == "s" and "w" or "p", 1, true) ~= nil
end

-- The canonical name of a combination of rows.
function cache.name(c, op, result)
  if result.value == 0 then return c.name .. "-" .. op.plural end
  return c.name .. "-" .. op.name .. "-" .. result.name
end

local LONG = {
  L1D = "the first-level data cache", L1I = "the first-level instruction cache", LL = "the last-level cache",
  DTLB = "the data TLB", ITLB = "the instruction TLB", BPU = "the branch predictor", NODE = "the NUMA node's memory",
}

local function describe(c, op, result)
  local what = result.value == 0 and op.plural or op.name .. " " .. result.name
  return ("%s of %s"):format(what:gsub("^%l", string.upper), LONG[c.sym] or c.name)
end

-- Parse a name.
-- @return[1] config and a description
-- @return[2] nil
-- @return[3] nil and a reason, if the name is valid but the cache has no such operation
function cache.parse(text)
  local t = tables
  local c, rest = take(t.cache.by, text:lower())
  if not c then return nil end
  local op, result
  while rest ~= "" do
    local row, left = take(t.op.by, rest:sub(2))
    if row and not op then
      op = row
    else
      row, left = take(t.result.by, rest:sub(2))
      if not row or result then return nil end
      result = row
    end
    rest = left
  end
  op, result = op or t.op.rows[1], result or t.result.rows[1]
  if not valid(c, op) then return nil, ("%s has no %s"):format(c.name, op.plural) end
  return c.value + op.value * 256 + result.value * 65536, describe(c, op, result)
end

-- All valid combinations, in the kernel's order.
-- @tparam[opt] {row,...} caches
-- @tparam[opt] {row,...} ops
-- @tparam[opt] {row,...} results
-- @return array of {name=, config=, description=}
function cache.all(caches, ops, results)
  local t, out = tables, {}
  for _, c in ipairs(caches or t.cache.rows) do
    for _, op in ipairs(ops or t.op.rows) do
      for _, result in ipairs(results or t.result.rows) do
        if valid(c, op) then
          out[#out + 1] = {name = cache.name(c, op, result), description = describe(c, op, result),
            config = c.value + op.value * 256 + result.value * 65536}
        end
      end
    end
  end
  return out
end

-- The row that a spelling or a value stands for.
-- @string what "cache", "op" or "result"
-- @param key a name in any spelling, or the kernel's number
-- @return the row, or nil
function cache.row(what, key)
  local t = tables[what]
  if type(key) == "string" then return t.by[key:lower()] end
  for _, row in ipairs(t.rows) do
    if row.value == key then return row end
  end
end

-- The canonical names of the rows of "cache", "op" or "result".
function cache.names_of(what)
  local out = {}
  for i, row in ipairs(tables[what].rows) do out[i] = row.name end
  return out
end

return cache
