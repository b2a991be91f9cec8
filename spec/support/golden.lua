--- For the specs of event names: simulated machines made of files, and comparison of attrs byte for byte.
local assert = require "luassert"
local core = require "perf.core"
local names = require "perf.names"
local pmu = require "perf.kernel.pmu"
local tracefs = require "perf.kernel.tracefs"
local trees = require "spec.support.trees"

local golden = {}

--- The machines: server, hybrid, arm, little, bare; deaf is bare without tracefs; nowhere has no files.
function golden.machines()
  local roots = {trees.server(), trees.hybrid(), trees.arm(), trees.big_little(), trees.bare(), trees.tracefs()}
  local points, none = tracefs.new{roots[6]}, tracefs.new{roots[6] .. "/nowhere"}
  local function machine(i) return names.new(pmu.new(roots[i]), points) end
  return {
    roots = roots, server = machine(1), hybrid = machine(2), arm = machine(3), little = machine(4), bare = machine(5),
    deaf = names.new(pmu.new(roots[5]), none), nowhere = names.new(pmu.new(roots[1] .. "/nowhere"), none),
  }
end

function golden.remove(machines)
  for _, root in ipairs(machines.roots) do trees.remove(root) end
end

golden.USER = {exclude_kernel = true, exclude_hv = true}
golden.KERNEL = {exclude_user = true, exclude_hv = true}

function golden.plus(attr, more)
  local out = {}
  for key, value in pairs(attr) do out[key] = value end
  for key, value in pairs(more) do out[key] = value end
  return out
end

-- The fields as sorted text, for the message of a failed comparison.
local function show(attr)
  local out = {}
  for key, value in pairs(attr) do
    if type(value) == "table" then
      value = table.concat(value, "|")
    elseif type(value) ~= "boolean" and type(value) ~= "string" then
      value = core.hex(value)
    end
    out[#out + 1] = key .. "=" .. tostring(value)
  end
  table.sort(out)
  return table.concat(out, " ")
end

function golden.same(expected, attr, text)
  assert.equal(show(core.unpack(core.pack(expected))), show(core.unpack(core.pack(attr))), text)
  assert.is_true(core.pack(expected) == core.pack(attr), text)
end

--- Checks that each of {{name, attr[, attr ...], label=, unit= ...}, ...} resolves to these attrs, byte for byte, and to this
-- label (by default the name) and unit.
function golden.check(machine, cases)
  for _, case in ipairs(cases) do
    local text = case[1]
    local found, message = machine:resolve(text)
    assert.is_table(found, text .. ": " .. tostring(message))
    assert.equal(#case - 1, #found.attrs, text)
    for i = 2, #case do golden.same(case[i], found.attrs[i - 1], text) end
    assert.equal(case.label or text, found.label, text)
    for _, key in ipairs{"unit", "scale", "cpumask", "per_pkg", "snapshot", "kind"} do
      if case[key] ~= nil then assert.equal(case[key], found[key], text .. " " .. key) end
    end
  end
end

--- Checks that fn raises an error at a line outside of the library, with all these texts in the message.
function golden.fails(machine, spec, ...)
  local ok, message, code = pcall(machine.resolve, machine, spec)
  assert.is_false(ok, tostring(spec) .. ": " .. tostring(message) .. tostring(code))
  assert.matches("golden.lua:%d+: bad argument #1", message)
  for _, part in ipairs{...} do assert.matches(part, message, 1, true) end
end

--- Checks that fn returns nil, a message that contains `part`, and this code.
function golden.refused(machine, spec, code, part)
  local found, message, got = machine:resolve(spec)
  assert.is_nil(found, tostring(spec))
  assert.equal(code, got, tostring(spec))
  assert.matches(part, message, 1, true)
end

return golden
