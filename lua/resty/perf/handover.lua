-- Passes the counts of ended workers to the workers of another master: during a binary upgrade (SIGUSR2) two masters run, and
-- each has a separate shared dictionary.
--
-- The counts pass through a file without a name that the first master opens in init_by_lua. Its workers inherit the descriptor,
-- and so does the new master that it executes, since the descriptor stays open across exec. A worker that ends while another
-- master runs appends its counts, and any worker that counts the same events adds them to its own. The file:
--
--   MASTERS doubles      process ids of the masters that have had workers
--   a double             the number of entries that were appended
--   entries              "LENGTH LENGTH\n", the tag, the text
--
-- A record lock (fcntl) protects the file: the kernel releases it when its owner ends.
local ffi = require "ffi"

ffi.cdef [[
int perf_resty_memfd(const char *name, unsigned flags) __asm__("memfd_create");
int perf_resty_fcntl(int fd, int command, ...) __asm__("fcntl");
long perf_resty_pread(int fd, void *to, size_t n, long at) __asm__("pread");
long perf_resty_pwrite(int fd, const void *from, size_t n, long at) __asm__("pwrite");
int perf_resty_truncate(int fd, long size) __asm__("ftruncate");
long perf_resty_seek(int fd, long at, int whence) __asm__("lseek");
long perf_resty_readlink(const char *path, char *to, size_t n) __asm__("readlink");
int perf_resty_usleep(unsigned us) __asm__("usleep");
int perf_resty_kill(int pid, int signal) __asm__("kill");
int perf_resty_getppid(void) __asm__("getppid");
]]
local C = ffi.C

local M = {}

local ESRCH = 3
local NAME, MASTERS, MOST_FILES = "lua-perf", 16, 1024
local LARGEST = 16 * 2 ^ 20 -- bytes; beyond that, entries that no worker has taken are dropped
local HEAD = 8 * (MASTERS + 1)
local TRIES, PAUSE = 200, 5000 -- attempts to get the lock; the microseconds between them
local SETFD, CLOEXEC, SETLK, WRITE_LOCK, UNLOCK, END_OF_FILE = 2, 1, 6, 1, 2, 2

local fd -- nil: there is no file
local mine = 0 -- this worker's master
local examined = {} -- the number of entries when a tag was last looked for

local head = ffi.new("double[?]", MASTERS + 1) -- head[MASTERS]: the number of entries

-- Whether a process exists.
function M.is_alive(pid) return C.perf_resty_kill(pid, 0) == 0 or ffi.errno() ~= ESRCH end

-- Whether a number is the process id of a worker of this master. Without /proc, whether the process exists.
function M.is_worker(pid)
  if not (pid >= 1 and pid < 2 ^ 31 and pid % 1 == 0 and M.is_alive(pid)) then return false end
  local f = io.open(("/proc/%d/stat"):format(pid))
  local text = f and f:read "*a"
  if f then f:close() end
  return not text or tonumber(text:match ".*%) %a (%d+)") == C.perf_resty_getppid()
end

local function is_master(pid) return pid > 0 and M.is_alive(pid) end

local function read_head() return C.perf_resty_pread(fd, head, HEAD, 0) == HEAD end
local function write_head() C.perf_resty_pwrite(fd, head, HEAD, 0) end

local flock = ffi.new "short[16]" -- a struct flock begins with the kind; zeros stand for the whole file

local function set_lock(kind)
  flock[0] = kind
  return C.perf_resty_fcntl(fd, SETLK, flock) == 0
end

-- Call f with the file locked. Returns its result; false if the lock is not available after so many tries.
local function locked(tries, f, ...)
  while not set_lock(WRITE_LOCK) do
    tries = tries - 1
    if tries <= 0 then return false end
    C.perf_resty_usleep(PAUSE)
  end
  local ok, result = pcall(f, ...)
  set_lock(UNLOCK)
  return ok and result
end

local function inherited()
  local to = ffi.new "char[64]"
  for n = 3, MOST_FILES - 1 do
    local length = C.perf_resty_readlink("/proc/self/fd/" .. n, to, 64)
    if length > 0 and ffi.string(to, length) == "/memfd:" .. NAME .. " (deleted)" then return n end
  end
end

-- Open the file, or find it: in the master, before it starts workers.
function M.prepare()
  local ok, n = pcall(function() return inherited() or C.perf_resty_memfd(NAME, 0) end)
  if not (ok and n >= 0) then return end -- an old system; upgrades then begin new sums
  fd = n
  if not read_head() then write_head() end
end

local function join()
  if not read_head() then return false end
  local place
  for i = 0, MASTERS - 1 do
    if head[i] == mine then return true end
    if not place and not is_master(head[i]) then place = i end
  end
  if not place then return false end
  head[place] = mine
  write_head()
  return true
end

-- Note that this worker's master has workers. Programs that the worker executes do not inherit the file.
function M.join()
  if not fd then return end
  mine = C.perf_resty_getppid()
  C.perf_resty_fcntl(fd, SETFD, ffi.cast("int", CLOEXEC))
  locked(TRIES, join)
end

-- Whether another master runs.
function M.is_upgrade()
  if not (fd and read_head()) then return false end
  for i = 0, MASTERS - 1 do
    if head[i] ~= mine and is_master(head[i]) then return true end
  end
  return false
end

local function size() return tonumber(C.perf_resty_seek(fd, 0, END_OF_FILE)) end

local function read_entries()
  local n = size() - HEAD
  local to = ffi.new("char[?]", n + 1)
  return ffi.string(to, math.max(0, tonumber(C.perf_resty_pread(fd, to, n, HEAD))))
end

-- An iterator over entries: gives tag, text, the entry's first and last place.
local function entries(all)
  local at = 1
  return function()
    local tag, length, from = all:match("^(%d+) (%d+)\n()", at)
    if not tag then return nil end
    local first, middle = at, from + tag
    at = middle + length
    return all:sub(from, middle - 1), all:sub(middle, at - 1), first, at - 1
  end
end

local function append(tag, text)
  if not read_head() then return false end
  local entry = ("%d %d\n"):format(#tag, #text) .. tag .. text
  local at = size()
  if at + #entry > LARGEST then at = HEAD end
  if C.perf_resty_pwrite(fd, entry, #entry, at) ~= #entry or C.perf_resty_truncate(fd, at + #entry) ~= 0 then return false end
  head[MASTERS] = head[MASTERS] + 1
  write_head()
  return true
end

-- Append an entry. Returns whether it is in the file.
-- @param tag the kind of the text, a string
function M.give(tag, text) return fd ~= nil and locked(TRIES, append, tag, text) end

local function remove(tag)
  if not read_head() then return nil end
  local taken, rest = {}, {}
  local all = read_entries()
  for its_tag, text, first, last in entries(all) do
    if its_tag == tag then taken[#taken + 1] = text else rest[#rest + 1] = all:sub(first, last) end
  end
  if #taken > 0 then
    rest = table.concat(rest)
    C.perf_resty_truncate(fd, HEAD)
    if C.perf_resty_pwrite(fd, rest, #rest, HEAD) ~= #rest then return nil end
  end
  examined[tag] = head[MASTERS]
  return taken
end

-- Take the entries with a tag out of the file: an array of texts. If another worker uses the file just now, they come later.
function M.take(tag)
  if not (fd and read_head()) or head[MASTERS] == (examined[tag] or 0) then return {} end
  return locked(1, remove, tag) or {}
end

return M
