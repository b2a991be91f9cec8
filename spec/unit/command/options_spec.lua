local options = require "perf.command.options"

local rows = { { "e", "event", "EVENTS", "what", kind = "list" }, { "F", "freq", "N", "how often", kind = "integer" },
  { "a", "all", nil, "all" }, { "v", "verbose", nil, "more" }, { "o", "output", "FILE", "where" },
  { nil, "timeout", "SECONDS", "how long", kind = "number", least = 0.001 },
  { "g", nil, nil, "short" }, { nil, "graph", "MODE", "one of", choices = { "fp", "dwarf" } } }

local function parse(line, mixed)
  local words = {}
  for word in line:gmatch "%S+" do words[#words + 1] = word == "''" and "" or word end
  return options.parse(rows, words, 1, mixed)
end

describe("perf.command.options", function()
  it("accepts options in all their forms", function()
    for line, wanted in pairs { ["-e x"] = { event = "x" }, ["-ex"] = { event = "x" }, ["--event x"] = { event = "x" },
      ["--event=x"] = { event = "x" }, ["--event=a=b"] = { event = "a=b" }, ["-av"] = { all = true, verbose = true },
      ["-aF 99"] = { all = true, freq = 99 }, ["-vF99"] = { verbose = true, freq = 99 }, ["-e a -e b,c"] = { event = "a,b,c" },
      ["--timeout 0.5"] = { timeout = 0.5 }, ["-o -"] = { output = "-" }, ["--output="] = { output = "" },
      ["-h"] = { help = true },
      ["-g"] = { g = true }, ["--graph dwarf"] = { graph = "dwarf" }, ["--graph=fp"] = { graph = "fp" },
      ["--help"] = { help = true }, [""] = {} } do
      local opts, left = parse(line)
      assert.same(wanted, opts, line)
      assert.same({}, left)
    end
  end)

  it("ends at the program's name, and leaves the program's options alone", function()
    local opts, left = parse "-a script.lua -v -- x"
    assert.same({ all = true }, opts)
    assert.same({ "script.lua", "-v", "--", "x" }, left)
    opts, left = parse "-a -- -v"
    assert.same({ all = true }, opts)
    assert.same({ "-v" }, left)
    assert.same({ "-" }, select(2, parse "-"))
  end)

  it("accepts options after words if no program is named", function()
    local opts, left = parse("file -a other -v -- -x", true)
    assert.same({ all = true, verbose = true }, opts)
    assert.same({ "file", "other", "-x" }, left)
  end)

  it("reports mistakes", function()
    for line, wanted in pairs { ["-z"] = "unknown option '-z'", ["-az"] = "unknown option '-z'",
      ["--zoo"] = "unknown option '--zoo'", ["--=x"] = "unknown option '--=x'",
      ["-e"] = "option -e needs EVENTS", ["--timeout"] = "option --timeout needs SECONDS",
      ["-F x"] = "option -F: a whole number, 1 or more, expected, got 'x'",
      ["-F 1.5"] = "option -F: a whole number, 1 or more, expected, got '1.5'",
      ["-F 0"] = "option -F: a whole number, 1 or more, expected, got '0'",
      ["-F nan"] = "option -F: a whole number, 1 or more, expected, got 'nan'",
      ["--timeout 0"] = "option --timeout: a number, 0.001 or more, expected, got '0'",
      ["--graph lbr"] = "option --graph: fp or dwarf expected, got 'lbr'", ["--all=1"] = "option --all takes no value" } do
      local opts, message = parse(line)
      assert.is_nil(opts, line)
      assert.equal(wanted, message)
    end
  end)

  it("prints a help text of all options", function()
    local text = options.help { usage = "x [options]", about = "does", options = rows }
    assert.truthy(text:find("usage: x [options]\n\ndoes\n", 1, true))
    for _, row in ipairs(rows) do assert.truthy(text:find(row[2] and "--" .. row[2] or "\n  -g  ", 1, true)) end
    for line in text:gmatch "[^\n]+" do assert.is_true(#line <= 132) end
  end)
end)
