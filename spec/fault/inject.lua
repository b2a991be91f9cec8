--- Makes a public function fail in every way in which a machine can make it fail, and checks that it keeps the contract.
--
-- A row (spec/fault/rows/*.lua) is one function in use:
--
--     name      "perf.open", "Event:read" ...: the name that table_spec.lua finds by walking the module
--     setup     makes what the function needs, before anything fails; its result is given to run. Closed afterwards.
--     run       calls the function and returns its results; what has a close method is closed afterwards
--     raises    it raises its errors, since its results are the function's (perf.measure and the like)
--     survives  words: system calls whose failure it need not report, since it has an alternative, or call:ERRNO. Failures of
--               close and munmap are never reported: nothing is lost.
--     codes     {call = code}: the code that it returns instead of the errno; "any"; nofile = code if descriptors run out
--     again     false: an object does it only once, and each attempt gets a new one
--     children  it starts processes, and must leave none
--     needs     for `requires`
--     slow      takes seconds, not milliseconds: fewer places are tried
--
-- After each failure: the result is nil, message, code, or the message raised; no descriptor, no mapping and no child process
-- is left; and the same call on the same object works.
local core = require "perf.core"
local kit = require "testkit"
local leaks = require "spec.support.leaks"
local util = require "spec.support.util"

local inject = {}

local function outcome(ok, ...) return { ok = ok, ... } end

--- The plausible errors of each call.
inject.errnos = {
  perf_event_open = { "EACCES", "EPERM", "ENOENT", "EINVAL", "EMFILE", "ENOSPC", "ENOSYS", "EOPNOTSUPP", "ENODEV", "EBUSY",
    "E2BIG", "ENOMEM", "ESRCH" },
  ioctl = { "EINVAL", "ENOTTY", "ENOMEM", "EPERM" },
  read = { "EIO", "EINTR", "ENOMEM" },
  close = { "EIO", "EINTR" },
  mmap = { "EPERM", "ENOMEM", "EAGAIN", "EINVAL" },
  munmap = { "EINVAL" },
  mremap = { "ENOMEM", "EAGAIN" },
  poll = { "EINTR", "ENOMEM" },
  open = { "ENOENT", "EACCES", "EMFILE", "ENFILE", "ELOOP", "EINTR" },
  pread = { "EIO", "EINTR", "EPERM" },
  write = { "ENOSPC", "EIO", "EINTR", "EDQUOT" },
  write_now = { "EAGAIN", "EPIPE", "EINTR" },
  pwrite = { "ENOSPC", "EIO", "EINTR" },
  fstat = { "EIO", "EOVERFLOW" },
  unlink = { "EACCES", "EROFS" },
  rename = { "EACCES", "ENOSPC", "EXDEV" },
  pipe = { "EMFILE", "ENFILE" },
  fork = { "EAGAIN", "ENOMEM" },
  clone = { "EAGAIN", "ENOMEM" },
  memfd_create = { "EMFILE", "ENOMEM" },
  waitpid = { "ECHILD", "EINTR" },
  kill = { "EPERM", "ESRCH" },
  fcntl = { "EINVAL", "EBADF" },
  process_vm_readv = { "EPERM", "ESRCH", "EFAULT", "ENOMEM" },
  bpf = { "ENOMEM", "E2BIG", "EPERM" },
}

--- Places of a kind that are tried in a row, and in a slow one; FAULTS=100000 in the environment: all.
inject.many = tonumber(os.getenv "FAULTS" or "") or 40
inject.few = math.ceil(inject.many / 10)

--- The calls in a fixed order.
inject.calls = {}
for call in pairs(inject.errnos) do inject.calls[#inject.calls + 1] = call end
table.sort(inject.calls)

local function words(text)
  local set = {}
  for w in (text or ""):gmatch "%S+" do set[w] = true end
  return set
end

-- Closes the objects that modules keep open between calls on purpose.
local function release()
  for name, module in pairs(package.loaded) do
    if type(name) == "string" and name:find "^perf" and type(module) == "table" then
      local fn = rawget(module, "_release")
      if fn then fn() end
    end
  end
end

local function collect()
  collectgarbage()
  collectgarbage()
end

-- Threads, descriptors and rings as one text: their kinds, without their numbers, which a thread may take in another order.
local function held()
  local list = {}
  for _, what in pairs(kit.fds()) do list[#list + 1] = what:gsub("%[%d+%]", "") end
  for _, ring in ipairs(kit.rings()) do list[#list + 1] = "ring " .. tostring(ring.size) end
  table.sort(list)
  return kit.living_threads() .. " threads, " .. table.concat(list, " ")
end

local function close(object)
  local t = type(object)
  if t ~= "userdata" and t ~= "table" then return end
  local ok, method = pcall(function() return object.close end)
  if ok and type(method) == "function" then object:close() end
end

-- Closes the results of a run and the objects that modules keep.
local function tidy(r)
  if r.ok then close(r[1]) end
  release()
end

--- One row under test: runs it, and compares what it leaves.
local Trial = {}
Trial.__index = Trial

function inject.trial(row)
  local t = setmetatable({ row = row, survives = words(row.survives), found = {}, faults = 0, refused = 0, survived = 0 }, Trial)
  t.object = row.setup and row.setup()
  -- Runs twice without a fault, so that modules are loaded and caches filled; the objects that it then holds are allowed. Each
  -- result is closed at once: when the collector would close it depends on what LuaJIT compiles.
  for i = 1, 2 do
    if i > 1 then tidy(t.normal) end
    if i > 1 and row.again == false then t:anew() end
    t.normal = t:run()
  end
  if not t.normal.ok then error(row.name .. " fails without a fault: " .. tostring(t.normal[1]), 0) end
  if t.normal[1] == nil and t.normal[2] ~= nil then
    error(row.name .. " fails without a fault: " .. tostring(t.normal[2]), 0)
  end
  tidy(t.normal)
  if row.again == false then t:anew() end
  collect()
  release()
  t.before, t.threads = held(), kit.living_threads()
  return t
end

function Trial:run()
  return outcome(pcall(self.row.run, self.object))
end

function Trial:fail(where, text)
  if #self.found < 5 then
    self.found[#self.found + 1] = ("%s, %s: %s"):format(self.row.name, where, text)
  end
end

-- Replaces the object that was used by a new one.
function Trial:anew()
  close(self.object)
  self.object = self.row.setup and self.row.setup()
end

-- Checks that descriptors, rings and children are unchanged, and that the same call works now.
function Trial:check_after(where)
  if self.row.again == false then self:anew() end
  if held() ~= self.before then
    collect()
    release()
    if held() ~= self.before then
      leaks.flush()
      collect()
    end
    -- A thread that was refused memory before anything could wait for it ends by itself, a little later.
    if kit.living_threads() > self.threads then util.eventually(function() return kit.living_threads() == self.threads end) end
    local now = held()
    if now ~= self.before then
      self:fail(where, "leaves open: " .. now .. "; before: " .. self.before)
      self.before = now
    end
  end
  if self.row.children and kit.orphans() > 0 then self:fail(where, "leaves a child process") end
  local r = self:run()
  if not r.ok or (self.normal[1] ~= nil and r[1] == nil) then
    self:fail(where, "and the next call fails: " .. tostring(r.ok and r[2] or r[1]))
    self:anew()
  end
  tidy(r)
  if self.row.again == false then self:anew() end
end

-- Whether an error's text contains this errno, as a name or in words.
local function tells(text, code)
  text = tostring(text)
  return text:find(code, 1, true) or text:find(inject.text[code], 1, true)
end

inject.text = setmetatable({}, { __index = function(t, code)
  core.fault("open", code)
  local _, message = core.data_open "/nonexistent"
  core.fault()
  t[code] = message:match ": ([^:]+)$"
  return t[code]
end })

--- Checks that the outcome of a call in which `what` failed with `code` keeps the contract.
function Trial:judge(where, what, code, r)
  self.faults = self.faults + 1
  local row = self.row
  local want = row.codes and row.codes[what] or code
  if not r.ok then
    if row.raises and tells(r[1], code) then
      self.refused = self.refused + 1
    else
      self:fail(where, "raises: " .. tostring(r[1]))
    end
  elseif r[1] == nil and self.normal[1] ~= nil then
    if type(r[2]) ~= "string" or type(r[3]) ~= "string" then
      self:fail(where, ("returns nil, %s, %s"):format(tostring(r[2]), tostring(r[3])))
    elseif r[3] ~= want and want ~= "any" then
      self:fail(where, ("code %s; %s"):format(r[3], r[2]))
    else
      self.refused = self.refused + 1
    end
  elseif self.survives[what] or self.survives[what .. ":" .. code] or code == "EINTR"
    or what == "nofile" or what == "close" or what == "munmap" then
    self.survived = self.survived + 1
  else
    self:fail(where, "says nothing of it")
  end
end

-- About `most` of 1 .. n, including the first ones.
local function places(n, most)
  local list, i = {}, 1
  while i <= n do
    list[#list + 1] = i
    i = i + (#list < most / 2 and 1 or math.max(1, math.floor((n - most / 2) / (most / 2)) + 1))
  end
  return list
end

--- Makes every system call of the row fail, at every place, with every errno.
function Trial:system_calls(most)
  for _, call in ipairs(inject.calls) do
    core.fault(call, "EIO", 2 ^ 30)
    local r = self:run()
    local n = core.fault()
    tidy(r)
    if self.row.again == false then self:anew() end
    for _, place in ipairs(places(n, most)) do
      for _, code in ipairs(inject.errnos[call]) do
        core.fault(call, code, place - 1)
        r = self:run()
        local seen = core.fault()
        local where = ("%s %d of %d: %s"):format(call, place, n, code)
        -- If this run made fewer calls, nothing failed.
        if seen >= place then self:judge(where, call, code, r) end
        tidy(r)
        self:check_after(where)
      end
    end
  end
end

-- Leaves room for `free` more descriptors.
local function with_descriptors(free, fn)
  local taken, limit = kit.fds(), 0
  while free > 0 or taken[limit] do
    if not taken[limit] then free = free - 1 end
    limit = limit + 1
  end
  local soft = kit.rlimit "nofile"
  kit.rlimit("nofile", limit)
  local r = fn()
  kit.rlimit("nofile", soft)
  return r
end

--- Makes descriptors run out at each place, by the kernel's own limit, which also affects libraries and Lua.
function Trial:descriptors(most)
  for free = 0, most do
    local r = with_descriptors(free, function() return self:run() end)
    local where = ("room for %d descriptors"):format(free)
    self:judge(where, "nofile", "EMFILE", r)
    tidy(r)
    self:check_after(where)
  end
end

--- Makes Lua's allocations fail, each place in turn: that one alone, and with all that follow.
function Trial:memory(most)
  local object = self.object
  local function use()
    return self.row.run(object)
  end
  for _, fail in ipairs { "fail_alloc", "fail_alloc_once" } do
    local n, counted, made = kit[fail](0, use)
    tidy { ok = counted, made }
    for _, place in ipairs(places(n, most)) do
      object = self.object
      local _, ok, result = kit[fail](place, use)
      local where = ("%s %d of %d"):format(fail, place, n)
      self.faults = self.faults + 1
      if ok then
        self.survived = self.survived + 1
      elseif tostring(result):find("not enough memory", 1, true) then
        self.refused = self.refused + 1
      else
        self:fail(where, "raises: " .. tostring(result))
      end
      object = nil
      tidy { ok = ok, result }
      self:check_after(where)
    end
  end
end

--- The end of a trial: closes the row's object. Returns an array of the errors found.
function Trial:finish()
  core.fault()
  close(self.object)
  self.object = nil
  release()
  return self.found
end


return inject
