-- Samples that this machine's kernel writes: each field that software events have. The bytes of the others are in
-- spec/unit/record/sample_spec.lua.
local core = require "perf.core"
local kit = require "testkit"
local perf = require "perf"
local rings = require "spec.support.rings"
local util = require "spec.support.util"

local PAGE = core.page_size()
local records_of = rings.records_of

local function open(attr, opts) return rings.open(attr, opts, { pages = 64 }) end

describe("the kernel's sample has", function()
  setup(function() rings.compiler(false) end)
  teardown(function() rings.compiler(true) end)
  after_each(rings.close_all)

  -- 64 samples of page faults with these fields.
  local function samples(sample_type, more)
    local attr = { event = "page-faults:u", sample_period = 1, sample_type = sample_type }
    for k, v in pairs(more or {}) do attr[k] = v end
    local ev = open(attr)
    local list = records_of(ev, kit.touch_pages, 64)
    assert.equal(64, #list)
    for _, rec in ipairs(list) do
      assert.equal("sample", rec.type)
      assert.is_string(tostring(rec))
    end
    return list, ev
  end

  it("ip, tid, time, addr, cpu, period, id, stream_id, identifier", function()
    kit.pin(kit.cpus()[1])
    local list, ev = samples({ "ip", "tid", "time", "addr", "cpu", "period", "id", "stream_id", "identifier" },
      { clockid = "monotonic" })
    kit.unpin()
    local now = kit.clock_ns()
    for i, rec in ipairs(list) do
      assert.equal(list[1].ip, rec.ip)
      assert.equal(kit.getpid(), rec.pid)
      assert.equal(kit.gettid(), rec.tid)
      assert.is_truthy(rec.time < now and now - rec.time < 60e9)
      assert.equal(list[1].addr + (i - 1) * PAGE, rec.addr)
      assert.equal(kit.cpus()[1], rec.cpu)
      assert.equal(1, rec.period)
      assert.equal(ev:id(), rec.id)
      assert.equal(ev:id(), rec.stream_id)
      assert.is_false(rec.exact_ip)
    end
  end)

  it("read values", function()
    local list, ev = samples({ "read" }, { read_format = { "total_time_enabled", "total_time_running", "id", "lost" } })
    for i, rec in ipairs(list) do
      local c = rec.counts
      assert.equal(i, c[1].value)
      assert.equal(ev:id(), c[1].id)
      assert.equal(0, c[1].lost)
      assert.is_truthy(c.enabled_ns >= c.running_ns and c.running_ns > 0)
    end
  end)

  it("read values of a group", function()
    requires { perf_open = "user" }
    local g = assert(perf.group { { event = "page-faults:u", sample_period = 1, sample_type = { "read" } }, "minor-faults:u",
      "dummy" })
    rings.keep(g)
    g[1]:map()
    g:enable()
    kit.touch_pages(64)
    g:disable()
    local n = 0
    for rec in g[1]:records() do
      n = n + 1
      local c = rec.counts
      assert.equal(3, #c)
      assert.equal(n, c[1].value)
      assert.equal(g[1]:id(), c[1].id)
      assert.equal(g[2]:id(), c[2].id)
      assert.equal(0, c[3].value)
      for i, label in ipairs { "page-faults:u", "minor-faults:u", "dummy" } do
        assert.equal(label, c[i].label)
        assert.equal(c[i].value, c[label])
      end
    end
    assert.equal(64, n)
  end)

  it("read values of a group in which only a member is sampled", function()
    requires { perf_open = "user" }
    local g = assert(perf.group { "dummy", "minor-faults:u",
      { event = "page-faults:u", sample_period = 1, sample_type = { "read" } }, "task-clock" })
    rings.keep(g)
    g[3]:map()
    g:enable()
    kit.touch_pages(1)
    g:disable()
    local c = assert(g[3]:read_record(0)).counts
    assert.same({ "dummy", "minor-faults:u", "page-faults:u", "task-clock" },
      { c[1].label, c[2].label, c[3].label, c[4].label })
  end)

  it("read values of a group that events join and leave", function()
    requires { perf_open = "user" }
    local lead = assert(perf.open { event = "page-faults:u", sample_period = 1, sample_type = { "read" },
      read_format = { "group", "id" } })
    rings.keep(lead)
    local function follow(event)
      local ev = assert(perf.open(event, { group = lead }))
      rings.keep(ev)
      return ev
    end
    local left = follow "minor-faults:u"
    follow "dummy"
    lead:map()
    left:close()
    follow "task-clock"
    lead:enable()
    kit.touch_pages(1)
    lead:disable()
    local c = assert(lead:read_record(0)).counts
    assert.same({ "page-faults:u", "dummy", "task-clock" }, { c[1].label, c[2].label, c[3].label })
  end)

  it("a callchain", function()
    for _, rec in ipairs((samples({ "callchain", "ip" }))) do
      assert.equal(rec.ip, rec.callchain[1])
      assert.same({ { index = 1, context = "user" } }, rec.callchain_contexts)
    end
    for _, rec in ipairs((samples({ "callchain", "ip" }, { sample_max_stack = 1 }))) do
      assert.same({ rec.ip }, rec.callchain)
    end
  end)

  it("a callchain of both sides", function()
    requires { paranoid = 1 }
    local ev = open { event = "context-switches", sample_period = 1, sample_type = { "callchain" } }
    local list = records_of(ev, kit.sleeps, 10)
    assert.is_truthy(#list >= 10)
    for _, rec in ipairs(list) do
      local c = rec.callchain_contexts
      assert.equal("kernel", c[1].context)
      assert.equal("user", c[#c].context)
      for i = 1, c[#c].index - 1 do assert.is_truthy(core.hex(rec.callchain[i]):find "^0xf") end
    end
  end)

  it("a tracepoint's raw bytes", function()
    requires { tracepoint = "syscalls:sys_enter_getppid" }
    local ev = open { event = "syscalls:sys_enter_getppid", sample_period = 1, sample_type = { "raw" } }
    local list = records_of(ev, kit.syscalls, 100)
    assert.equal(100, #list)
    local id = tonumber((util.read_file(util.tracefs_dir() .. "/events/syscalls/sys_enter_getppid/id")))
    for _, rec in ipairs(list) do
      assert.equal(id, rec.raw:byte(1) + 256 * rec.raw:byte(2))
    end
  end)

  it("a tracepoint's fields by name", function()
    requires { tracepoint = "syscalls:sys_enter_getppid", ext = "tracefields" }
    local ev = open { event = "syscalls:sys_enter_getppid", sample_period = 1, sample_type = { "raw" } }
    local list = records_of(ev, kit.syscalls, 3)
    for _, rec in ipairs(list) do
      assert.equal(kit.gettid(), rec.raw_fields.common_pid)
      assert.is_number(rec.raw_fields.__syscall_nr)
      assert.equal(kit.gettid(), rec:totable().raw_fields.common_pid)
    end
    assert.equal(3, #list)
    -- No other event's samples have any.
    assert.is_nil(samples { "raw" }[1].raw_fields)
  end)

  it("registers of user space and of the interrupt", function()
    requires { paranoid = 2 }
    local name, all = select(2, core.uname()), { x86_64 = { 0xff0fff, "ip", "sp", 20 }, aarch64 = { 0x1ffffffff, "pc", "sp",
      33 } }
    local arch = all[name]
    if not arch then return requires { file = "a spec of the registers of " .. name } end
    for _, kind in ipairs { "user", "intr" } do
      for _, rec in ipairs((samples({ "ip", "regs_" .. kind }, { ["sample_regs_" .. kind] = arch[1] }))) do
        local regs, n = rec[kind .. "_regs"], 0
        assert.equal(2, regs.abi)
        assert.equal(rec.ip, regs[arch[2]])
        assert.is_truthy(regs[arch[3]] > 0)
        for _ in pairs(regs) do n = n + 1 end
        assert.equal(arch[4] + 1, n)
      end
    end
  end)

  it("the user's stack", function()
    for _, rec in ipairs((samples({ "stack_user", "regs_user" }, { sample_stack_user = 512, sample_regs_user = 0x80 }))) do
      assert.equal(512, #rec.user_stack)
    end
  end)

  it("physical addresses and page sizes", function()
    requires { paranoid = 1 }
    for _, rec in ipairs((samples({ "addr", "phys_addr", "data_page_size", "code_page_size" }))) do
      -- At the time of the fault the page does not exist yet.
      assert.equal(0, rec.phys_addr)
      assert.is_truthy(rec.data_page_size == 0 or rec.data_page_size == PAGE)
      assert.is_truthy(rec.code_page_size % PAGE == 0)
    end
  end)

  it("the physical address that a breakpoint watches", function()
    requires { breakpoint = true, root = true }
    local cell = kit.cell()
    local ev = open { type = "breakpoint", bp_type = { "w" }, bp_addr = cell:addr(), bp_len = 8, exclude_kernel = true,
      sample_period = 1, sample_type = { "addr", "phys_addr", "data_page_size", "ip", "code_page_size" } }
    local list = records_of(ev, function() cell:poke(1, 10) end)
    assert.equal(10, #list)
    for _, rec in ipairs(list) do
      assert.equal(cell:addr(), rec.addr)
      assert.is_truthy(rec.phys_addr > 0)
      assert.equal(cell:addr() % PAGE, rec.phys_addr % PAGE)
      assert.equal(PAGE, rec.data_page_size)
      assert.equal(PAGE, rec.code_page_size)
    end
    cell:close()
  end)

  it("its cgroup", function()
    requires { cgroup = true }
    for _, rec in ipairs((samples { "cgroup" })) do assert.is_truthy(rec.cgroup > 0) end
  end)

  it("weight, data source and transaction, which are empty for software events", function()
    for _, rec in ipairs((samples { "weight", "data_src", "transaction" })) do
      assert.equal(0, rec.weight)
      assert.equal("na", rec.data_src.op[1])
      assert.equal("na", rec.data_src.lvl[1])
      assert.same({ abort_code = 0, value = 0 }, rec.transaction)
    end
    for _, rec in ipairs((samples { "weight_struct" })) do
      assert.equal(0, rec.var1_dw)
      assert.equal(0, rec.var2_w)
      assert.equal(0, rec.var3_w)
    end
  end)

  it("everything at once", function()
    local names, left_out = {}, { branch_stack = true, aux = true, weight_struct = true, phys_addr = kit.geteuid() ~= 0 }
    for _, row in ipairs(core.defs().sample) do
      if not left_out[row.name] then names[#names + 1] = row.name end
    end
    local list, ev = samples(names, { sample_regs_user = 3, sample_regs_intr = 5, sample_stack_user = 256,
      read_format = { "group", "id", "lost", "total_time_enabled", "total_time_running" } })
    local first, third = "ax", "cx"
    if select(2, core.uname()) == "aarch64" then first, third = "x0", "x2" end
    for i, rec in ipairs(list) do
      assert.equal(ev:id(), rec.id)
      assert.equal(rec.ip, rec.callchain[1])
      assert.equal(i, rec.counts[1].value)
      assert.equal(256, #rec.user_stack)
      assert.is_number(rec.intr_regs[third])
      assert.equal(rec.user_regs[first], rec.intr_regs[first])
      assert.equal(0, rec.weight)
    end
  end)

  it("nothing that was not asked for", function()
    local rec = samples { "ip", "addr", "tid" }[1]
    assert.same({ type = "sample", type_id = 9, size = 32, misc = 2, cpu_mode = "user", exact_ip = false, event = "page-faults:u",
      ip = rec.ip, addr = rec.addr, pid = kit.getpid(), tid = kit.gettid() }, rec:totable())
  end)
end)
