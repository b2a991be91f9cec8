-- The messages of luaperf record -p where something is missing. Twice: nothing here depends on the interpreter.
local host = require "perf.kernel.host"
local luaperf = require "spec.support.luaperf"
local outside = require "spec.support.outside"
local util = require "spec.support.util"

describe("a profile of another process that is refused", function()
  local dir

  before_each(function()
    outside.requires { root = true, cmd = { "setpriv", "unshare" } }
    dir = util.new_directory()
    util.write_file(dir .. "/busy.lua", "io.stdout:write 'runs\\n' io.stdout:flush() while true do end\n")
  end)

  after_each(function()
    util.remove_directory(dir)
    dir = nil
  end)

  -- Let a command run luaperf record -p for a busy process of root. Returns its message.
  local function says(command)
    local output = luaperf.shell(dir, ("mkfifo ready; %s busy.lua >ready & p=$!; read line <ready\n"
      .. "%s $root/bin/luaperf record -p $p --timeout 0.1 -o x.folded; s=$?; kill $p; wait $p 2>&-; echo $s")
      :format(util.lua(), command))
    assert.matches("\n255\n$", output)
    return output
  end

  local function without(...)
    local names = "-sys_admin,-" .. table.concat({ ... }, ",-")
    return ("setpriv --bounding-set %s --inh-caps %s"):format(names, names)
  end

  it("names the capability that root lacks", function()
    assert.matches("CAP_BPF with CAP_PERFMON; this process lacks CAP_BPF: its container has to allow that%)", says(without "bpf"))
    assert.matches("; this process lacks CAP_PERFMON: its", says(without "perfmon"))
    assert.matches("; this process lacks CAP_BPF and CAP_PERFMON: its", says(without("bpf", "perfmon")))
    local memory = "process %d+: its memory cannot be read: that needs CAP_SYS_PTRACE, since it has capabilities that this "
      .. "program lacks: this program's container has to allow it\n%-o FILE"
    assert.matches("luaperf: " .. memory, says(without "sys_ptrace"))
    assert.matches("; this process lacks CAP_BPF: [^\n]+\n" .. memory, says(without("bpf", "sys_ptrace")))
  end)

  -- The story: an ordinary user with CAP_BPF and CAP_PERFMON was told that another user's process "needs CAP_SYS_PTRACE, or the
  -- same user if the program has no capabilities". Without -o, luaperf wrote a perf.data file without Lua lines, and did not say
  -- so.
  it("tells an ordinary user what makes a capability necessary", function()
    local copied = luaperf.copied(dir)
    local function try(whose, capabilities, options)
      return copied(("mkfifo ready; %s %s busy.lua >ready & p=$!; read line <ready\n"
        .. "setpriv --reuid=65534 --regid=65534 --clear-groups %s $root/bin/luaperf record -p $p --timeout 0.1 %s 2>&1; "
        .. "kill $p; wait $p 2>&-; rm -f ready perf.data"):format(whose, util.lua(), capabilities, options))
    end
    local both = "--inh-caps=+bpf,+perfmon --ambient-caps=+bpf,+perfmon"
    local nobody = "setpriv --reuid=65534 --regid=65534 --clear-groups"
    util.execute("chmod 777 " .. dir)
    if (host.sysctl "kernel.yama.ptrace_scope" or 0) == 0 then
      assert.matches("^%[ luaperf: .* with a Lua stack", try(nobody, both, "-o x.folded"))
    end
    local memory = "process %%d+: its memory cannot be read: that needs CAP_SYS_PTRACE, since %s: setcap "
      .. "cap_bpf,cap_perfmon,cap_sys_ptrace%%+ep on the interpreter\n"
    local of_root = memory:format "it has the uid 0, and this program 65534"
    assert.matches("^luaperf: " .. of_root .. "%-o FILE.data", try("", both, "-o x.folded"))
    assert.matches("lacks CAP_BPF and CAP_PERFMON: [^\n]+\n" .. of_root .. "%-o FILE.data", try("", "", "-o x.folded"))
    assert.matches("^luaperf: " .. memory:format "it has the gid 0, and this program 65534",
      try("setpriv --reuid=65534 --clear-groups", both, "-o x.folded"))
    assert.matches("^luaperf: " .. memory:format "it has capabilities that this program lacks",
      try(nobody .. " --inh-caps=+kill --ambient-caps=+kill", both, "-o x.folded"))
    assert.matches("^luaperf: " .. of_root .. "luaperf cannot tell whether it runs Lua, and records it without Lua lines\n",
      try("", "", ""))
  end)

  it("says that capabilities of a user namespace do not count", function()
    if select(2, util.shell "unshare -Ur true") ~= 0 then requires { cmd = "unshare -U with its privileges" } end
    assert.matches("a user namespace, whose capabilities do not count", says "unshare -Ur")
  end)

  it("says that the kernel does not describe its types", function()
    if select(2, util.shell "unshare -m true") ~= 0 then requires { cmd = "unshare with its privileges" } end
    local output = says [[unshare -m sh -c 'mount -t tmpfs none /sys/kernel/btf; exec "$@"' sh]]
    assert.matches("^luaperf: other processes: bpf: cannot be loaded: Operation not supported %(this kernel does not "
      .. "describe its types: /sys/kernel/btf/vmlinux, by CONFIG_DEBUG_INFO_BTF%)\n%-o FILE.data", output)
  end)

  it("is told what to type instead of options of py-spy, or of a number", function()
    local output = luaperf.shell(dir, "luaperf record -p $$ --duration 1; luaperf record -p $$ -r 9; luaperf top 12; "
      .. "luaperf dump -p 1; luaperf record $$; luaperf record -p 2147483647")
    assert.matches("use %-%-timeout SECONDS\n.*use %-F N\n.*luaperf top %-p 12\n.*luaperf top %-p PID %-%-times 1"
      .. ".*\nluaperf: (%d+): no program in PATH; %-p %1 is the process.*\nluaperf: no process 2147483647\n", output)
  end)
end)
