-- The examples run to their end, and print what they should. Twice: it checks the examples; what they show has its own specs.
local as_nobody = require "spec.support.nobody"
local luaperf = require "spec.support.luaperf"
local util = require "spec.support.util"

local function run(name, arguments)
  local output, status = util.shell(("%s examples/%s.lua %s"):format(util.lua(), name, arguments or ""))
  assert.equal(0, status, output)
  return output
end

describe("examples", function()
  before_each(function() requires { perf_open = true, nostress = true } end)

  it("measure", function()
    assert.matches("CPUs used: ", run "measure")
  end)

  it("group", function()
    assert.matches("After round 3 of 3:", run "group")
  end)

  it("bench", function()
    local output = run("bench", "0.001")
    assert.matches("to concat", output)
    assert.matches("bytes of JSON\n?$", output)
  end)

  it("explore", function()
    assert.matches("did you mean 'page%-faults'%?", run "explore")
  end)

  it("luv", function()
    requires { module = "luv" }
    local output = run "luv"
    assert.matches("%d ms: +%d+ faults more\n", output)
    local counted, read, lost = output:match "The child ended with status 0%. (%d+) faults counted, (%d+) read %((%d+) lost%)"
    assert.is_truthy(counted, output)
    assert.equal("0", lost)
    assert.equal(counted, read)
    assert.is_true(tonumber(read) >= 8 * 400000 / 65536, output) -- the memory that the child touches, for the largest pages
  end)

  it("cqueues", function()
    requires { module = "cqueues" }
    local output = run "cqueues"
    for i = 1, 4 do assert.matches("command " .. i .. "\n", output) end
    local _, started = output:gsub("  %d+ started %d+\n", "")
    local _, programs = output:gsub("  %d+ runs ls\n", "")
    assert.same({ 4, 4 }, { started, programs }, output)
    assert.matches("8 programs were run, 4 processes ended; %d+ ticks meanwhile%.", output) -- each starts a shell, then ls
  end)

  it("ring", function()
    local output = run "ring"
    local read, counted, lost = output:match "%.%.%. (%d+) records of (%d+) faults, between 0x%x+ and 0x%x+; (%d+) lost"
    assert.same({ counted, "0" }, { read, lost }, output)
    read, counted, lost = output:match "One page: the first (%d+) records of (%d+) faults, (%d+) lost"
    assert.is_true(tonumber(lost) > 0, output)
    assert.equal(tonumber(counted), read + lost)
    local latest, of, last = output:match "Written backwards: the latest (%d+) of (%d+); the very last:\n(%C+)"
    assert.equal(read, latest)
    assert.is_true(tonumber(of) > tonumber(latest), output)
    assert.matches("page%-faults:u: sample ip=0x%x+ addr=0x%x+ %(user%)$", last)
  end)

  it("profile", function()
    util.with_tmpname(function(dir)
      os.remove(dir)
      util.execute("mkdir " .. dir)
      local output = run("profile", dir)
      local _, written = output:gsub("wrote " .. dir .. "/profile%.", "")
      os.execute("rm -r " .. dir .. "; touch " .. dir)
      assert.equal(5, written, output)
      assert.matches("^task%-clock: [%d.]+ %a?s in %d+ samples? at 999 Hz\n", output)
      assert.matches("examples/profile.lua:%d+ %S", output)
      assert.matches("\npage%-faults:?u?: [%d,]+ in [%d,]+ samples", output)
      assert.matches("\n/no/such/directory/profile.folded: No such file or directory%s", output)
    end)
  end)

  it("spans", function()
    local output = run "spans"
    assert.matches("price +[%d.]+ us  page%-faults:u %d+, task%-clock %d+\n", output)
    assert.matches("checkout +[%d.]+ us  page%-faults:u %d+.*, task%-clock %d+ %(self %d+%)\n", output)
    assert.matches("failed: over the limit\n", output)
  end)

  it("record", function()
    local output = run "record"
    local n, lost = output:match "^(%d+) samples of sh, (%d+) lost, %d+ KB; it ended with status 0\n"
    assert.is_truthy(n, output)
    assert.equal("0", lost)
    assert.is_truthy(output:find "events:\n  cpu%-clock" or output:find "events:\n  cycles", output)
    assert.matches(" %%  gzip +/[%w/]*bin/%w+\n", output) -- gzip, or a program that includes it
  end)

  it("record of another command", function()
    util.with_tmpname(function(path)
      local output = run("record", path .. " sh -c 'exit 3'")
      assert.matches("samples of sh, 0 lost, %d+ KB; it ended with status 3\n", output)
      assert.matches("^PERFILE2", util.read_file(path))
    end)
  end)

  it("demo", function()
    requires { module = { "cjson", "dkjson" } }
    local output = run("demo", "1e5")
    assert.matches("KB of JSON, decoded and encoded by cjson", output)
    assert.matches("cjson +dkjson +ratio", output)
    assert.matches("\n> perf = require \"perf\"\n", output)
  end)

  it("run for an ordinary user, who may not count the kernel", function()
    requires { root = true, cmd = "flock" }
    util.with_directory(function(dir)
      util.execute(("cp -r examples %s"):format(dir))
      local copied = luaperf.copied(dir)
      util.execute("chmod 777 " .. dir)
      local failed = as_nobody(2, function()
        return copied [[for i in "bench 0.001" explore fast group measure "profile ." record ring spans; do
          set -- $i; timeout 600 $LUA examples/$1.lua $2 >out 2>&1 || { echo "$1: status $?"; cat out; }; done]]
      end)
      assert.equal("", failed)
    end)
  end)

  it("demo without libraries ends with status 1 and gives the reason", function()
    local output, status = util.shell(util.lua() ..
      [[ -e 'package.preload.cjson = function() error "away" end package.preload.dkjson = package.preload.cjson']] ..
      " examples/demo.lua")
    assert.equal(1, status)
    assert.matches("cjson is not installed, so it is left out", output)
    assert.matches("demo: neither cjson nor dkjson is here: nothing to measure\n?$", output)
  end)
end)
