-- Recording a whole process, with its threads and children, into a perf.data file.
--
-- On each CPU all events share a ring, into which they write for the process and its children (inherit). An additional event, a
-- dummy, counts nothing; it writes the records by which perf attributes samples: programs started, files mapped, processes
-- created and ended. So the other events can lose only samples, and the kernel counts those (PERF_FORMAT_LOST). A lost_samples
-- record at the end has the number for each event on each CPU, as in perf record. The rings are emptied when one is half full,
-- and ten times a second otherwise; a finished_round record after each pass tells readers up to where they can sort.
--
-- A command is forked but waits until its events are open (enable_on_exec), so it is recorded from its first instruction. For a
-- running process and the children that it has, records of their state are made here (perf.data.synthesize). They are made while
-- the dummy writes already, so that what changes meanwhile has a record too.
local argument = require "perf.base.argument"
local attempt = require "perf.base.attempt"
local brief = require "perf.base.brief"
local copy = require "perf.base.copy"
local core = require "perf.core"
local host = require "perf.kernel.host"
local late = require "perf.base.late"
local open = require "perf.event.open"
local checks = require "perf.api.check"
local set = require "perf.event.set"
local data_create = require "perf.data.create"
local rotation = require "perf.data.rotation"
local state = require "perf.data.synthesize"
local synthesize = require "perf.record.synthesize"
local threads = require "perf.event.threads"

local recorder = {}

local try, try_as, refuse, catch = attempt.try, attempt.try_as, attempt.refuse, attempt.catch

local EVERYONE = -1 -- the kernel's pid for every process, on each CPU
local TICK = 0.1 -- seconds between two reads of rings that are not half full

