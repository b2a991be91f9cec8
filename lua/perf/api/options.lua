-- The options of the public functions and methods, as plain data: by the function's full name, an array of rows
-- {name, type, help}. perf.api.check makes the checks from them; `perf.help`, the reference and luaperf's options read them too.
--
-- A type is written as in the docstrings: "integer", "string|table", "{string,...}", the name of a class. A row may also have
--   default    the value if none is given; a default that depends on something is described in the help
--   variables  the environment's variables that give the value if none is given, the first that is set, in 1 / `scale` of the
--              unit; `otherwise` is the value if none is set. The warning about an invalid one says `ignored`, its consequence;
--              `zero` is what 0 means in a variable
--   required   the option must be given
--   least, most, above   for a number
--   oneof      an array of the possible strings, also of those in an array; `noun`: the message about another one names the kind
--   excludes   options that cannot be given together with this one; `unset` is a value that excludes nothing
--   options    rows for the fields of a table
--   any        the function itself checks the type
--   expected, what   words for messages: for the type, and for a valid number
local M = {}

-- Counting -----------------------------------------------------------------------------------------------------------

local pid = { "pid", "integer", "the thread to count; 0: the calling thread, -1: every thread on `cpu` (default: 0)" }
local cpu = { "cpu", "integer", "the CPU to count on; -1: any (default: -1)" }
local cgroup = { "cgroup", "string|integer", "a path, from the cgroup mount or absolute, or a descriptor; needs `cpu`",
  any = true }

M["perf.open"] = { pid, cpu, { "group", "Event", "the leader of its group", any = true }, cgroup }
M["perf.group"] = { pid, cpu, cgroup }
M["perf.set"] = {
  { "cpus", "string|{integer,...}", "\"online\", or CPU numbers (default: \"online\")", any = true },
  { "pid", "integer", "-1: every process (default: -1)", unset = -1 },
  { "cgroup", "string|integer", "a path, from the cgroup mount or absolute, or a descriptor", any = true,
    excludes = { "cgroups", "pid" } },
  { "cgroups", "table", "an array of such cgroups; one event for each on each CPU", excludes = { "pid" } },
  { "threads", "integer", "a pid: one event on each of its threads, instead of CPUs",
    excludes = { "pid", "cpus", "cgroup", "cgroups" } },
  { "bpf", "table|integer", "a program of `BpfObject:program`, or its descriptor, attached before the events are enabled",
    any = true },
  { "deferred_enable", "boolean", "true: leave the events disabled", default = false },
}
M["perf.hardware_profiler"] = { pid, cpu, cgroup,
  { "events", "string|table", "the events to count instead of all, as for `perf.measure`; without it the kernel is excluded if "
    .. "it may not be counted", expected = "string or array" },
  { "inherit", "boolean", "true: also count children that are started from now on", default = false },
}
M["perf.software_profiler"] = M["perf.hardware_profiler"]
M["perf.cache_profiler"] = M["perf.hardware_profiler"]
M["perf.features"] = { { "refresh", "boolean", "true to determine them again", default = false } }
M["DoctorReport:text"] = {
  { "colour", "boolean", "true for a terminal", default = false },
  { "width", "integer", "columns (default: those of the terminal, 100 at most)", least = 1 },
}

-- Events -------------------------------------------------------------------------------------------------------------

local ret = { "ret", "boolean", "true: the return of the function instead of its call", default = false,
  also = { "retprobe" } }

M["perf.kprobe"] = {
  { "func", "string", "the function's name" },
  { "addr", "integer", "an address, instead of a name", any = true },
  { "offset", "integer", "bytes into the function (default: 0)", any = true },
  ret,
}
M["perf.uprobe"] = {
  { "path", "string", "the program or library", required = true },
  { "symbol", "string", "a function's name in it" },
  { "offset", "integer", "bytes into the file, or from the symbol (default: 0)", any = true },
  ret,
  { "ref_ctr_offset", "integer", "the offset of a semaphore that the kernel increments while the event is open", any = true },
}
M["perf.breakpoint"] = {
  { "addr", "integer", "the address", any = true, required = true },
  { "len", "integer", "bytes: 1, 2, 4 or 8 on most machines (default: 4; for \"x\" the machine's length)", least = 1,
    what = "number of bytes" },
  { "access", "string", "\"r\" (read), \"w\" (write), \"rw\", or \"x\" (execute)", default = "rw" },
}

