-- tools/reference.lua, which finds the docstrings and compares them with the table of the API, on a small tree of sources.
-- Once: it checks a tool.
local util = require "spec.support.util"

local root = util.shell("pwd"):match "%S+"

local tree = {
  ["tools/components.txt"] = "event: # opening",
  ["config.ld"] = "",
  ["doc/openresty.md"] = "Name\n====\n\nMethods\n",
  ["lua/resty/perf.lua"] = "",
  ["lua/perf/init.lua"] = "--- Perf.\n-- @module perf\nreturn {}",
  ["lua/perf/api/init.lua"] = [[return {{module = "event", {"open", "(name)", "Open."}}}]],
  ["lua/perf/api/options.lua"] = "return {}",
  ["lua/perf/api/classes.lua"] =
    [[return {{class = "Event", fields = {{"label", "string", "its name"}},
      {"id", "()", "The kernel's id."}, {"close", "()", "Close."}}}]],
  ["lua/perf/event/init.lua"] = [[
--- An event.
-- @classmod Event
local M = {}

--- Open one.
-- @tparam string name
-- @treturn Event @fails "EACCES"
function M.open(name) return name end

--- Close it.
function Event:close() end

-- Not public.
function Event:begin() end
return M]],
  ["csrc/binding/event/event.c"] = [[
/*** @classmod Event */

/*** The kernel's id.
 * @treturn integer
 * @since 0.2.0 */
/* A note. */
static int l_id(lua_State *L)
{
}]],
  ["spec/fault/rows.lua"] = [[
require "perf".open("x"):close()
return {{name = "perf.open"}, {name = "Event:id"}, {name = "Event:close"}}]],
}

-- The output and the status of the tool; `changes` are replacements in files, by path.
local function reference(changes, arguments)
  local text, status, page
  util.with_directory(function(dir)
    os.execute(("cd %s && mkdir -p tools doc csrc/binding/event csrc/ext lua/perf/api lua/perf/event lua/resty spec/fault")
      :format(dir))
    for path, content in pairs(tree) do
      for from, to in pairs(changes and changes[path] or {}) do
        local a, b = assert(content:find(from, 1, true))
        content = content:sub(1, a - 1) .. to .. content:sub(b + 1)
      end
      util.write_file(dir .. "/" .. path, content .. "\n")
    end
    text, status = util.shell(("cd %s && %s %s/tools/reference.lua %s"):format(dir, util.lua(), root, arguments or ""))
    if arguments == "out" then page = util.read_file(dir .. "/out/event.lua") end
  end)
  return text, status, page
end

local lua, c, api = "lua/perf/event/init.lua", "csrc/binding/event/event.c", "lua/perf/api/init.lua"
local rows = "spec/fault/rows.lua"

local function rejects(expected, changes)
  local text, status = reference(changes)
  assert.equal(1, status)
  assert.equal(expected .. "\n", text)
end

