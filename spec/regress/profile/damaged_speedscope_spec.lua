-- The stories: a speedscope file whose profile, zones or counts were not lists raised an internal error instead of being
-- refused. A file with an infinite weight, a line of 0.5 or a process of 1e300 was loaded, but could not be written again. Nor
-- could a file with addresses that the library had written itself.
local formats = require "perf.profile.report.formats"
local load = require "perf.profile.load".all
local util = require "spec.support.util"

local function loaded(frame, profile, own)
  local list, message, code
  util.with_tmpname(function(path)
    util.write_file(path, ('{"shared":{"frames":[{"name":"a"%s}]},"profiles":[%s],"lua_perf":%s}'):format(frame, profile, own))
    list, message, code = load(path)
  end)
  return list, message, code
end

local function profile(weight, more)
  return ('{"type":"sampled","unit":"nanoseconds","samples":[[0]],"weights":[%s]%s}'):format(weight, more or "")
end

describe("a speedscope file", function()
  for _, case in ipairs {
    { "its profile is not a sampled one", "5" }, { "zones is not a list", profile(5, ',"zones":5') },
    { "zone is not a list", profile(5, ',"zones":["a"],"zone":5') }, { "counts is not a list", profile(5, ',"counts":true') },
    { "weight 1 is not a number of at least 0", profile "1e999" }, { "weight 1 is not a number of at least 0", profile "-5" },
  } do
    it("is refused if " .. case[1] .. ": " .. case[2], function()
      local list, message, code = loaded("", case[2], "{}")
      assert.is_nil(list)
      assert.equal("EBADMSG", code)
      assert.equal(case[1], message:match ": (.*)")
    end)
  end

  for _, case in ipairs {
    { "", "0.5", "{}" }, { "", "5", '{"freq":99.5}' }, { "", "5", '{"started":1e999}' }, { "", "5", '{"pid":1e300,"total":-1}' },
    { ',"kind":"native","address":"zz"', "5", "{}" }, { ',"kind":"native","address":"0xffffffff81000000"', "5", "{}" },
    { ',"file":"x","line":1e999', "5", "{}" }, { ',"file":"x","line":0.5,"linedefined":-1', "5", "{}" },
  } do
    it("can be written in each format: " .. table.concat(case, " "), function()
      local prof = assert(loaded(case[1], profile(case[2]), case[3]))[1]
      assert.is_string(tostring(prof:top()))
      util.with_directory(function(dir)
        for _, format in ipairs(formats) do assert(prof[format.name](prof, dir .. "/profile")) end
      end)
    end)
  end

  it("keeps the addresses of its frames", function()
    local prof = assert(loaded(',"kind":"native","address":"0xffffffff81000000"', profile "5", "{}"))[1]
    util.with_tmpname(function(path)
      assert(prof:speedscope(path))
      assert.matches('"address":"0xffffffff81000000"', util.read_file(path), nil, true)
    end)
  end)
end)
