-- Files from real hardware, compared with what another decoder read from them (google/perf_data_converter's quipper, as text):
-- every event in the file's order and every field that both have, the attrs with their ids, and the features.
-- Long: make test runs this file on LuaJIT and Lua 5.4, make test-long on the other interpreters.
local core = require "perf.core"
local data = require "perf.data"
local decimal = require "spec.support.decimal"
local textproto = require "spec.support.textproto"
local util = require "spec.support.util"

-- A value of this module in the text's form.
local function text_of(v)
  if v == nil then return "nil" end
  if type(v) == "boolean" or type(v) == "string" and not v:find("^0x%x+$") then return tostring(v) end
  return decimal(v)
end

-- Ids of processes are unsigned there.
local function pid_of(v)
  return v and v < 0 and decimal(v + 4294967296) or text_of(v)
end

local place -- the compared field, for a failure's message

local function same(expected, got, what)
  if expected ~= nil and expected ~= got then
    error(("%s: %s is %s, not %s"):format(place, what, got, expected), 0)
  end
end

local function one(message, field)
  return message[field] and message[field][1]
end

local is_pid = {pid = true, tid = true, ppid = true, ptid = true, next_prev_pid = true, next_prev_tid = true}

local function compare(message, rec, fields)
  for theirs, ours in pairs(fields) do
    local expected = one(message, theirs)
    if expected ~= nil then
      same(expected, (is_pid[ours] and pid_of or text_of)(rec[ours]), ours)
    end
  end
end

-- The fields that sample_id_all adds, from the end of the record's bytes: the record's own pid, tid and time have these names in
-- a Record.
local function trailer(rec)
  local attr = rec:info().attr
  if not attr or not attr.sample_id_all or rec.type == "sample" then return {} end
  local has = {}
  for _, name in ipairs(attr.sample_type) do has[name] = true end
  local words, out = {}, {}
  local bytes = rec:bytes()
  for at = #bytes - 7, 1, -8 do
    local b = {bytes:byte(at, at + 7)}
    table.insert(words, 1, {lo = b[1] + b[2] * 256 + b[3] * 65536 + b[4] * 16777216,
      hi = b[5] + b[6] * 256 + b[7] * 65536 + b[8] * 16777216})
  end
  local function take(name)
    return has[name] and table.remove(words)
  end
  local function whole(word)
    return word and decimal(core.u64(word.lo, word.hi))
  end
  local identifier, cpu = take("identifier"), take("cpu")
  out.stream_id, out.id = whole(take("stream_id")), whole(take("id"))
  out.id = out.id or whole(identifier)
  out.sample_time_ns = whole(take("time"))
  local tid = take("tid")
  out.cpu = cpu and text_of(cpu.lo)
  out.pid, out.tid = tid and text_of(tid.lo), tid and text_of(tid.hi)
  return out
end

local function compare_sample_info(message, rec)
  local info = one(message, "sample_info")
  if not info then return end
  local got = trailer(rec)
  for field, values in pairs(info) do same(values[1], got[field], "sample_info " .. field) end
  if rec.event_id then same(one(info, "id"), text_of(rec.event_id), "event_id") end
  if not rec.type:find("^[fe]") and not rec.type:find("throttle$") then
    same(one(info, "sample_time_ns"), text_of(rec.time), "time")
  end
end

local function compare_sample(message, rec)
  compare(message, rec, {ip = "ip", pid = "pid", tid = "tid", sample_time_ns = "time", addr = "addr", id = "event_id",
    stream_id = "stream_id", period = "period", cpu = "cpu", weight = "weight", transaction = "transaction",
    physical_addr = "phys_addr", cgroup = "cgroup", data_page_size = "data_page_size", code_page_size = "code_page_size"})
  if message.raw_size then same(one(message, "raw_size"), text_of(#rec.raw), "raw size") end

  local chain, at = {}, {}
  local contexts, k = rec.callchain_contexts or {}, 1
  local values = {kernel = "18446744073709551488", user = "18446744073709551104"}
  for i, ip in ipairs(rec.callchain or {}) do
    while contexts[k] and contexts[k].index == i do
      chain[#chain + 1], k = values[contexts[k].context], k + 1
    end
    chain[#chain + 1] = text_of(ip)
    at[#chain] = i
  end
  for _ = k, #contexts do chain[#chain + 1], k = values[contexts[k].context], k + 1 end
  same(#(message.callchain or {}), #chain, "length of the callchain")
  for i, expected in ipairs(message.callchain or {}) do
    -- quipper sets the highest bit of an address that is in no map.
    local lo, hi = core.halves(rec.callchain[at[i]] or 0)
    if expected ~= chain[i] and hi < 2147483648 then chain[i] = decimal(core.u64(lo, hi + 2147483648)) end
    same(expected, chain[i], "callchain")
  end

  local branches = rec.branch_stack or {}
  same(#(message.branch_stack or {}), #branches, "branches")
  for i, b in ipairs(message.branch_stack or {}) do
    compare(b, branches[i], {from_ip = "from", to_ip = "to", mispredicted = "mispred", predicted = "predicted",
      in_transaction = "in_tx", abort = "abort", cycles = "cycles"})
    same(({["0"] = "nil", ["1"] = "wrong_path", ["2"] = "non_spec_correct_path", ["3"] = "correct_path"})[one(b, "spec") or "0"],
      text_of(branches[i].spec), "branch spec")
  end

  local read = one(message, "read_info")
  if read then
    same(one(read, "time_enabled"), text_of(rec.counts.enabled_ns), "time enabled")
    same(one(read, "time_running"), text_of(rec.counts.running_ns), "time running")
    same(#read.read_value, #rec.counts, "counts")
    for i, v in ipairs(read.read_value) do
      same(one(v, "value"), text_of(rec.counts[i].value), "count")
      same(one(v, "id"), text_of(rec.counts[i].id), "id of count")
    end
  end
end

local function compare_mmap(message, rec)
  compare(message, rec, {pid = "pid", tid = "tid", start = "addr", len = "len", pgoff = "pgoff", filename = "filename",
    maj = "maj", min = "min", ino = "ino", ino_generation = "ino_generation", prot = "prot", flags = "flags"})
  compare_sample_info(message, rec)
end

local function compare_task(message, rec)
  compare(message, rec, {pid = "pid", ppid = "ppid", tid = "tid", ptid = "ptid", fork_time_ns = "time"})
  compare_sample_info(message, rec)
end

local compares = {
  sample_event = compare_sample,
  mmap_event = compare_mmap,
  fork_event = compare_task,
  exit_event = compare_task,
  comm_event = function(message, rec)
    compare(message, rec, {pid = "pid", tid = "tid", comm = "comm"})
    compare_sample_info(message, rec)
  end,
  throttle_event = function(message, rec)
    compare(message, rec, {time_ns = "time", id = "id", stream_id = "stream_id"})
    compare_sample_info(message, rec)
  end,
  lost_event = function(message, rec)
    compare(message, rec, {id = "id", lost = "lost"})
    compare_sample_info(message, rec)
  end,
  lost_samples_event = function(message, rec)
    compare(message, rec, {num_lost = "lost"})
    compare_sample_info(message, rec)
  end,
  aux_event = function(message, rec)
    compare(message, rec, {aux_offset = "aux_offset", aux_size = "aux_size", is_truncated = "truncated",
      is_overwrite = "overwrite", is_partial = "partial"})
    compare_sample_info(message, rec)
  end,
  itrace_start_event = function(message, rec)
    compare(message, rec, {pid = "pid", tid = "tid"})
    compare_sample_info(message, rec)
  end,
  context_switch_event = function(message, rec)
    compare(message, rec, {is_out = "out", next_prev_pid = "next_prev_pid", next_prev_tid = "next_prev_tid"})
    compare_sample_info(message, rec)
  end,
  namespaces_event = function(message, rec)
    compare(message, rec, {pid = "pid", tid = "tid"})
    same(#message.link_info, #rec.namespaces, "namespaces")
    for i, link in ipairs(message.link_info) do
      compare(link, rec.namespaces[i], {dev = "dev", ino = "ino"})
    end
    compare_sample_info(message, rec)
  end,
  ksymbol_event = function(message, rec)
    compare(message, rec, {addr = "addr", len = "len", name = "name", flags = "flags"})
    same(({["0"] = "unknown", ["1"] = "bpf", ["2"] = "ool"})[one(message, "ksym_type")], rec.ksym_type, "ksym_type")
    compare_sample_info(message, rec)
  end,
  thread_map_event = function(message, rec)
    same(#message.entries, #rec.threads, "threads")
    for i, entry in ipairs(message.entries) do compare(entry, rec.threads[i], {pid = "pid", comm = "comm"}) end
  end,
  time_conv_event = function(message, rec)
    compare(message, rec, {time_shift = "time_shift", time_mult = "time_mult", time_zero = "time_zero",
      time_cycles = "time_cycles", time_mask = "time_mask"})
  end,
  auxtrace_info_event = function(message, rec)
    compare(message, rec, {type = "kind"})
    for i, v in ipairs(message.unparsed_binary_blob_priv_data) do same(v, text_of(rec.priv[i]), "priv") end
  end,
  auxtrace_event = function(message, rec, entry)
    compare(message, rec, {size = "data_size", offset = "offset", reference = "reference", idx = "idx", tid = "tid",
      cpu = "cpu"})
    same(one(message, "trace_data"), entry.payload, "trace data")
  end,
}

-- Records that quipper leaves out of its list, or puts elsewhere.
local left_out = {header_attr = true, header_event_type = true, header_feature = true, event_update = true, id_index = true,
  cpu_map = true, bpf_event = true}

local function payload(file)
  local parts = {}
  for part in function() return file:payload(1000) end do parts[#parts + 1] = part end
  return table.concat(parts)
end

-- The records that are compared: {rec =, payload =, time = of the trailer}.
local function read_records(file)
  local list = {}
  for rec in file:records() do
    if not left_out[rec.type] then
      local time = rec.type == "sample" and rec.time or tonumber(trailer(rec).sample_time_ns or 0)
      list[#list + 1] = {rec = rec, n = #list, time = time, payload = rec.type == "auxtrace" and payload(file) or nil}
    end
  end
  return list
end

local function compare_event(event, list, at)
  local header, entry = one(event, "header"), list[at]
  local rec = entry.rec
  place = ("event %d, %s at %s"):format(at, rec.type, text_of(rec.time))
  same(one(header, "type"), text_of(rec.type_id), "type")
  same(one(header, "misc"), text_of(rec.misc), "misc")
  local map, rest = one(event, "mmap_event"), list[at + 1]
  if map and one(map, "len") ~= text_of(rec.len) and rest and rest.rec.filename == "//anon" then
    -- quipper joins mappings that Chrome split in two.
    assert.equal(text_of(rec.addr), one(map, "start"))
    assert.equal(text_of(rec.len + rest.rec.len), one(map, "len"))
    return 2
  end
  for name, values in pairs(event) do
    if compares[name] then
      compares[name](values[1], rec, entry)
    elseif name ~= "header" and name ~= "timestamp" then
      error(("%s: nothing compares '%s'"):format(place, name), 0)
    end
  end
  return 1
end

-- The text's events are in time order, or in the file's order if that puts a finished_round last.
local function compare_events(events, list)
  local last = 0
  for _, event in ipairs(events) do
    local time = tonumber(one(event, "timestamp"))
    last = time < last and math.huge or time
    if last == math.huge then break end
  end
  if last ~= math.huge then
    table.sort(list, function(a, b)
      if a.time ~= b.time then return a.time < b.time end
      return a.n < b.n
    end)
  end
  local at = 1
  for _, event in ipairs(events) do
    if not list[at] then error("the text has more events than the file") end
    at = at + compare_event(event, list, at)
  end
  assert.equal(#list + 1, at)
end

local function compare_attr(message, entry)
  local theirs, ours = one(message, "attr"), entry.attr
  place = "attr " .. entry.name
  local types = {hardware = "0", software = "1", tracepoint = "2", hw_cache = "3", raw = "4", breakpoint = "5"}
  theirs.size = nil -- the size of the struct that they read into
  for field, values in pairs(theirs) do
    local got, value = ours[field], values[1]
    if field == "type" then
      same(value, types[got] or text_of(got), field)
    elseif type(got) == "table" then
      local mask = 0
      local rows = {sample_type = "sample", read_format = "format", branch_sample_type = "branch"}
      for _, row in ipairs(core.defs()[rows[field]]) do
        for _, name in ipairs(got) do
          if name == row.name then mask = mask + 2 ^ row.value end
        end
      end
      same(value, decimal(mask), field)
    elseif field == "sample_period" and ours.freq then
      same(value, text_of(ours.sample_freq), field)
    else
      same(value, value == "false" and tostring(got or false) or text_of(got or 0), field)
    end
  end
  same(table.concat(message.ids or {}, " "), (function()
    local list = {}
    for i, id in ipairs(entry.ids) do list[i] = text_of(id) end
    return table.concat(list, " ")
  end)(), "ids")
end

local function compare_strings(list, field, got, what)
  same(#(list or {}), #(got or {}), "number of " .. what)
  for i, message in ipairs(list or {}) do
    same(field and one(message, field) or message, text_of(got[i]), what)
  end
end

local string_features = {hostname = "hostname", kernel_version = "osrelease", perf_version = "version", architecture = "arch",
  cpu_description = "cpudesc", cpu_id = "cpuid"}

local function hex(bytes)
  return (bytes:gsub(".", function(c) return ("%02x"):format(c:byte()) end))
end

-- seen counts repeated messages of the outermost level.
local function compare_top(name, message, file, seen)
  local features, n = file.features, (seen[name] or 0) + 1
  seen[name] = n
  place = name .. " " .. n
  if name == "file_attrs" then
    compare_attr(message, assert(file.attrs[n], "an attr is missing"))
  elseif name == "string_metadata" then
    for theirs, ours in pairs(string_features) do
      local s = one(message, theirs)
      if s and one(s, "value") ~= "" then same(one(s, "value"), features[ours], ours) end
    end
    compare_strings(message.perf_command_line_token, "value", features.cmdline, "words of the command")
  elseif name == "uint32_metadata" then
    same("7", one(message, "type"), "type")
    same(message.data[1], text_of(features.nrcpus.available), "CPUs available")
    same(message.data[2], text_of(features.nrcpus.online), "CPUs online")
  elseif name == "uint64_metadata" then
    same(one(message, "data"), text_of(features.total_mem), "total_mem")
  elseif name == "event_types" then
    local entry = file.attrs[n]
    same(one(message, "name"), entry.name, "name")
  elseif name == "build_ids" then
    local b = assert(features.build_id[n], "a build id is missing")
    compare(message, b, {misc = "misc", pid = "pid", filename = "filename"})
    same(hex(one(message, "build_id_hash")), b.build_id, "build_id")
  elseif name == "cpu_topology" then
    local t = features.cpu_topology
    compare_strings(message.core_siblings, nil, t.cores, "cores")
    compare_strings(message.thread_siblings, nil, t.threads, "threads")
    for i, cpu in ipairs(message.available_cpus or {}) do
      compare(cpu, t.cpus[i], {core_id = "core_id", socket_id = "socket_id"})
    end
    same(#(message.available_cpus or {}), #t.cpus, "CPUs")
  elseif name == "numa_topology" then
    compare(message, features.numa_topology[n], {id = "node", total_memory = "mem_total", free_memory = "mem_free",
      cpu_list = "cpus"})
  elseif name == "pmu_mappings" then
    compare(message, features.pmu_mappings[n], {type = "type", name = "name"})
  elseif name == "group_desc" then
    compare(message, features.group_desc[n], {name = "name", leader_idx = "leader", num_members = "members"})
  elseif name == "hybrid_topology" then
    compare(message, features.hybrid_topology[n], {pmu_name = "pmu", cpus = "cpus"})
  elseif name == "metadata_mask" then
    if file.header.pipe then return end
    local mask = tonumber(message)
    for _, f in ipairs(core.data_features()) do
      -- An ARM of that time has a section for its CPU's name, with nothing in it.
      local got = features[f.name] ~= nil or f.name == "cpudesc" and features.arch == "armv7l"
      same(tostring(math.floor(mask / 2 ^ f.bit) % 2 == 1), tostring(got), "feature " .. f.name)
    end
  elseif name ~= "stats" and name ~= "timestamp_sec" then
    error("nothing compares '" .. name .. "'", 0)
  end
end

local function compare_file(name)
  local pipe = assert(io.popen("gzip -dc '" .. util.corpus_path(name .. ".pb_text.gz") .. "'", "r"))
  local text = pipe:read("*a")
  pipe:close()
  local top, seen, events = {}, {}, {}
  textproto.each(text:gmatch("[^\n]+"), function(field, message)
    if field == "events" then
      events[#events + 1] = message
    else
      top[#top + 1] = {field, message}
    end
  end)
  local file = assert(data.open(util.corpus_path(name)))
  compare_events(events, read_records(file))
  for _, t in ipairs(top) do compare_top(t[1], t[2], file, seen) end
  assert.is_nil(next(file.damaged))
  assert.is_nil(file:error())
  assert.equal(seen.file_attrs, #file.attrs)
  file:close()
  return #events
end

describe("the corpus", function()
  local counts = {
    ["perf.data.armv7.perf_3.14-3.8"] = 2573,
    ["perf.data.branch-4.14"] = 50,
    ["perf.data.branch_stack_spec"] = 96,
    ["perf.data.callgraph-3.8"] = 3795,
    ["perf.data.ctx_switch_namespaces-4.14"] = 42,
    ["perf.data.hybrid_topology"] = 121,
    ["perf.data.intel_pt-4.14"] = 257,
    ["perf.data.lost_samples-4.4"] = 243,
    ["perf.data.piped.ctx_switch_namespaces-4.14"] = 80,
    ["perf.data.piped.lost_samples-4.4"] = 243,
    ["perf.data.piped.target.throttled-3.4"] = 805,
    ["perf.data.raw-3.4"] = 2314,
  }
  for name, count in pairs(counts) do
    it(name .. " reads as the other decoder reads it", function()
      requires{corpus = {name, name .. ".pb_text.gz"}, cmd = "gzip"}
      assert.equal(count, compare_file(name))
    end)
  end
end)