local check_options = checks.options("perf.record", { output = checks.path, filter = checks.filter,
switch_output = rotation.wrong,
during = function(words)
  for i = 1, math.max(#words, 1) do
    if type(words[i]) ~= "string" or words[i]:find("%z") then return "array of words expected" end
  end
end })

local function bad(index, text, ...)
  argument.raise(text:format(...), index)
end

local function is_pid(what) return type(what) == "number" and what == math.floor(what) and what > 0 end

-- The target of the recording: an argument vector, or an array of process ids.
local function check_target(what)
  if type(what) == "string" then what = {"/bin/sh", "-c", what} end
  if is_pid(what) or what == EVERYONE then return nil, {what} end
  if type(what) == "table" and type(what[1]) == "number" then
    for i, pid in ipairs(what) do
      if not is_pid(pid) then bad(1, "process %d: process id expected, got %s", i, tostring(pid)) end
    end
    return nil, what
  end
  if type(what) ~= "table" then bad(1, "command or process id expected, got %s", type(what)) end
  local argv = {}
  for i, word in ipairs(what) do
    if type(word) ~= "string" then bad(1, "argument %d: string expected", i) end
    if word:find("%z") then bad(1, "a command has no zero bytes") end
    argv[i] = word
  end
  if #argv == 0 then
    bad(1, next(what) == nil and "an empty command" or "a command is an array of words; options are in the last argument")
  end
  return argv
end

-- The events as {label =, attrs =}: the requested ones, or cycles if the machine counts them.
local function resolve(events)
  local names = late "perf.names"
  if events == nil then
    local probe = set.probe_cycles(999)
    local found = names.resolve(probe.label)
    local attrs = {}
    for i, attr in ipairs(found.attrs) do
      attrs[i] = copy(attr)
      attrs[i].exclude_kernel = probe.exclude_kernel
    end
    return {{label = probe.label .. (probe.exclude_kernel and ":u" or ""), attrs = attrs}}
  end
  if type(events) == "string" then events = argument.call_as_argument(2, "option 'events': ", names.split, events) end
  if type(events) ~= "table" then bad(2, "option 'events': a list expected, got %s", type(events)) end
  if events.type ~= nil or events.event ~= nil then events = {events} end
  local wrong = names.list_mistake(events)
  if wrong then bad(2, "option 'events': %s", wrong) end
  if #events == 0 then bad(2, "option 'events': none given") end
  return argument.call_as_argument(2, "option 'events': ", names.resolve_list, events)
end

local registers = {x86_64 = 0xff0fff, aarch64 = 0x1ffffffff} -- all registers of user code except segments

local function sample_fields(attr, opts)
  local fields, has = {}, {}
  local function add(name)
    if not has[name] then fields[#fields + 1], has[name] = name, true end
  end
  for _, name in ipairs{"identifier", "ip", "tid", "time", "cpu"} do add(name) end
  -- With a period above 1, "period" is left out: a software event, tracepoint or probe whose samples contain it gets a sample of
  -- each occurrence.
  if not attr.sample_period or tonumber(attr.sample_period) == 1 then add "period" end
  for _, name in ipairs(type(attr.sample_type) == "table" and attr.sample_type or {}) do add(name) end
  if attr.type == "tracepoint" or attr.type == 2 then add "raw" end
  if opts.call_graph then add "callchain" end
  if opts.call_graph == "dwarf" then
    local mask = registers[select(2, core.uname())]
    if not mask then refuse("call_graph = \"dwarf\": the registers of this machine are not known here", "ENOSYS") end
    add "regs_user"
    add "stack_user"
    attr.sample_regs_user, attr.sample_stack_user, attr.exclude_callchain_user = mask, 8192, true
  end
  return fields
end

-- Kinds of events that do not measure time or work: each occurrence is recorded.
local single = {tracepoint = true, breakpoint = true, [2] = true, [5] = true}

-- The event that writes the records of processes and maps.
local function tracker(opts, command)
  local attr = {type = "software", config = 9, exclude_kernel = true, exclude_hv = true, sample_period = 1, sample_id_all = true,
    sample_type = {"identifier", "ip", "tid", "time", "cpu", "period"}, inherit = opts.inherit, disabled = true,
    enable_on_exec = command}
  for _, name in ipairs{"mmap", "mmap2", "comm", "comm_exec", "task"} do attr[name] = true end
  return {spec = {label = "dummy:u"}, attr = attr, ids = {}, events = {}, name = "dummy:u", tracks = true}
end

-- The attrs to open, each {spec = {label}, attr =, ids = {}, events = {}, name =}.
local function prepare(list, opts, command)
  local prepared = {}
  for _, event in ipairs(list) do
    for _, given in ipairs(event.attrs) do
      local attr = copy(given)
      local probe = attr.uprobe_path or attr.kprobe_func
      -- The kernel reads the name of a probe from the memory of the process that opens the event or, for an inherited event, of
      -- the process that forks. If that process has executed another program, the name is not there, and its fork fails.
      if opts.inherit and probe then
        refuse(event.label .. ": a probe is not inherited by children that execute another program, whose forks would fail: "
          .. "record with inherit = false", "EOPNOTSUPP")
      end
      if not (attr.sample_period or attr.sample_freq) then
        attr.sample_period, attr.sample_freq = opts.period, opts.freq
        if not (opts.period or opts.freq) then
          if single[attr.type] or probe or attr.kprobe_addr then attr.sample_period = 1 else attr.sample_freq = 999 end
        end
      end
      if attr.sample_period then attr.freq = nil end
      attr.sample_type, attr.sample_id_all = sample_fields(attr, opts), true
      attr.inherit, attr.disabled, attr.enable_on_exec = opts.inherit, true, command
      prepared[#prepared + 1] = {spec = {label = event.label}, attr = attr, ids = {}, events = {}, name = event.label}
    end
  end
  prepared[#prepared + 1] = tracker(opts, command)
  for _, entry in ipairs(prepared) do entry.attr.read_format = open.counts_lost() and {"id", "lost"} or {"id"} end
  return prepared
end

local Session = {}
Session.__index = Session

-- Ask a command to end, and wait for a second.
-- @return its status, or false if it still runs
local function ask_to_end(process)
  local status = process:wait()
  if status == false then process:kill() end
  for _ = 1, not status and 20 or 0 do
    core.watch({}, 0.05)
    status = process:wait()
    if status then break end
  end
  return status
end

-- After a failure, end the command: ask it to end, wait for a second, then kill it. A command that has not begun yet is killed at
-- once, because it blocks other signals.
function Session:abandon()
  if not self.process or self.begun and ask_to_end(self.process) then return end
  self.process:kill(9)
  self.process:wait(true)
end

function Session:close()
  for _, ev in ipairs(self.events) do ev:close() end
  self.events = {}
  if self.process then self.process:close() end
  if self.output then self.output:close() end
end

-- Open one event for one thread on one CPU. Returns nil if the CPU does not have the event; nil, "ESRCH" if the thread has ended.
function Session:open_one(entry, tid, cpu)
  local ev, msg, code = open.attr(entry.spec, entry.attr, {pid = tid, cpu = cpu})
  if not ev then
    local elsewhere = self.hybrid and (code == "EINVAL" or code == "ENOENT" or code == "ENODEV")
    if elsewhere or (code == "ESRCH" and self.pids) then return nil, code end
    refuse(msg, code)
  end
  -- A clock may have been opened without samples of the kernel, for lack of permission: then the file's attr must show that.
  local info = ev:info()
  entry.attr, entry.name, entry.spec = info.attr, info.label, { label = info.label }
  self.events[#self.events + 1], self.fds[#self.fds + 1] = ev, ev:fd()
  if self.opts.filter and not entry.tracks then try(ev:set_filter(self.opts.filter)) end
  entry.ids[#entry.ids + 1], entry.events[#entry.events + 1] = ev:id(), ev
  if self.leader_of[cpu] then
    try_as(entry.name, ev:set_output(self.leader_of[cpu]))
  else
    try(argument.call_as_argument(2, "", ev.map, ev, {pages = self.opts.pages}))
    self.leaders[#self.leaders + 1], self.leader_of[cpu] = ev, ev
  end
  return ev
end

-- Forget all events; those of an earlier attempt are closed.
function Session:begin_opening()
  self.events, self.fds, self.leaders, self.leader_of = {}, {}, {}, {}
  for _, entry in ipairs(self.prepared) do entry.ids, entry.events, entry.told = {}, {}, {} end
end

-- Open all events for one thread. Returns an object that closes them; or nil, message, code if the thread has ended.
function Session:open_thread(tid)
  local opened, ended = {}, nil
  for _, cpu in ipairs(host.cpus "online" or {0}) do
    for _, entry in ipairs(self.prepared) do
      local ev, code = self:open_one(entry, tid, cpu)
      if ev then opened[#opened + 1] = ev end
      ended = ended or code == "ESRCH"
    end
  end
  if ended and #opened == 0 then return nil, "the thread has ended", "ESRCH" end
  function opened.close()
    for _, ev in ipairs(opened) do ev:close() end
  end
  return opened
end

function Session:open(pids)
  self.hybrid = false
  for _, entry in ipairs(self.prepared) do
    for _, other in ipairs(self.prepared) do
      self.hybrid = self.hybrid or entry ~= other and entry.name == other.name
    end
  end
  self:begin_opening()
  if self.everyone then
    self:open_thread(EVERYONE)
  else
    try(threads.open(pids, self.opts.inherit, function(tid, opened)
      if #opened == 0 then self:begin_opening() end
      return self:open_thread(tid)
    end))
  end
  if #self.leaders == 0 then refuse("no CPU counts these events", "ESRCH") end
end

-- Copy all records from the rings to the file.
function Session:drain()
  local any = false
  for _, ev in ipairs(self.leaders) do
    local bytes, msg, code = ev:drain()
    if not bytes and code ~= "EBADMSG" then refuse(msg, code) end
    if bytes and #bytes > 0 then
      try(self.writer:write(bytes))
      any = true
    end
  end
  if any then try(self.writer:write(core.finished_round)) end
end

-- Whether the processes that were given have ended, though children of them may run on.
function Session:have_ended() return self.pids and not self.everyone and not host.any_runs(self.pids) end

-- End the present file, and begin the next one.
function Session:switch()
  try_as(self.path, catch(self.tell_lost, self))
  self:close_file()
  self.output:close()
  self.rotation:keep()
  self:create()
  self:write_state()
  try(self.output:commit())
end

-- Record until the process ends, the time is over, or a signal asks for the end; "full" if the file is complete before. A new
-- file is looked at only after it is known that the recording goes on.
function Session:run(new)
  self.deadline = self.deadline or self.opts.timeout and core.wall_ns() + self.opts.timeout * 1e9
  while true do
    local live = core.watch(self.fds, TICK)
    self:drain()
    if self.rotation and not new and self.rotation:is_full(self.writer:stats().bytes) then return "full" end
    new = false
    local ended = self.process and self.process:wait()
    if ended or live == 0 or self:have_ended() then return true end
    if core.caught_interrupt() then
      self.interrupted = core.caught_interrupt()
      return true
    end
    if self.deadline and core.wall_ns() >= self.deadline then
      self.timed_out = true
      return true
    end
  end
end

-- Write the numbers of lost samples at the end of a file: those that no earlier file has. Sets self.lost (samples),
-- self.lost_records (other records), and self.at_least if the kernel does not count losses, so that only its `lost` records are
-- known.
function Session:tell_lost()
  local trailer = core.trailer(self.prepared[1].attr)
  local sums = {0, 0}
  self.told = self.told + self.writer._writer:state().lost
  for _, entry in ipairs(self.prepared) do
    for i, ev in ipairs(entry.events) do
      local lost, detail = ev:lost()
      self.at_least = self.at_least or detail.at_least
      sums[entry.tracks and 2 or 1] = sums[entry.tracks and 2 or 1] + lost
      local new = (detail.kernel or 0) - (entry.told[i] or 0)
      if new > 0 and not entry.tracks then
        try(self.writer:write(synthesize.lost_samples(entry.ids[i], new, trailer)))
        entry.told[i] = detail.kernel
      end
    end
  end
  self.lost, self.lost_records = sums[1], sums[2]
  local untold = sums[1] + sums[2] - self.told
  if self.at_least then
    self.lost, self.lost_records = self.told, nil
  elseif sums[2] > 0 and untold > 0 then -- the kernel would report these with the next record
    try(self.writer:write(synthesize.lost(self.leaders[1]:id(), untold, trailer)))
    self.told = self.told + untold
  end
  return true
end

-- Close a file, which is complete.
function Session:close_file()
  try(self.writer:close())
  local stats = self.writer:stats()
  self.samples, self.bytes = self.samples + stats.samples, self.bytes + stats.bytes
end

-- End the command if it still runs, and take what is left in the rings.
-- @return true; the command's status, or nil
function Session:finish()
  local status
  if self.process then
    status = self.process:wait()
    if not status and not (self.interrupted or self.timed_out) then status = self.process:wait(true) end
    status = status or ask_to_end(self.process)
  end
  for _, ev in ipairs(self.events) do ev:disable() end
  self:drain()
  self:tell_lost()
  return true, status or nil
end

local function features_of(prepared)
  local tracepoints = {}
  for _, entry in ipairs(prepared) do
    if entry.attr.type == "tracepoint" or entry.attr.type == 2 then tracepoints[#tracepoints + 1] = entry.name end
  end
  if #tracepoints == 0 then return nil end
  return late("perf.data.tracing_data").data(tracepoints)
end

-- The path and mode for writing the file: beside the file that it will replace. It takes that file's place once the program
-- runs, so that a failed start does not destroy an older recording.
function Session:place(path, mode)
  if mode ~= "replace" then return path, mode end
  self.output = try(core.output(path))
  local place = self.output:place()
  return place, place == path and "overwrite" or mode -- write into a device
end

function Session:create()
  local path, opts = self.opts.output, {events = self.prepared, mode = self.opts.mode}
  opts.build_ids, opts.tracing_data = self.opts.build_ids, features_of(self.prepared)
  local place
  place, opts.mode = self:place(path, opts.mode)
  local writer = try(data_create.create(place, opts))
  self.writer, self.path, writer.path = writer, path, path
  local function write(bytes) try(writer:write(bytes)) end
  state.kernel(write, core.trailer(self.prepared[1].attr))
end

-- The files of the option switch_output.
function Session:rotated()
  local path = self.opts.output
  if self.output:place() == path then refuse(path .. ": option 'switch_output': it is not a regular file", "EINVAL") end
  return rotation.new(path, self.opts.switch_output, self.opts.switch_max_files)
end

-- Write the state of the processes that run.
function Session:write_state()
  local trailer = core.trailer(self.prepared[1].attr)
  local function write(bytes) try(self.writer:write(bytes)) end
  if self.everyone then return state.everyone(write, trailer) end
  local pids = self.pids or {self.process:pid()}
  for _, pid in ipairs(self.opts.inherit and host.with_descendants(pids) or pids) do
    state.process(write, pid, trailer)
  end
end

-- Enable the tracker, or the other events.
function Session:enable(tracks)
  for _, entry in ipairs(self.prepared) do
    for _, ev in ipairs((entry.tracks or false) == tracks and entry.events or {}) do try(ev:enable()) end
  end
end

local Result = {}
function Result:__tostring()
  return ("%s: %s samples, %s%s lost, %s bytes"):format(self.path, self.samples, self.at_least and "at least " or "", self.lost,
    self.bytes)
end

-- Make the recording; the caller closes everything that is open.
local function record(self, argv)
  local run = argv or self.opts.during
  if run then self.process = try(core.spawn(run)) end
  self:open(self.pids or {self.process:pid()})
  self:create()
  if self.opts.switch_output then self.rotation = self:rotated() end
  if self.pids then
    self:enable(true)
    self:write_state()
    self:enable(false)
  end
  if run then
    local ok, msg, code = self.process:start()
    if not ok then
      if not self.output and self.writer._writer:state().regular then os.remove(self.path) end
      refuse(("%s: %s"):format(brief(run[1]), msg), code)
    end
    self.begun = true
  end
  if self.output then try(self.output:commit()) end
  local switched = false
  while try_as(self.path, catch(self.run, self, switched)) == "full" do
    self:switch()
    switched = true
  end
  local _, status = try_as(self.path, catch(self.finish, self))
  self:close_file()
  return setmetatable({path = self.path, files = self.rotation and self.rotation:files(), samples = self.samples,
    lost = self.lost, lost_records = self.lost_records, at_least = self.at_least, bytes = self.bytes,
    status = status and (status.exit or 128 + status.signal), signal = status and status.signal,
    interrupted = self.interrupted, timed_out = self.timed_out}, Result)
end

local function run_session(argv, pids, opts)
  local prepared = prepare(try(resolve(opts.events)), opts, argv ~= nil)
  local self = setmetatable({opts = opts, prepared = prepared, pids = pids, everyone = pids and pids[1] == EVERYONE, events = {},
    told = 0, samples = 0, bytes = 0}, Session)
  try_as("perf.record: another recording of this process is running", core.catch_interrupts())
  local ok, result = pcall(record, self, argv)
  if not ok then self:abandon() end
  self:close()
  if self.writer and not ok then self.writer._writer:close() end
  core.release_interrupts(not ok) -- an error does not report the signal, so the signal has its effect
  if not ok then error(result, 0) end
  result.interrupted = core.caught_interrupt() -- the signal may have come while the file was completed
  return result
end

--- Record a command or running processes into a perf.data file, with all threads and children, a command from its first
-- instruction: `perf report`, `perf script` and `perf.data.open` read the file. Returns when the command or all processes have
-- ended; SIGINT, SIGTERM, SIGHUP and SIGQUIT end the recording but not the caller, and the file is complete. An old file is
-- replaced when the program runs.
-- @tparam table|string|integer command an array of a program and its arguments, a string for the shell, a process id, an array
-- of them, or -1: every process, until the timeout or a signal
-- @tparam[opt] table options
-- @treturn table `{path=, files=, samples=, lost=, lost_records=, at_least=, bytes=, status=, signal=, interrupted=,
-- timed_out=}`: `files`, with `switch_output`, the kept files, the oldest first (the numbers are those of all); `lost`
-- the samples lost because a ring was full (`samples` + `lost` is the number of all samples), `lost_records` the lost records of
-- programs, maps and processes; `at_least` true: the kernel is older than Linux 6.0 and does not count losses, so `lost` is a
-- lower bound; `status` the exit status, 128 + a signal; `interrupted` a signal's number
-- @fails
-- @usage local r = assert(perf.record({"make"}, {call_graph = true, output = "make.data"}))
function recorder.record(what, opts)
  local argv, pids = check_target(what)
  opts = check_options(opts, 2)
  if opts.during and argv then bad(2, "option 'during': only with a process id or -1") end
  if opts.switch_output and opts.mode ~= "replace" then bad(2, "option 'switch_output': only with the mode replace") end
  if opts.switch_max_files and not opts.switch_output then bad(2, "option 'switch_max_files': only with 'switch_output'") end
  if what == EVERYONE then
    opts.inherit = false -- every process includes the children
  end
  local result, msg, code = catch(run_session, argv, pids, opts)
  if result then return result end
  return nil, msg, code
end

return recorder