describe("the reference's check", function()
  it("accepts a tree whose public names have docstrings, and counts them", function()
    local text, status = reference(nil, "-c")
    assert.equal("1 functions, 2 methods of 1 classes\n   2  Event\n", text)
    assert.equal(0, status)
  end)

  it("rejects a public function or method without a docstring", function()
    rejects("lua/perf/api: perf.open has no docstring", { [lua] = { ["--- Open one."] = "-- Open one." } })
    rejects("lua/perf/api: Event:id has no docstring", { [c] = { ["/*** The kernel's id."] = "/* The kernel's id." } })
  end)

  it("rejects a docstring that has other words than perf.help", function()
    rejects(lua .. ":5: perf.open does not begin with its summary in perf.api: Open.", { [lua] = { ["Open one"] = "Opens one" } })
  end)

  it("rejects a docstring of an internal function", function()
    rejects(lua .. ":13: Event:begin is not in perf.api", { [lua] = { ["-- Not public."] = "--- Not public." } })
    rejects(lua .. ":5: perf.open is not in perf.api", { [api] = { ["{\"open\", \"(name)\", \"Open.\"}"] = "" } })
  end)

  it("rejects other arguments than those in the API table, and an unknown tag", function()
    local doc = { ["-- @tparam string name\n"] = "" }
    rejects(lua .. ":5: perf.open has the arguments (), but (name) in perf.api", { [lua] = doc })
    local row = { ["(name)"] = "([name], ...)" }
    rejects(lua .. ":5: perf.open has the arguments (name), but ([name, ...) in perf.api", { [api] = row })
    rejects(lua .. ":10: the tag @retrun is not known here", { [lua] = { ["Close it."] = "Close it.\n-- @retrun boolean" } })
  end)

  it("takes options from their declarations, and rejects others", function()
    local options = "lua/perf/api/options.lua"
    local row, check = { ["(name)"] = "([options])" }, 'local check = checks.options "perf.open"\n\n-- Not public.'
    local doc = { ["tparam string name"] = "tparam[opt] table options" }
    rejects(lua .. ":5: perf.open has no options in perf.api.options", { [lua] = doc, [api] = row })
    local declared = { ["{}"] = [[{["perf.open"] = {{"pid", "integer", "a process", default = 0}}}]] }
    rejects("lua/perf/api/options.lua: nothing checks the options of perf.open",
      { [lua] = doc, [api] = row, [options] = declared })
    doc["-- Not public."] = check
    local _, status, page = reference({ [lua] = doc, [api] = row, [options] = declared }, "out")
    assert.equal(0, status)
    assert.is_truthy(page:find("table options\n-- @tparam[opt] integer options.pid a process (default: 0)\n", 1, true), page)
    rejects(lua .. ":5: perf.open has options in perf.api.options, but no parameter",
      { [lua] = { ["-- Not public."] = check }, [options] = declared })
    rejects(lua .. ":13: perf.open is not in perf.api.options", { [lua] = { ["-- Not public."] = check } })
    rejects(lua .. ":13: declare options in perf.api.options, and check them by perf.api.check",
      { [lua] = { ["-- Not public."] = "error \"unknown option 'pid'\"" } })
    doc["tparam string name"] = "tparam[opt] table options\n-- @tparam integer options.pid a process"
    rejects(lua .. ":5: perf.open: options belong in perf.api.options", { [lua] = doc, [api] = row, [options] = declared })
  end)

  it("rejects a public function or method that make faults does not call", function()
    rejects("spec/fault/rows: Event:id has no row", { [rows] = { ["Event:id"] = "Event:fd" } })
  end)

  it("reads the functions of resty.perf from the guide", function()
    local guide = { ["doc/openresty.md"] = { ["Methods"] = "Methods\n=======\n\nstart, stop\n-----------" },
      [rows] = { ["{{"] = '{{name = "resty.perf.start"}, {name = "resty.perf.stop"}, {' } }
    local text, status = reference(guide)
    assert.equal(1, status)
    assert.equal("lua/perf/api: resty.perf.start has no docstring\nlua/perf/api: resty.perf.stop has no docstring\n", text)
    guide["lua/resty/perf.lua"] = { [""] = "--- Begin or end.\n-- @function resty.perf.start, resty.perf.stop\n" }
    assert.equal("", (reference(guide)))
  end)

  it("writes a page for each component, with errors and versions", function()
    local _, status, page = reference(nil, "out")
    assert.equal(0, status)
    local expected = [[
--- Opening.
-- @module event

--- Open one.
-- @function perf.open
-- @tparam string name
-- @treturn[1] Event
-- @treturn[2] nil
-- @treturn[2] string the message
-- @treturn[2] string the errno's name: "EACCES"
-- @since 0.1.0

--- An event.
--
-- Fields:
--
-- * `label` (string): its name
-- @type Event

--- Close it.
-- @function close
-- @since 0.1.0

--- The kernel's id.
-- @function id
-- @treturn integer
-- @since 0.2.0

]]
    assert.equal(expected, (page:gsub("%-%- \n", "--\n")))
  end)
end)

-- The options that the reference has of each function of perf that takes a table of them.
local function documented_options()
  local found = {}
  util.with_directory(function(dir)
    local text, status = util.shell(("%s tools/reference.lua %s/out"):format(util.lua(), dir))
    if status ~= 0 then error(text) end
    local name
    for line in util.shell("cat " .. dir .. "/out/*.lua"):gmatch "[^\n]+" do
      name = line:match "^%-%- @function (%S+)" or name
      local option = line:match "^%-%- @tparam%S* %S+ options%.([%w_]+)"
      if option and name:find "^perf%." then
        found[name] = found[name] or {}
        table.insert(found[name], option)
      end
    end
  end)
  return found
end

describe("the reference's options", function()
  local perf = require "perf"
  local function nothing() end
  -- How to call each function with options, so that a wrong option is found before anything is done.
  local call = {
    ["perf.bench"] = function(o) perf.bench(nothing, o) end,
    ["perf.compare"] = function(o) perf.compare({ a = nothing, b = nothing }, o) end,
    ["perf.group"] = function(o) perf.group("page-faults:u", o) end,
    ["perf.open"] = function(o) perf.open("page-faults:u", o) end,
    ["perf.set"] = function(o) perf.set("page-faults:u", o) end,
    ["perf.record"] = function(o) perf.record({ "true" }, o) end,
    ["perf.observe"] = function(o) perf.observe({ start_span = nothing }, o) end,
    ["perf.data.create"] = function(o) perf.data.create("/nonexistent/perf.data", o) end,
    ["perf.exporter.zipkin"] = function(o) perf.exporter.zipkin(o) end,
    ["perf.profile"] = function(o) perf.profile(o, nothing) end,
    ["perf.exporter.otlp"] = function(o) perf.exporter.otlp(o) end,
    ["perf.bpf.load"] = function(o) perf.bpf.load("/nonexistent/bpf.o", o) end,
    ["perf.symbols.open"] = function(o) perf.symbols.open(o) end,
    ["perf.tracefields.parse"] = function(o) perf.tracefields.parse("", o) end,
  }

  it("are known to the functions", function()
    local checked, wrong = 0, coroutine.create(nothing)
    for name, options in pairs(documented_options()) do
      local fn = call[name] or perf[name:match "^perf%.([%w_]+)$"] or error("how is this called with options: " .. name)
      for _, option in ipairs(options) do
        local ok, message = pcall(fn, { [option] = wrong })
        if not ok then assert.not_matches("unknown", message) end
        checked = checked + 1
      end
    end
    assert.is_true(checked > 80, checked)
  end)
end)
