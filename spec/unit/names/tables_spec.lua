--- Events given as tables of attr fields.
local core = require "perf.core"
local golden = require "spec.support.golden"
local names = require "perf.names"

local USER, plus = golden.USER, golden.plus
local m

setup(function() m = golden.machines() end)
teardown(function() golden.remove(m) end)
-- Hundreds of names, without C code: minutes under pressure by the collector, which would find nothing here.
before_each(function() requires { nostress = true } end)

describe("a table", function()
  -- Offset and width of each field of struct perf_event_attr in bytes, and the order of the bits of the word at 40.
  local numbers, bits = {}, {}
  for name, offset, width in ([[
    type 0 4  config 8 8  sample_period 16 8  sample_freq 16 8  sample_type 24 8  read_format 32 8
    wakeup_events 48 4  wakeup_watermark 48 4  bp_type 52 4  bp_addr 56 8  config1 56 8
    bp_len 64 8  kprobe_addr 64 8  probe_offset 64 8  config2 64 8  branch_sample_type 72 8
    sample_regs_user 80 8  sample_stack_user 88 4  clockid 92 4  sample_regs_intr 96 8  aux_watermark 104 4
    sample_max_stack 108 2  aux_sample_size 112 4  sig_data 120 8  config3 128 8  config4 136 8
  ]]):gmatch("(%S+) (%d+) (%d+)") do
    numbers[name] = {tonumber(offset), tonumber(width)}
  end
  local bit = 0
  for name in ([[
    disabled inherit pinned exclusive exclude_user exclude_kernel exclude_hv exclude_idle
    mmap comm freq inherit_stat enable_on_exec task watermark precise_ip - mmap_data
    sample_id_all exclude_host exclude_guest exclude_callchain_kernel exclude_callchain_user mmap2 comm_exec use_clockid
    context_switch write_backward namespaces ksymbol bpf_event aux_output cgroup text_poke
    build_id inherit_thread remove_on_exec sigtrap defer_callchain defer_output
  ]]):gmatch("%S+") do
    bits[name], bit = {40, bit}, bit + 1
  end
  bits.aux_start_paused, bits.aux_pause, bits.aux_resume = {116, 0}, {116, 1}, {116, 2}
  local implied = {sample_freq = "freq", wakeup_watermark = "watermark", clockid = "use_clockid"}

  local function byte_of(value, i, big, width)
    return math.floor(value / 256 ^ (big and width - 1 - i or i)) % 256
  end

  it("has every attr field in its place", function()
    local big = core.pack{type = 1}:byte(1) == 0
    for _, row in ipairs(core.defs().attr) do
      local name = row.name
      if row.kind == "path" then
        local attr = m.bare:resolve{type = 6, [name] = "name"}.attrs[1]
        assert.equal("name", attr[name])
      elseif not (big and bits[name]) then
        local place, flag = numbers[name], bits[name]
        assert.is_truthy(place or flag, name .. ": a field that the layout here does not know")
        local value = flag and (name == "precise_ip" and 2 or true) or name == "type" and 9 or 0x102
        local spec = name == "type" and {type = 9} or {type = 1, [name] = value}
        local expected = {}
        for i = 1, 144 do expected[i] = 0 end
        local function put(at, width, v)
          for i = 0, width - 1 do expected[at + i + 1] = expected[at + i + 1] + byte_of(v, i, big, width) end
        end
        put(0, 4, spec.type)
        local function set(b, v)
          put(b[1], b[1] == 40 and 8 or 4, v * 2 ^ b[2])
        end
        if flag then
          set(flag, value == true and 1 or value)
        elseif name ~= "type" then
          put(place[1], place[2], value)
        end
        if implied[name] and not big then set(bits[implied[name]], 1) end
        local packed = core.pack(m.bare:resolve(spec).attrs[1])
        local got, wanted = {}, {}
        for i = 1, 144 do
          if i <= 4 or i > 8 then -- the binding sets size
            got[#got + 1], wanted[#wanted + 1] = packed:byte(i), expected[i]
          end
        end
        assert.equal(table.concat(wanted, " "), table.concat(got, " "), name)
      end
    end
  end)

  it("accepts flags and constants by name", function()
    local attr = m.bare:resolve{type = "software", config = 2, sample_type = {"ip", "tid"}, read_format = {"id"},
      clockid = "monotonic", branch_sample_type = {"any", "user"}, bp_type = {"r", "w"}}.attrs[1]
    golden.same({type = 1, config = 2, sample_type = 3, read_format = 4, clockid = 1,
      branch_sample_type = 9, bp_type = 3}, attr)
    assert.equal(1, attr.type)
  end)

  it("fills in type and config from an event, which its own fields override", function()
    golden.same({type = 0, config = 0, exclude_kernel = true, exclude_hv = true, sample_period = 1000},
      m.bare:resolve{event = "cycles:u", sample_period = 1000}.attrs[1])
    golden.same({type = 0, config = 0, exclude_hv = true}, m.bare:resolve{event = "cycles:u", exclude_kernel = false}.attrs[1])
    golden.same({type = 0, config = 7, exclude_kernel = true, exclude_hv = true},
      m.bare:resolve{event = "cycles:u", config = 7}.attrs[1])
    golden.same({type = 4, config = 0x3c, sample_freq = 99},
      m.server:resolve{event = "cpu/event=0x3c,period=5/", sample_freq = 99}.attrs[1])
    golden.same({type = 4, config = 0x3c, sample_period = 5},
      m.server:resolve{event = "cpu/event=0x3c,freq=9/", sample_period = 5}.attrs[1])
  end)

  it("loses the event's name if its fields make it another event", function()
    local found = m.bare:resolve{event = "task-clock", config = 2}
    assert.equal("page-faults", found.label)
    assert.is_nil(found.unit)
    assert.equal("mine", m.bare:resolve{event = "task-clock", config = 2, label = "mine"}.label)
    assert.equal("task-clock", m.bare:resolve{event = "task-clock", type = "software", config = 1}.label)
    local attr = names.attr(m.bare:resolve "page-faults")
    attr.config = 0
    assert.equal("cpu-clock", m.bare:resolve(attr).label)
  end)

  it("has one form: bits are booleans, whole numbers integers", function()
    local attr = m.bare:resolve{type = 1, config = 2.0, exclude_kernel = 0, exclude_user = 1, precise_ip = 1}.attrs[1]
    golden.same({type = 1, config = 2, exclude_kernel = false, exclude_user = true, precise_ip = 1}, attr)
    assert.equal("2", tostring(attr.config))
    assert.equal("page-faults", m.bare:resolve{type = 1, config = 2, exclude_kernel = 0, exclude_hv = 0}.label)
  end)

  it("may have a label", function()
    local found = m.bare:resolve{event = "task-clock", label = "work", unit = "ticks", scale = 2}
    assert.equal("work", found.label)
    assert.equal("ticks", found.unit)
    assert.equal(2, found.scale)
    assert.equal("task-clock", m.bare:resolve{event = "task-clock"}.label)
    assert.equal("ns", m.bare:resolve{event = "task-clock"}.unit)
  end)

  it("is labelled after its fields if it has no label", function()
    for label, spec in pairs{
      ["cpu-cycles"] = {type = 0, config = 0}, ["page-faults"] = {type = "software", config = 2}, ["cpu-clock"] = {type = 1},
      ["LLC-load-misses"] = {type = 3, config = 0x10002}, ["r1a8"] = {type = 4, config = 0x1a8},
      ["9:0x5"] = {type = 9, config = 5}, ["2:0x13c"] = {type = 2, config = 316},
      ["instructions:u"] = {type = 0, config = 1, exclude_kernel = true, exclude_hv = true},
      ["mem:0x1000/4:rw"] = {type = 5, bp_addr = 4096, bp_len = 4, bp_type = 3}, ["0:0xff"] = {type = 0, config = 255},
      ["task-clock:uh"] = {type = 1, config = 1, exclude_kernel = true},
    } do
      assert.equal(label, m.bare:resolve(spec).label)
    end
  end)

  it("has a group's modifiers added to its event's", function()
    golden.same({type = 0, config = 0, exclude_hv = true}, m.bare:resolve{event = "cycles:u", modifiers = "k"}.attrs[1])
    golden.same({type = 0, config = 0, exclude_user = true, exclude_hv = true},
      m.bare:resolve{event = "cycles", modifiers = "k"}.attrs[1])
    golden.same({type = 0, config = 0, precise_ip = 3}, m.bare:resolve{event = "cycles:p", modifiers = "pp"}.attrs[1])
    assert.is_true(m.bare:resolve{event = "cycles", modifiers = "W"}.weak)
    golden.fails(m.bare, {event = "cycles:pp", modifiers = "pp"}, "field 'modifiers': precise_ip is at most 3")
    golden.fails(m.bare, {event = "cycles", modifiers = "q"}, "field 'modifiers': unknown modifier 'q'")
  end)

  it("is refused by the field's name", function()
    golden.fails(m.bare, {event = "cycles", sample_perod = 1},
      "unknown attr field 'sample_perod'; did you mean 'sample_period'")
    golden.fails(m.bare, {type = 1, config = "x"}, "field 'config': integer expected, got string")
    golden.fails(m.bare, {type = 1, config = 1.5}, "field 'config': integer expected")
    golden.fails(m.bare, {type = "sofware"}, "field 'type': unknown name 'sofware'; did you mean 'software'?")
    golden.fails(m.bare, {type = 1, sample_type = {"ipp"}}, "field 'sample_type': unknown name 'ipp'; did you mean 'ip'?")
    golden.fails(m.bare, {type = 1, read_format = {"zzzzzzzz"}}, "field 'read_format': unknown name 'zzzzzzzz'")
    golden.fails(m.bare, {type = 1, precise_ip = 4}, "field 'precise_ip': out of range")
    golden.fails(m.bare, {type = 1, disabled = "yes"}, "field 'disabled': boolean expected, got string")
    golden.fails(m.bare, {event = 5}, "field 'event': string or table expected, got number")
    golden.fails(m.bare, {event = "cycles", label = 5}, "field 'label': string expected, got number")
    golden.fails(m.bare, {event = "cycles", scale = "2"}, "field 'scale': number expected, got string")
    golden.fails(m.bare, {sample_period = 1}, "the table has neither event nor type")
    golden.fails(m.bare, {}, "the table has neither event nor type")
    golden.fails(m.bare, {"cycles", "instructions"}, "an array of events, where one event is expected")
    golden.fails(m.bare, {type = 1, sample_period = 1, sample_freq = 1},
      "fields 'sample_freq' and 'sample_period' exclude each other")
    golden.fails(m.bare, {type = 1, wakeup_events = 1, wakeup_watermark = 1},
      "fields 'wakeup_events' and 'wakeup_watermark' exclude each other")
    golden.fails(m.bare, {[true] = 1}, "unknown attr field 'true'")
    golden.fails(m.bare, {event = "cylces"}, "cylces: unknown event")
    golden.refused(m.bare, {event = "cpu/event=1/"}, "ENODEV", "no PMU 'cpu' here")
  end)

  it("resolves to the same when it is resolved again", function()
    for _, case in ipairs{{m.bare, "cycles:u"}, {m.server, "uncore_imc/cas_count_read/"}, {m.hybrid, "cycles:P"},
      {m.server, "power/energy-pkg/"}, {m.bare, {event = "task-clock", sample_freq = 99, sample_type = {"ip"}}},
      {m.bare, "mem:0x1000/8:w"}} do
      local once = case[1]:resolve(case[2])
      local twice = case[1]:resolve(once)
      assert.same(once, twice)
      assert.is_true(once.attrs[1] ~= twice.attrs[1], "the attrs are the caller's own")
      local again = case[1]:resolve{event = once, label = "x"}
      assert.equal(#once.attrs, #again.attrs)
      assert.equal("x", again.label)
    end
  end)

  it("is not changed", function()
    local spec = {event = "cycles:u", sample_period = 5}
    m.bare:resolve(spec)
    assert.same({event = "cycles:u", sample_period = 5}, spec)
  end)
end)

describe("one attr that stands for several", function()
  it("still resolves to all, with the changes made to it", function()
    local attr = names.attr(m.hybrid:resolve("cycles:u"))
    assert.equal("cycles:u", attr.label)
    assert.is_nil(rawget(attr, "label"))
    golden.same(plus(USER, {type = 0, config = "0x400000000"}), attr)
    attr.sample_period, attr.exclude_hv, attr.label = 1000, nil, "busy"
    local found = m.hybrid:resolve(attr)
    assert.equal(2, #found.attrs)
    assert.equal("busy", found.label)
    golden.same({type = 0, config = "0x400000000", exclude_kernel = true, sample_period = 1000}, found.attrs[1])
    golden.same({type = 0, config = "0xa00000000", exclude_kernel = true, sample_period = 1000}, found.attrs[2])
    found = m.hybrid:resolve{event = attr, sample_freq = 9}
    golden.same({type = 0, config = "0xa00000000", exclude_kernel = true, sample_freq = 9}, found.attrs[2])
  end)

  it("keeps unit and scale, and prints its fields", function()
    local attr = names.attr(m.server:resolve("power/energy-pkg/"))
    assert.equal("Joules", attr.unit)
    assert.equal(2.3283064365386962890625e-10, m.server:resolve(attr).scale)
    assert.equal("power/energy-pkg/: attr{type = 42, config = 0x2}", tostring(attr))
    assert.equal("cycles:u: attr{type = 0, config = 0x0, exclude_kernel = true, exclude_hv = true}",
      tostring(names.attr(m.bare:resolve("cycles:u"))))
  end)
end)
