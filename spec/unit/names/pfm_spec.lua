-- perf.pfm: names of events as libpfm4 encodes them, here and for a CPU whose codes are in its vendor's manual.
local util = require "spec.support.util"
local core = require "perf.core"

-- The result of a chunk, as lines, in an interpreter whose libpfm4 takes this PMU for the machine's.
local function forced(pmu, chunk)
  local out, status = util.shell(("LIBPFM_FORCE_PMU=%s %s -e '%s'"):format(pmu, util.lua(), chunk))
  assert(status == 0, out)
  return out
end

describe("perf.pfm.encode", function()
  local pfm
  before_each(function()
    requires{ext = "pfm"}
    if os.getenv("LIBPFM_FORCE_PMU") then return pending("needs: LIBPFM_FORCE_PMU not set") end
    pfm = require "perf.names.pfm"
  end)

  it("knows the kernel's own events, on any machine", function()
    for _, name in ipairs{"page-faults", "PERF_COUNT_SW_PAGE_FAULTS", "perf::PERF_COUNT_SW_PAGE_FAULTS", "perf::page-faults"} do
      local attr, full = pfm.encode(name)
      assert.same({type = 1, config = 2}, attr)
      assert.matches("^perf::PERF_COUNT_SW_PAGE_FAULTS:", full)
    end
    assert.same({type = 0, config = 0}, pfm.encode("PERF_COUNT_HW_CPU_CYCLES"))
    assert.same({type = 0, config = 1}, pfm.encode("instructions"))
  end)

  -- The CPU's PMU decides whether :u and :k exclude the hypervisor too: libpfm4 adds exclude_hv for AMD and not for Intel.
  local function encode(name)
    local attr = assert(pfm.encode(name))
    attr.exclude_hv = nil
    return attr
  end

  it("turns modifiers into attr fields", function()
    assert.same({type = 0, config = 0, exclude_kernel = true}, encode("cycles:u"))
    assert.same({type = 0, config = 0, exclude_user = true}, encode("cycles:k"))
    assert.same({type = 0, config = 0, exclude_kernel = true, precise_ip = 2, sample_period = 1000},
      encode("cycles:u:precise=2:period=1000"))
    assert.same({type = 0, config = 0, sample_freq = 99}, pfm.encode("cycles:freq=99"))
    assert.same({type = 0, config = 0, pinned = true}, pfm.encode("cycles:pinned"))
    assert.same({type = 0, config = 0, exclude_host = true}, pfm.encode("cycles:mg"))
    assert.same({type = 0, config = 0, exclude_guest = true}, pfm.encode("cycles:mh"))
    local attr, _, cpu = pfm.encode("cycles:cpu=1")
    assert.same({type = 0, config = 0}, attr)
    assert.equal(1, cpu)
  end)

  it("gives fields that the core accepts", function()
    for _, name in ipairs{"page-faults:u", "cycles:precise=1:period=7", "perf_raw::r1a8:k", "cycles:freq=99:mg"} do
      local attr = assert(pfm.encode(name))
      local bytes = core.pack(attr)
      assert.is_true(#bytes > 64)
    end
  end)

  it("accepts raw codes", function()
    local attr = pfm.encode("perf_raw::r1a8")
    assert.same({type = 4, config = 424}, attr)
  end)

  it("names an unknown event, and similar ones", function()
    local attr, message, code = pfm.encode("PERF_COUNT_SW_PAGEFAULTS")
    assert.is_nil(attr)
    assert.equal("ENOENT", code)
    assert.matches("^PERF_COUNT_SW_PAGEFAULTS: libpfm4: event not found %(it has the tables of .*perf", message)
    assert.matches("did you mean 'PERF_COUNT_SW_PAGE_FAULTS'", message)
    attr, message, code = pfm.encode("cycles:zz")
    assert.is_nil(attr)
    assert.equal("EINVAL", code)
    assert.matches("invalid event attribute %(modifiers of cycles: u, k,", message)
    assert.equal("EINVAL", select(3, pfm.encode("cycles:precise=9")))
    assert.equal("ENOENT", select(3, pfm.encode("")))
    assert.equal("ENOENT", select(3, pfm.encode(("x"):rep(100000))))
  end)

  it("raises an error for a value that is not a name", function()
    assert.error_matches(function() pfm.encode() end, "#1 to 'encode' %(string expected, got nil%)")
    assert.error_matches(function() pfm.encode({}) end, "string expected, got table")
    assert.error_matches(function() pfm.encode("a\0b") end, "zero byte")
  end)
end)

describe("perf.pfm.list", function()
  local pfm
  before_each(function()
    requires{ext = "pfm"}
    if os.getenv("LIBPFM_FORCE_PMU") then return pending("needs: LIBPFM_FORCE_PMU not set") end
    pfm = require "perf.names.pfm"
  end)

  it("has names that encode, each once", function()
    requires{nostress = true} -- hundreds of rows
    local seen, n = {}, 0
    for _, row in ipairs(pfm.list()) do
      assert.equal("pfm", row.kind)
      assert.is_nil(seen[row.name])
      seen[row.name] = true
      assert.is_string(row.description)
      if row.pmu == "perf" then
        local attr, message = pfm.encode(row.name)
        assert(attr, message)
        n = n + 1
      end
    end
    assert.is_true(n > 50)
    assert.is_true(seen["perf::PERF_COUNT_SW_PAGE_FAULTS"])
  end)

  it("selects by a pattern", function()
    assert.equal("perf::PERF_COUNT_SW_PAGE_FAULTS_MIN", pfm.list("sw_page_faults_min")[1].name)
    assert.equal(1, #pfm.list("perf::perf_count_sw_page_faults_m?n"))
    assert.same({}, pfm.list("no such event"))
    assert.error_matches(function() pfm.list(5) end, "string expected, got number")
  end)

  it("lists the events of the PMUs", function()
    local found
    for _, pmu in ipairs(pfm.pmus()) do
      if pmu.name == "perf" then found = pmu end
    end
    assert.is_true(found.events > 50)
  end)
end)

describe("perf.pfm of another CPU", function()
  -- Intel's Software Developer's Manual, Skylake: event select in bits 0 to 7, unit mask in 8 to 15, edge 18, invert 23,
  -- counter mask from 24 on.
  local skylake = {
    ["INST_RETIRED:ANY_P"] = 0xc0,
    ["LONGEST_LAT_CACHE:MISS"] = 0x412e,
    ["LONGEST_LAT_CACHE:REFERENCE"] = 0x4f2e,
    ["BR_INST_RETIRED:CONDITIONAL"] = 0x01c4,
    ["MEM_LOAD_RETIRED:L3_MISS"] = 0x20d1,
    ["skl::MEM_LOAD_RETIRED:L1_HIT"] = 0x01d1,
    ["INST_RETIRED:ANY_P:c=1:i"] = 0x18000c0,
    ["INST_RETIRED:ANY_P:c=2:e"] = 0x20400c0,
  }

  it("encodes Skylake's events to the codes of the manual", function()
    requires{ext = "pfm"}
    local names = {}
    for name in pairs(skylake) do names[#names + 1] = name end
    table.sort(names)
    local out = forced("skl", ([[local p = require "perf.names.pfm"
      if #p.pmus() == 0 then print "none" return end
      for n in ("%s"):gmatch "[^,]+" do
        local a, m = p.encode(n)
        print(n, a and ("%%d %%x"):format(a.type, a.config) or m)
      end]]):format(table.concat(names, ",")))
    if out:match("^none") then return pending("needs: a libpfm4 with Intel's tables") end
    for _, name in ipairs(names) do
      assert.equal(("4 %x"):format(skylake[name]), out:match(name:gsub("%p", "%%%0") .. "\t([^\n]*)"))
    end
  end)

  it("lists its events, and explains the needs of one", function()
    requires{ext = "pfm"}
    local out = forced("skl", [[local p = require "perf.names.pfm"
      if #p.pmus() == 0 then print "none" return end
      print(p.list("skl::INST_RETIRED:ANY_P")[1].pmu)
      print(select(2, p.encode("INST_RETIRED:NOPE")))
      print(select(2, p.encode("INST_RETIRD:ANY_P")))]])
    if out:match("^none") then return pending("needs: a libpfm4 with Intel's tables") end
    assert.matches("^skl\n", out)
    assert.matches("invalid event attribute %(unit masks: ANY_P,", out)
    assert.matches("did you mean 'INST_RETIRED'", out)
  end)

  it("is refused if libpfm4 does not know it", function()
    requires{ext = "pfm"}
    local out = forced("nonsense", [[print(select(2, require "perf.names.pfm".encode("page-faults")))]])
    assert.matches("libpfm4: event not found %(it has the tables of no PMU of this machine%)", out)
  end)
end)
