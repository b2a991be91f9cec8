-- The story: the methods of Counts, and the text of results and of mistakes, are loaded when a program first uses them. After a
-- chroot, with another package.path, or without a free descriptor, a program measured but could not read its Counts: "module
-- 'perf.counts' not found", or "a part of lua-perf cannot be loaded". A mistake was shown without its position. These modules are
-- also built into perf.core. But the text of an Event's fields was not; and a program that replaced the table of searchers
-- removed the one that finds what is built in.
-- Later: perf.event.refusal, which explains that no descriptor is left, is loaded when it is needed, and is built in too.
local kit = require "testkit"

-- Each way makes it impossible to load a module from its file.
local WAYS = {
  ["another package.path"] = "package.path, package.cpath = '/nonexistent/?.lua', ''",
  ["another package.path and searchers"] = [[
    package.path, package.cpath = "/nonexistent/?.lua", ""
    local key = package.searchers and "searchers" or "loaders"
    package[key] = { package[key][1], package[key][2] }]],
  ["no free descriptor"] = [[
    local taken, limit = kit.fds(), 0
    while taken[limit] do limit = limit + 1 end
    local soft = kit.rlimit "nofile"
    kit.rlimit("nofile", limit)
    function restore() kit.rlimit("nofile", soft) end]],
}

-- Uses in a new Lua state, after objects are opened.
local STATE = [[
  local perf, kit = require "perf", require "testkit"
  local function touch() kit.touch_pages(64) end
  function restore() end
  local attr = { event = "page-faults", sample_period = 1, sample_type = { "ip", "tid" } }
  %s
  %s
  local ok, result = pcall(function() %s end)
  restore()
  assert(ok, result)
  return tostring(result)
]]

local MEASURED = "local c = perf.measure(touch); perf.release()" -- so no idle list can be closed to free a descriptor

local USES = {
  { "an index", MEASURED, "return c['page-faults'] == c:totable().counts['page-faults']", "^true$" },
  { "a loop", MEASURED, "for _, entry in ipairs(c) do return entry.label end", "^[%l-]+$" },
  { "text", MEASURED, "return tostring(c)", "page%-faults" },
  { "arithmetic", MEASURED, "return (c - c)['page-faults']", "^0$" },
  { "ratios", MEASURED, "return type(c:metrics())", "^table$" },
  { "JSON", MEASURED, "return c:json()", '"page%-faults":' },
  { "a mistake", MEASURED, "return select(2, pcall(function() return c.json(1) end))",
    ":%d+: bad argument #1 to 'json' %(Counts expected, got number%)$" },
  { "a misspelt name", "", "return select(2, pcall(function() return perf.mesure end))",
    ":%d+: perf has no 'mesure'; did you mean 'measure'%?$" },
  { "the fields of an Event", "local ev = perf.open(attr)", "return tostring(ev:attr())", "sample_period" },
  { "the end of a region", "local region = perf.start(); touch()", "return tostring(region:stop())", "page%-faults" },
  { "records of an Event", "local ev = perf.open(attr); ev:map { pages = 8 }; ev:measure(touch)",
    "local record; for r in ev:records() do record = record or r end; return record", "page%-faults: sample " },
  { "records by fields", "local ev = perf.open(attr); ev:map { pages = 8 }; ev:measure(touch)",
    "for _, tid in ev:each('sample', 'tid', { max = 1 }) do return type(tid) end", "^number$" },
  { "records of a Group", "local g = perf.group { attr, 'task-clock' }; g:map { pages = 8 }; g:measure(touch)",
    "return g:read_record()", "page%-faults: sample " },
}

describe("a first use while no file can be read", function()
  for way, code in pairs(WAYS) do
    for _, row in ipairs(USES) do
      local name, before, use, pattern = row[1], row[2], row[3], row[4]
      it(("%s: %s"):format(way, name), function()
        requires { perf_open = true }
        local ok, text = kit.state(STATE:format(before, code, use))
        assert.is_true(ok, text)
        assert.matches(pattern, text)
      end)
    end
  end

  it("explains that no descriptor is left", function()
    requires { perf_open = true }
    local before = "perf.measure('task-clock', touch); perf.release()"
    local ok, text = kit.state(STATE:format(before, WAYS["no free descriptor"],
      "return select(2, pcall(perf.measure, 'context-switches', touch))"))
    assert.is_true(ok, text)
    assert.matches("RLIMIT_NOFILE.* %[EMFILE%]$", text)
  end)
end)