-- Measuring ----------------------------------------------------------------------------------------------------------

local warmup = { "warmup", "integer", "runs that are not measured, before the others", default = 2, least = 0 }
local min_time = { "min_time", "number", "the least duration of a run in seconds, reached by calling a function several times; "
  .. "0: one call a run", default = 0.005, least = 0 }
local seed = { "seed", "integer", "the seed of the random order of runs", default = 1, least = 0 }

local bench_events = { "events", "string|table", "as for `perf.measure`, instead of the argument", any = true }

M["perf.bench"] = {
  bench_events,
  { "repeats", "integer", "runs, 1 or more (default: 30, fewer for a slow function, so that it takes about 3 seconds, but at "
    .. "least 7)", least = 1, also = { "runs", "rounds" } },
  min_time, warmup, seed,
}
M["perf.compare"] = {
  bench_events,
  { "baseline", "string", "the name of the candidate that the others are compared with (default: an array's first; else the "
    .. "one that is named baseline, base, old or before; else the first by name)" },
  { "least", "number", "the smallest share that counts as a difference", default = 0.01, least = 0 },
  { "repeats", "integer", "rounds, 1 or more (default: 30, fewer for slow functions, so that it takes about 6 seconds, but at "
    .. "least 12)", least = 1, also = { "runs", "rounds" } },
  warmup, min_time, seed,
}
M["Stats:html"] = {
  { "title", "string", "the page's title (default: the function, and the names of the candidates)" },
}
M["Comparison:html"] = M["Stats:html"]
M["perf.pool"] = {
  { "size", "integer", "threads (default: as many as CPUs)", least = 1, most = 1024,
    what = "a whole number from 1 to 1024" },
  { "cpus", "{integer,...}|string|boolean", "CPU numbers, \"online\", or false: not bound (default: the CPUs that this "
    .. "calling thread may use, one after the other)" },
  { "events", "string|table|boolean", "as for `perf.measure`, but names only; false: jobs are not measured" },
  { "queue", "integer", "the largest number of jobs that wait", default = 1024, least = 1, most = 2 ^ 24,
    what = "a whole number from 1 to 16777216" },
  { "tracer", "Tracer", "makes a span of each job" },
}

-- Records ------------------------------------------------------------------------------------------------------------

M["Event:map"] = {
  { "pages", "integer", "pages of the ring, a power of two", default = 128, any = true },
  { "aux_pages", "integer", "pages of the AUX area, a power of two", any = true },
  { "overwrite", "boolean", "true for an event opened with write_backward", any = true },
}
M["Group:map"], M["Set:map"] = M["Event:map"], M["Event:map"]

local max = { "max", "integer", "end after this many records (since 0.2.0)", least = 0, most = math.huge,
  expected = "a number of records", what = "a number of records" }
local duration = { "duration", "number", "end after this many seconds, even if records keep coming (since 0.2.0)", least = 0,
  most = math.huge, expected = "seconds", what = "seconds" }

M["Event:records"] = {
  { "timeout", "number", "end after this many seconds without a record", default = 0, least = 0, most = math.huge,
    expected = "seconds", what = "seconds" },
  max, duration,
}
M["Group:records"], M["Set:records"] = M["Event:records"], M["Event:records"]
M["Event:each"] = { max, duration }
M["perf.tally"] = {
  { "by", "string|table", "a field's name or an array of up to four names, each of a field that is one number: \"ip\", \"tid\", "
    .. "\"cpu\", \"addr\" ...", any = true, required = true, expected = "one to four names of fields" },
  { "weight", "string", "the field to add up instead of counting records, such as \"period\"" },
  { "max", "integer", "the largest number of keys", default = 65536, least = 1, most = 2 ^ 30 },
  { "type", "string", "the type of the records that are counted", default = "sample" },
}
M["perf.tracefields.parse"] = {
  { "system", "string", "the group's name", default = "" },
  { "big_endian", "boolean", "the byte order of the records (default: this machine's)" },
  { "long_size", "integer", "4 or 8, the size in bytes of the kernel's long (default: this machine's)" },
  { "trusted", "boolean", "the text comes from a kernel, so it can also be used for printing (libtraceevent, which prints, may "
    .. "crash on a print fmt that no kernel wrote)", default = false },
}

