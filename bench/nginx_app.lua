-- Handlers of bench/nginx.lua.
local app = require "spec.nginx.app"

local text = ("the quick brown fox jumps over the lazy dog "):rep(25)

--- Work of about 100 us, as handlers do it: strings, tables, patterns.
function app.work()
  local seen, n = {}, 0
  for word in text:gmatch "%a+" do
    if not seen[word] then seen[word], n = true, n + 1 end
  end
  ngx.say(n, " ", ngx.md5(text), " ", #text:gsub("o", "00"))
end

function app.empty() ngx.print "x" end

--- Sixteen yields of the cheapest kind: a thread is spawned and waited for.
function app.yields()
  local wait, spawn = ngx.thread.wait, ngx.thread.spawn
  for _ = 1, 8 do wait(spawn(ngx.now)) end
  ngx.print "x"
end

--- Sixteen yields to the event loop.
function app.sleeps()
  local sleep = ngx.sleep
  for _ = 1, 16 do sleep(0) end
  ngx.print "x"
end

--- What one reading of the worker's events costs, in ns: a turn that ends and goes on is two.
function app.readings()
  local ledger, request = require "resty.perf.ledger", require "resty.core.base".get_request
  local n, best = 20000, math.huge
  for _ = 1, 9 do
    local from = os.clock()
    for _ = 1, n do
      local r = request()
      ledger.back(r, ledger.leave(r), 0)
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
