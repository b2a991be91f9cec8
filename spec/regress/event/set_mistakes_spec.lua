-- The story: perf.set(event, {cpus = {0, nil, 1}}) counted only CPU 0, and {cpus = {0, 0}} counted everything twice;
-- contradictory options of the target ({threads =, cpus =}, {cgroup =, pid =}), `cpu` and `group` were silently ignored. A closed
-- Set's or Group's records() returned an iterator that failed later, and errors of both named lines of the library. A descriptor
-- of -1 for `bpf` or `cgroup` named lines of the library too or was an errno without a reason, a pid of 1e300 was some process,
-- pid -2 one that had ended; the message of poll() on a closed object named has_record, and that of read() on a closed Group
-- named no method.
local perf = require "perf"
local message_of = require("spec.support.util").message_of

describe("perf.set refuses", function()
  it("lists of CPUs with holes, repetitions or other keys", function()
    for want, cpus in pairs { ["nil at %[2%]"] = { 0, nil, 1 }, ["an array expected, got the key 'first'"] = { first = 0 },
      ["CPU 0 twice"] = { 0, 0 }, ["CPU number expected, got x"] = { "x" }, ['"online" or an array'] = "all" } do
      assert.matches("set_mistakes_spec.lua:%d+: bad argument #2 to 'set' %(option 'cpus': .*" .. want,
        message_of(function() perf.set("dummy", { cpus = cpus }) end))
    end
  end)

  it("unknown options, and options that contradict each other", function()
    local function refuses(opts, want) assert.matches(want, message_of(perf.set, "dummy", opts)) end
    refuses({ cpu = 0 }, "#2 to 'set' %(unknown option 'cpu'")
    refuses({ group = 1 }, "#2 to 'set' %(unknown option 'group'")
    refuses({ threads = 1, cpus = { 0 } }, "options 'threads' and 'cpus' exclude each other")
    refuses({ cgroup = "/", pid = 1 }, "options 'cgroup' and 'pid' exclude each other")
    refuses({ cgroups = { "/", true } }, "option 'cgroups': %[2%]: path or descriptor expected, got boolean")
    assert.matches("#2 to 'group' %(unknown option 'group'", message_of(perf.group, { "dummy" }, { group = 1 }))
    for _, fd in ipairs { -1, 2 ^ 32 } do
      refuses({ bpf = fd }, "#2 to 'set' %(option 'bpf': a program's descriptor expected, got ")
      refuses({ cgroup = fd }, "#2 to 'set' %(option 'cgroup': path or descriptor expected, got ")
    end
    refuses({ cgroup = "a\0b" }, "option 'cgroup': a path has no zero bytes")
    refuses({ pid = 1e300 }, "option 'pid': out of range, got 1e")
  end)

  it("a pid that no process can have", function()
    requires { perf_open = "user" }
    local s, message, code = perf.open("dummy", { pid = -2 })
    assert.is_nil(s)
    assert.equal("ESRCH", code)
    assert.matches("no process has the pid %-2", message)
  end)
end)

describe("a mistake with a Set or a Group", function()
  local cases = { Set = function() return perf.set("dummy", { pid = 0 }) end, Group = function() return perf.group "dummy" end }

  for class, open in pairs(cases) do
    it("is reported at the line that makes it: " .. class, function()
      requires { perf_open = true }
      local s = assert(open())
      local function said(want, wrong)
        local message = message_of(wrong)
        assert.matches("set_mistakes_spec.lua:%d+: ", message)
        assert.matches(want, message, 1, true)
      end
      for _, method in ipairs { "enable", "read", "records", "read_record", "has_record", "poll", "map", "close" } do
        said(("bad argument #1 to '%s' (%s expected, got number)"):format(method, class), function()
          local r = s[method](12)
          return r
        end)
      end
      said("(no event is mapped: call map() first)", function() s:records { timeout = 0 } end)
      assert(s:map { pages = 1 })
      said("to 'records' (unknown option 'foo')", function() s:records { foo = 1 } end)
      said("to 'records' (table of options expected, got number)", function() s:records(1) end)
      said("bad argument #1 to 'read_record' (a timeout is 0 or more seconds, got -1)", function()
        local r = s:read_record(-1) return r
      end)
      s:close()
      s:close()
      assert.matches("'poll'", message_of(function() local r = s:poll() return r end))
      assert.matches("'disable'", message_of(function() local r = s:disable() return r end))
      for _, method in ipairs { "enable", "disable", "read", "records", "poll", "map" } do
        assert.matches("closed", message_of(s[method], s))
      end
    end)
  end
end)