-- perf.data ----------------------------------------------------------------------------------------------------------

local mode = { "mode", "string", "\"replace\" removes a file or symbolic link of that name and makes a new file that only its "
  .. "owner can read; \"exclusive\" fails if there is one; \"overwrite\" writes into an existing file, following links",
  default = "replace", oneof = { "replace", "exclusive", "overwrite" } }
local build_ids = { "build_ids", "boolean", "false leaves out the build ids of the mappings, which are read from the files "
  .. "themselves" }

M["perf.data.create"] = {
  { "events", "table", "an array of event names, attr tables, open Events, or entries `{attr, ids, name}` such as a file's "
    .. "`attrs`; samples of several events are distinguished by the ids, so each event must have some", any = true },
  { "attrs", "table", "the same as `events`", any = true },
  { "features", "table", "features of another machine, for example when copying a file: nothing is read from this machine" },
  build_ids, mode,
}
M["perf.record"] = {
  { "events", "string|table", "names or attr tables (default: cycles, or cpu-clock without a PMU)", any = true },
  { "freq", "integer", "samples a second, for every event that has no period or frequency of its own (default: 999)", least = 1,
    excludes = { "period" } },
  { "period", "integer", "the event's count from one sample to the next, instead of `freq` (default: 1 for tracepoints, probes "
    .. "and breakpoints)", least = 1 },
  { "call_graph", "boolean|string", "true or \"fp\": the kernel's callchains; \"dwarf\": registers and 8 KiB of stack for perf "
    .. "report to unwind", oneof = { "fp", "dwarf" }, expected = 'true, "fp" or "dwarf"' },
  { "filter", "string", "a filter of the events, which are tracepoints then, as for `Event:set_filter` (since 0.2.0)" },
  { "output", "string", "the file", default = "perf.data" },
  mode, build_ids,
  { "switch_output", "string", "begin a new file when one has this size (\"10M\": B, K, M, G) or age (\"30s\": s, m, h, "
    .. "d); an older one has the time of its end after its name (since 0.2.0)" },
  { "switch_max_files", "integer", "the files to keep then, the latest ones (default: all; since 0.2.0)", least = 1 },
  { "during", "{string,...}", "for recordings of a process or of every process: a program and its arguments; it runs "
    .. "meanwhile, and the recording ends with it" },
  { "timeout", "number", "seconds after which the recording ends and the command gets SIGTERM", above = 0 },
  { "pages", "integer", "the pages of each CPU's ring", default = 128, least = 1 },
  { "inherit", "boolean", "false: without the children (uprobes, and kprobes by name, need this)", default = true },
}

-- Profiles -----------------------------------------------------------------------------------------------------------

M["perf.profiler"] = {
  { "event", "string|table", "the event to sample, a name as in perf stat -e or a table of attr fields; context-switches is "
    .. "weighted by the time off the CPU, in nanoseconds; with a period, by the number of switches; \"alloc\" (since 0.2.0) "
    .. "is the bytes that this Lua state allocates, \"heap\" those of them that it has not freed at the stop",
    default = "task-clock" },
  { "pid", "integer|{integer,...}", "another process that runs this interpreter, with its threads and children, "
    .. "or an array of such processes; by default the thread that starts the profiler", least = 1, most = 2 ^ 31 - 1,
    what = "a process number" },
  { "freq", "integer", "samples a second (default: 999 for clocks and hardware counters); for clocks at most 20,000", least = 1,
    excludes = { "period" } },
  { "period", "integer", "the event's count from one sample to the next, instead of `freq` (default: 1 for all events except "
    .. "clocks and hardware counters, which makes the profile exact); for clocks at least 50,000 ns; for alloc and heap the "
    .. "bytes between two samples on average (default: 524,288; 1: each block)", least = 1 },
  { "survived", "integer", "for heap: only the blocks that have survived so many collections (since 0.2.0)", least = 0 },
  { "native", "boolean", "true adds the C and kernel functions of the call chain", default = false },
  { "coroutines", "string", "\"resumer\" shows a coroutine under the stack that resumed it, \"creator\" under the stack that "
    .. "made it, \"alone\" by itself", default = "alone", oneof = { "alone", "resumer", "creator" } },
  { "timeline", "boolean|integer", "true, or a number of samples (100,000), keeps the single samples, for `Profile:timeline`",
    least = 1, most = 2 ^ 26 },
  { "filter", "string", "a tracepoint's filter, as for `Event:set_filter`" },
}
M["perf.profile"] = M["perf.profiler"]
M["perf.load"] = {
  { "event", "string", "which profile of a perf.data file with several events (default: the first)" },
}
M["Profile:flamegraph"] = {
  { "diff", "Profile", "an earlier profile to compare with: frames whose share grew are red, those whose share shrank "
    .. "blue; of alloc and heap, those whose bytes did" },
  { "title", "string", "the page's title" },
}

