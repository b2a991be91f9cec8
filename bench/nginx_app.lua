-- Handlers of bench/nginx.lua.
local ffi = require "ffi"
local app = require "spec.nginx.app"

local text = ("the quick brown fox jumps over the lazy dog "):rep(75)

--- Work of about 100 us, as in typical handlers: strings, tables, patterns.
function app.work()
  local seen, n = {}, 0
  for word in text:gmatch "%a+" do
    if not seen[word] then seen[word], n = true, n + 1 end
  end
  ngx.say(n, " ", ngx.md5(text), " ", #text:gsub("o", "00"))
end

function app.empty() ngx.print "x" end

local json = require "perf.base.json"
local items = {}
for i = 1, 20 do items[i] = { id = i, name = "item " .. i, price = i * 1.25, tags = { "a", "b" } } end
local document = json.encode { items = items }

--- Decodes 1 KiB of JSON.
function app.json() ngx.print(#json.decode(document).items) end

--- Sixteen yields.
function app.yields()
  for _ = 1, 16 do ngx.sleep(0) end
  ngx.print "x"
end

function app.call(handler) return handler() end

-- The floor: only the readings that resty.perf makes.
ffi.cdef "ssize_t read(int fd, void *at, size_t n);"
local descriptors, space = {}, ffi.new "char[4096]"

local function read()
  for _, fd in ipairs(descriptors) do ffi.C.read(fd, space, 4096) end
end

--- Opens the events that perf.start opens, to be read only by the handlers.
-- @param[opt] only_around true: there are no readings around ngx.sleep
function app.open(only_around)
  app.set = assert(require "resty.perf.worker_events".open())
  for i, group in ipairs(app.set.groups) do
    group:enable()
    descriptors[i] = group:fd()
  end
  if only_around then return end
  local sleep = ngx.sleep
  rawset(ngx, "sleep", function(seconds)
    read()
    sleep(seconds)
    read()
  end)
end

function app.read_around(handler)
  read()
  handler()
  read()
end

--- The cost of one reading of the worker's events, in ns: a turn that ends and continues needs two.
function app.readings()
  local accounting, request = require "resty.perf.accounting", require "resty.core.base".get_request
  local n, best = 20000, math.huge
  for _ = 1, 9 do
    local from = os.clock()
    for _ = 1, n do
      local r = request()
      accounting.back(r, accounting.leave(r), 0)
    end
    best = math.min(best, (os.clock() - from) / n / 2 * 1e9)
  end
  ngx.say(best)
end

function app.collect()
  collectgarbage()
  collectgarbage()
  ngx.say "done"
end

return app
