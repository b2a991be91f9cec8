-- Commands of perf, and options of its commands, that luaperf does not have, with what to use instead: rows of names and a text
-- for the end of the message. The module is these texts by command ("commands" for the commands themselves) and name.
local pairs_of = require "perf.base.pairs"

local RECORDS = "perf.data.open(FILE):records() reads every record, in Lua"
local PERF = "perf itself has it; luaperf record -o FILE.data makes files for it"
local EACH = "the ratios are printed beside the counts"
local LUA_ONLY = "top is for processes that run Lua: -p PID"
local VIEWS = "the tables are by line and by function; --tree, --sandwich FUNCTION and luaperf annotate show more"

local rows = {
  commands = {
    { "diff", "use luaperf report --diff" },
    { "script evlist", RECORDS },
    { "trace", "use luaperf stat or luaperf record with -e syscalls:NAME" },
    { "dump", "luaperf top -p PID --times 1 shows what the process does now" },
    { "probe", "perf.kprobe and perf.uprobe make probes, in Lua" },
    { "bench", "perf.bench and perf.compare measure functions, in Lua" },
    { "test version", "use luaperf doctor, luaperf --version" },
    { "sched lock mem c2c kmem kvm kwork timechart inject archive buildid-list buildid-cache ftrace iostat daemon", PERF },
  },
  stat = {
    { "-D --delay", "perf.start() and its stop() count a part of a program" },
    { "-M --metrics --topdown", EACH },
    { "-t --tid", "use -p PID --per-thread" },
    { "-G --cgroup", "perf.set has the option cgroup" },
    { "-B --big-num -n --null", "leave it out" },
    { "--append", "use -o - and >> of the shell" },
    { "-F --freq -c --count -g", "stat counts, and takes no samples; luaperf record does" },
    { "--all-user", "use -e EVENT:u" }, { "--all-kernel", "use -e EVENT:k" },
  },
  record = {
    { "-t --tid", "use -p with the process of the thread" },
    { "-C --cpu", "use -a, which has all CPUs" },
    { "-D --delay", "perf.profiler has start and stop" },
    { "-d --duration", "use --timeout SECONDS" }, { "-r --rate", "use -F N" }, { "-n --native", "use -g" },
    { "-s --subprocesses", "-p has the children of the process too" }, { "--idle", "use -e context-switches" },
    { "-b --branch-any -j --branch-filter", "perf.open has branch_sample_type" },
    { "-i --no-inherit", "perf.record has the option inherit" },
    { "-m --mmap-pages", "perf.record has the option pages" },
    { "--off-cpu", "use -e context-switches" },
    { "-q --quiet", "use 2>/dev/null" },
    { "--all-user", "use -e EVENT:u" }, { "--all-kernel", "use -e EVENT:k" },
  },
  report = {
    { "-s --sort -F --fields", VIEWS },
    { "-g --call-graph -G", "use --tree, or --html" },
    { "--children --no-children", "the tables have both, as total and self" },
    { "-S --symbols", "use --sandwich FUNCTION" },
    { "-D --dump-raw-trace --stats --header", RECORDS },
    { "--percent-limit", "use -n N" },
    { "--tui --gtk", "use --html -o FILE.html" },
  },
  annotate = { { "-s --symbol", "give the source file: luaperf annotate app.lua" } },
  top = { { "-a --all-cpus -C --cpu -u --uid", LUA_ONLY }, { "-s --sort", VIEWS },
    { "-g --call-graph", "use luaperf record -p PID -o FILE.html" } },
}

local by_name = {}
for command, list in pairs_of(rows) do
  by_name[command] = {}
  for _, row in ipairs(list) do
    for name in row[1]:gmatch "%S+" do by_name[command][name] = row[2] end
  end
end

return by_name