M["perf.heap"] = {
  { "fork", "boolean", "true: the child of a fork takes the snapshot, while the program goes on; `Heap:wait` waits for it "
    .. "(no SIGCHLD comes)", default = false },
  { "collect", "boolean", "true: collect the garbage first, so that only objects that are alive are left", default = false },
}

M["Heap:html"] = {
  { "diff", "Heap", "an earlier snapshot to compare with: the page has a table of what changed" },
}

local rows = { "n", "integer", "the largest number of rows of the text, the heaviest (default: 50)", least = 1, most = math.huge }
M["Profile:tree"] = {
  { "by", "string", "\"function\", or \"line\": a row for each line of a function that has calls or samples",
    default = "function", oneof = { "function", "line" } },
  rows,
}
M["Profile:callers"], M["Profile:callees"] = M["Profile:tree"], M["Profile:tree"]
M["Profile:annotate"] = {
  { "context", "integer", "show only this many lines around those with weight (default: the whole file)", least = 0 },
  { "colour", "boolean", "true: colours of a terminal, red from 5 % of the weight on, green from 0.5 % on", default = false },
}

-- Symbols and BPF ----------------------------------------------------------------------------------------------------

M["perf.symbols.open"] = {
  { "pid", "integer", "a process that runs; 0: this one", least = 0, most = 2 ^ 31 - 1, what = "a process number" },
  { "path", "string", "one file; addresses are those of its symbol table" },
  { "maps", "{table,...}", "`{addr=, filename=, pgoff=, len=, build_id=}` as in mmap records, of a process that may have "
    .. "ended" },
  { "kernel", "boolean|KernelSymbols", "false: no symbols of the kernel; or a result of `perf.symbols.kernel` (default: "
    .. "/proc/kallsyms is read when the first address of the kernel is resolved; with `maps`: false)" },
  { "debuginfod", "boolean", "true lets elfutils ask the servers of $DEBUGINFOD_URLS for missing symbols", default = false },
}
M["Resolver:unwind"] = {
  { "regs", "table", "the registers by perf's names (`rec.user_regs`)", required = true },
  { "stack", "string", "the bytes from the stack pointer on (`rec.user_stack`)", required = true },
  { "abi", "integer|string", "2 or \"64\" (default: regs.abi)" },
  { "machine", "string", "\"x86_64\" or \"aarch64\" (default: this machine's)" },
  { "max", "integer", "the largest number of frames", default = 127, least = 1 },
}
M["perf.bpf.load"] = {
  { "max_entries", "table", "`{map = n}`, sizes that replace the file's" },
  { "globals", "table", "`{variable = value}`, set before the programs are verified, so this includes constants "
    .. "(`const volatile`)" },
  { "programs", "{string,...}", "the programs to load; the others are left out" },
}

-- Spans --------------------------------------------------------------------------------------------------------------

local size, length = "a whole number from 1 to 16777216", "a whole number from 0, or math.huge"
local finite = 2 ^ 1023

local function count(name, help, variables)
  return { name, "integer", help, least = 0, most = 2 ^ 24, what = "a whole number from 0 to 16777216", otherwise = 128,
    variables = variables }
end

