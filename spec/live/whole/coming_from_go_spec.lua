--- doc/coming-from-go.md names everything that the Go packages export, and each of its lines of Lua runs.
--
-- The page's first block of Lua sets the names that the lines use; the line of a row runs after it. The needs of a row come first
-- in its remarks ("needs tracefs, root; ..."), and are passed to `requires`. Once: it checks a page, and the functions have their
-- own specs on each interpreter.
local core = require "perf.core"
local kit = require "testkit"
local go_names = require "spec.support.go_names"
local util = require "spec.support.util"

local page = util.read_file "doc/coming-from-go.md"

local needs = {
  ["a PMU"] = { pmu = true },
  ["root"] = { root = true },
  ["tracefs"] = { tracefs = true },
  ["a cgroup"] = { cgroup = true },
  ["BPF"] = { bpf = true, ext = "bpf", cmd = "clang", file = "/usr/include/bpf/bpf_helpers.h" },
  ["MSRs"] = { root = true, file = "/dev/cpu/0/msr" },
}

-- Rows by package: {go = {names}, code =, needs = {name, ...}}. "(*Event).Close" is Event.Close.
local function read_rows()
  local rows, package = {}, nil
  for line in page:gmatch "[^\n]+" do
    package = line:match "^## (.*)$" or package
    local go, code, remarks = line:match "^| (`.-`) | `(.-)` | (.*) |$"
    if go then
      local row = { package = package, go = {}, code = code, needs = {} }
      for name in go:gmatch "`(.-)`" do row.go[#row.go + 1] = (name:gsub("^%(%*(.-)%)", "%1")) end
      for need in (remarks:match "^needs ([^;(]+)" or ""):gmatch "[^,]+" do
        row.needs[#row.needs + 1] = need:match "^%s*(.-)%s*$"
      end
      rows[#rows + 1] = row
    end
  end
  return rows
end

local rows = read_rows()

local function compile(code, env)
  local name = "=" .. code
  if _G.setfenv then
    local f, message = _G.loadstring(code, name)
    return f and _G.setfenv(f, env), message
  end
  return load(code, name, "t", env)
end

local set_up = page:match "```lua\n(.-)```"

local program_text = [[
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
SEC("perf_event") int on_overflow(void *ctx) { return 0; }
char _license[] SEC("license") = "GPL";
]]

-- A descriptor with an owner, of a program that does nothing and is compiled once.
local compiled
local function load_program()
  local object
  util.with_tmpname(function(path)
    if compiled then
      util.write_file(path, compiled)
    else
      util.write_file(path .. ".c", program_text)
      local text, status = util.shell(("clang -O2 -g -target bpf -I/usr/include/%s-linux-gnu -c %s.c -o %s")
        :format((select(2, core.uname())), path, path))
      os.remove(path .. ".c")
      assert(status == 0, text)
      compiled = util.read_file(path)
    end
    object = assert(require "perf".bpf.load(path))
  end)
  return object
end

local function close(v)
  local t = type(v)
  if (t == "table" or t == "userdata") then
    local ok, method = pcall(function() return v.close end)
    if ok and type(method) == "function" then method(v) end
  end
end

local opened = { "set", "profiler", "counts", "rec", "sampled", "group", "ev", "tracer" }

-- Runs a row after the set-up and closes what either opened.
local function run(row)
  local env = setmetatable({ fn = function() kit.touch_pages(4) end }, { __index = _G })
  local object
  if row.code:find "%f[%w]program%f[%W]" then
    object = load_program()
    env.program = object:program "on_overflow"
  end
  -- Most lines need no more than the first few names.
  local objects = false
  for name in (table.concat(opened, " ") .. " span theirs"):gmatch "%a+" do
    objects = objects or row.code:find("%f[%w]" .. name .. "%f[%W]") ~= nil
  end
  assert(compile(objects and set_up or set_up:match "^(.-\n)ev =", env))()
  local f = compile("return " .. row.code, env) or assert(compile(row.code, env))
  local function finish(ok, ...)
    for i = 1, select("#", ...) do close((select(i, ...))) end
    for _, name in ipairs(opened) do
      if name ~= "rec" and name ~= "counts" then close(env[name]) end
    end
    close(object)
    return ok, ...
  end
  return finish(pcall(f))
end

-- Expressions without a first result: statements, calls without results, fields that the record does not have, mounts that do not
-- exist, and the row that shows how a refusal looks.
local function may_be_nil(code)
  for _, pattern in ipairs { "^for ", ":close%(%)$", "^fn", "^span", "^tracer", "^rec",
    "read_record", "read_raw", "^perf%.mounts",
    "set_output", '"nothing"' } do
    if code:find(pattern) then return true end
  end
  return false
end

describe("doc/coming-from-go.md", function()
  local named = {}
  for _, row in ipairs(rows) do
    named[row.package] = named[row.package] or {}
    for _, name in ipairs(row.go) do named[row.package][name] = true end
  end

  for package, names in pairs(go_names) do
    it("names everything that " .. package .. " exports, and nothing else", function()
      local missing, known = {}, {}
      for name in names:gmatch "%S+" do
        known[name] = true
        if not named[package][name] then missing[#missing + 1] = name end
      end
      assert.equal("", table.concat(missing, " "))
      for name in pairs(named[package]) do assert.is_true(known[name], package .. " has no " .. name) end
    end)
  end

  it("calls only functions that exist", function()
    requires { nostress = true }
    local perf = require "perf"
    local fields = {}
    for _, name in ipairs(core.record_fields()) do fields[name] = true end
    for _, name in ipairs { "raw_fields", "totable", "bytes" } do fields[name] = true end
    for _, row in ipairs(rows) do
      for name in row.code:gmatch "perf%.([%a_]+)" do
        if name ~= "core" then assert.is_not_nil(perf[name], "perf." .. name) end
      end
      for name in row.code:gmatch "rec[.:]([%a_]+)" do assert.is_true(fields[name], "rec." .. name) end
      assert(compile("return " .. row.code, {}) or compile(row.code, {}), row.code)
    end
  end)

  it("names existing events if a PMU is needed to count them", function()
    requires { nostress = true }
    local perf, seen = require "perf", 0
    for _, row in ipairs(rows) do
      if row.needs[1] == "a PMU" then
        for name in row.code:gmatch '"([^"]+)"' do
          assert(perf.attr(name))
          seen = seen + 1
        end
      end
    end
    assert.is_true(seen >= 60)
  end)

  it("has an explanation for each need", function()
    for _, row in ipairs(rows) do
      for _, need in ipairs(row.needs) do assert.is_table(needs[need], need) end
    end
  end)

  -- Hundreds of specs that open everything would take minutes with the collector under pressure, although each is quick.
  local stressed = os.getenv "PERF_GCSTRESS"
  if stressed then
    it("has Lua for every row", function() requires { nostress = true } end)
  end

  for _, row in ipairs(stressed and {} or rows) do
    it("has Lua for " .. row.package .. ": " .. table.concat(row.go, " "):sub(1, 60), function()
      requires { perf_open = true, paranoid = 1 }
      for _, need in ipairs(row.needs) do requires(needs[need]) end
      if row.code:find "perf%.pool" then -- threads run in a separate process
        util.in_child(function()
          local ok, message = run(row)
          assert(ok and message ~= nil, message)
        end)
        return
      end
      local result = { run(row) }
      -- No PMU counts every event that has a name.
      local refusal = tostring(result[3] or result[2])
      if row.needs[1] == "a PMU" and refusal:find("this CPU's PMU does not count this event", 1, true) then
        pending "needs: a PMU that counts this event"
        return
      end
      assert.is_true(result[1], row.code .. ": " .. tostring(result[2]))
      if not may_be_nil(row.code) then
        assert.is_true(result[2] ~= nil, row.code .. ": " .. tostring(result[3]))
      end
    end)
  end
end)