M["perf.tracer"] = {
  { "service", "string", "the service's name" },
  { "exporter", "table|function|boolean", "an exporter of `perf.exporter`, a function of arrays of plain spans (as "
    .. "`Span:totable`), or false" },
  { "events", "string|table|boolean", "as for `perf.measure` (default: the best events of the machine); false: none" },
  { "resource", "table", "attributes of the process" },
  { "sampler", "string|number|function", "a share from 0 to 1, a name of OTEL_TRACES_SAMPLER, or a function" },
  { "propagators", "{string,...}", "the formats of contexts in headers", oneof = { "tracecontext", "b3", "b3multi" } },
  { "metrics", "boolean|table", "true, or a table: keep histograms of the counts for each span name", options = {
    { "buckets", "table", "the bounds of the histograms" },
    { "interval", "number", "seconds between two exports", above = 0, most = finite, what = "a number above 0", scale = 1e3,
      variables = { "OTEL_METRIC_EXPORT_INTERVAL" } },
  } },
  { "queue", "integer", "the largest number of spans that wait", least = 1, most = 2 ^ 24, what = size, otherwise = 2048,
    variables = { "OTEL_BSP_MAX_QUEUE_SIZE" } },
  { "batch", "integer", "the largest number of spans in a request", least = 1, most = 2 ^ 24, what = size, otherwise = 512,
    variables = { "OTEL_BSP_MAX_EXPORT_BATCH_SIZE" } },
  { "batch_bytes", "integer", "the largest number of bytes in a request (since 0.2.0)", default = 4 * 2 ^ 20, least = 0,
    most = math.huge, what = length },
  { "delay", "number", "seconds until a batch that is not full is sent", least = 0, most = math.huge, what = "a number from 0",
    otherwise = 5, scale = 1e3, variables = { "OTEL_BSP_SCHEDULE_DELAY" } },
  { "retry", "number", "seconds for which a batch is retried", least = 0, most = math.huge, what = "a number from 0",
    otherwise = 300, scale = 1e3, zero = math.huge, variables = { "OTEL_BSP_EXPORT_TIMEOUT" } },
  { "limits", "table", "(since 0.2.0) the limits of a span", options = {
    count("attributes", "attributes of a span", { "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "OTEL_ATTRIBUTE_COUNT_LIMIT" }),
    { "attribute_length", "integer", "characters in a string", least = 0, most = math.huge, what = length, otherwise = math.huge,
      variables = { "OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT", "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT" } },
    count("events", "events of a span", { "OTEL_SPAN_EVENT_COUNT_LIMIT" }),
    count("links", "links of a span", { "OTEL_SPAN_LINK_COUNT_LIMIT" }),
    count("event_attributes", "attributes of an event", { "OTEL_EVENT_ATTRIBUTE_COUNT_LIMIT", "OTEL_ATTRIBUTE_COUNT_LIMIT" }),
    count("link_attributes", "attributes of a link", { "OTEL_LINK_ATTRIBUTE_COUNT_LIMIT", "OTEL_ATTRIBUTE_COUNT_LIMIT" }),
  } },
}
M["Tracer:start"] = {
  { "parent", "Span|table|boolean", "a span; a context, as from `extract`; false: none (default: the current span, see "
    .. "`Tracer:span`)", expected = "span, context or false" },
  { "kind", "string", "the kind of work", default = "internal",
    oneof = { "internal", "server", "client", "producer", "consumer" } },
  { "attributes", "table", "by name, as for `Span:set_attribute`" },
  { "links", "table", "an array of contexts and Spans; a context may have attributes", any = true },
  { "start_ns", "integer", "the start in nanoseconds since 1970, if it was before this call", any = true },
}
M["Tracer:span"] = M["Tracer:start"]
M["perf.observe"] = {
  { "events", "string|table", "the events that every span counts, as for `perf.measure`" },
}

-- The options of an exporter.
-- @string endpoint the usual one
-- @param variables_of a function of the last part of their names: the variables of the environment, or nil
local function exporter(endpoint, variables_of)
  return {
    { "endpoint", "string", "a URL of http or https", otherwise = endpoint, variables = variables_of "ENDPOINT" },
    { "headers", "table", "further headers of the requests, by name", variables = variables_of "HEADERS" },
    { "timeout", "number", "seconds; 0: no limit", least = 0, most = finite, what = "a number from 0", otherwise = 10,
      scale = 1e3, variables = variables_of "TIMEOUT" },
    { "compression", "string", "\"gzip\" with lua-zlib, or \"none\"", oneof = { "gzip", "none" }, noun = "compression",
      otherwise = "none", ignored = "nothing is compressed", variables = variables_of "COMPRESSION" },
    { "tls", "table", "settings for https", options = {
      { "cafile", "string", "a file with the certificates of authorities", variables = variables_of "CERTIFICATE" },
      { "capath", "string", "a directory with the certificates of authorities" },
      { "certificate", "string", "a file with the client's certificate", variables = variables_of "CLIENT_CERTIFICATE" },
      { "key", "string", "a file with the key of the client's certificate", variables = variables_of "CLIENT_KEY" },
      { "verify", "boolean", "false accepts any certificate of the server" },
    } },
    { "transport", "string", "the library that sends (default: the first that is installed)",
      oneof = { "luasocket", "luahttp", "ngx" } },
  }
end

M["perf.exporter.otlp"] = exporter("http://localhost:4318", function(name)
  return { "OTEL_EXPORTER_OTLP_TRACES_" .. name, "OTEL_EXPORTER_OTLP_" .. name }
end)
M["perf.exporter.zipkin"] = exporter("http://localhost:9411/api/v2/spans", function(name)
  return (name == "ENDPOINT" or name == "TIMEOUT") and { "OTEL_EXPORTER_ZIPKIN_" .. name } or nil
end)

-- OpenResty ----------------------------------------------------------------------------------------------------------

M["resty.perf.install"] = {
  { "auto", "boolean", "(since 0.2.0) true: count the chunks of the configuration without a hook in each", default = false },
}
M["resty.perf.start"] = {
  { "events", "string|table", "as for `perf.measure`", any = true },
  { "sample", "integer|table", "n: one of n requests; 0: none, until a start changes it; or a table", default = 1, any = true,
    options = {
      { "every", "integer", "the n of all routes", any = true },
      { "header", "string", "a request with this header is counted if it is trusted by `secret` or `trust`", any = true },
      { "secret", "string", "(since 0.2.0) the value that the header must have", any = true },
      { "trust", "function", "(since 0.2.0) a function of the header's value that returns true for a request to count",
        any = true },
      { "routes", "table", "`{[name] = n}`: another n for some routes", any = true },
    } },
  { "routes", "table|function", "the names under which requests are added up, or a function of the path", any = true },
  { "slow", "number|table", "seconds, or `{time=, [label]=}`: a request beyond one of these is logged and shown", any = true },
  { "redact", "function", "(since 0.2.0) a function of a slow request's URI that returns the text to log and show (default: the "
    .. "URI without its query string)", any = true },
  { "spans", "Tracer", "makes a span of each counted request", any = true },
  { "waits", "boolean|number", "true: count where requests wait; seconds: also make an event of each wait on the request's span "
    .. "that is at least as long (since 0.2.0)", any = true },
  { "blocked", "number", "seconds: a turn of Lua that takes longer is reported, with its stack while it ran (since 0.2.0)",
    least = 0.001, most = 1000 },
  { "timers", "boolean", "(since 0.2.0) true: the timers of each function are a route of their own", default = false },
  { "heap", "integer", "(since 0.2.0) bytes: watch which memory stays alive, by samples that are so far apart on average; 0: do "
    .. "not", default = 0, least = 0, most = 2 ^ 40 },
  { "dict", "string", "the name of the lua_shared_dict", default = "perf" },
}
M["resty.perf.profile"] = {
  { "workers", "integer|string", "(since 0.2.0) the process id of a worker, or \"all\" (default: this worker)", any = true },
  { "route", "string", "(since 0.2.0) only the samples of requests of this route" },
  { "period", "integer", "(since 0.2.0) as for `perf.profiler`", least = 1 },
  { "survived", "integer", "(since 0.2.0) as for `perf.profiler`", least = 0 },
}

M["resty.perf.status"] = {
  { "from", "string|{string,...}|function", "\"any\", an address or a range such as \"10.0.0.0/8\", an array of these, or a "
    .. "function of the address: the clients that may see it (default: those on this machine)", any = true },
  { "token", "string", "(since 0.2.0) the value that the header X-Perf-Token must have in requests that change something" },
}
M["resty.perf.metrics"] = {
  M["resty.perf.status"][1],
  { "prefix", "string", "(since 0.2.0) the beginning of all metrics' names", default = "lua_perf" },
  { "labels", "table", "(since 0.2.0) `{name = text}`: labels that all samples have", any = true },
  { "without", "{string,...}", "(since 0.2.0) labels that are left out, whose values are added up: phase, status, method, kind, "
    .. "peer, line", any = true },
  { "buckets", "{number,...}", "(since 0.2.0) the bounds of histograms of times, in seconds", any = true },
}

return M
