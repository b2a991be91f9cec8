local options = require "perf.command.options"

local rows = { { "events", "string", "what", short = "e", long = "event", arg = "EVENTS", list = true },
  { "freq", "integer", "how `often`", short = "F", arg = "N", least = 1, excludes = { "timeout" } },
  { "all", "boolean", "all", short = "a" }, { "verbose", "boolean", "more", short = "v" },
  { "detailed", "integer", "more", short = "d", times = true },
  { "output", "string", ("where "):rep(50), short = "o", arg = "FILE" },
  { "timeout", "number", "how long", arg = "SECONDS", least = 0.001 }, { "g", "boolean", "short", short = "g", long = false },
  { "call_graph", "string", "one of", arg = "MODE", oneof = { "fp", "dwarf" } } }

local function parse(line, mixed)
  local words = {}
  for word in line:gmatch "%S+" do words[#words + 1] = word == "''" and "" or word end
  return options.parse(rows, words, 1, mixed)
end

describe("perf.command.options", function()
  it("accepts options in all their forms", function()
    for line, wanted in pairs { ["-e x"] = { events = "x" }, ["-ex"] = { events = "x" }, ["--event x"] = { events = "x" },
      ["--event=x"] = { events = "x" }, ["--event=a=b"] = { events = "a=b" }, ["-av"] = { all = true, verbose = true },
      ["-aF 99"] = { all = true, freq = 99 }, ["-vF99"] = { verbose = true, freq = 99 }, ["-e a -e b,c"] = { events = "a,b,c" },
      ["--timeout 0.5"] = { timeout = 0.5 }, ["-o -"] = { output = "-" }, ["--output=x"] = { output = "x" },
      ["-h"] = { help = true }, ["-d"] = { detailed = 1 }, ["-dd --detailed"] = { detailed = 3 },
      ["-g"] = { g = true }, ["--call-graph dwarf"] = { call_graph = "dwarf" }, ["--call-graph=fp"] = { call_graph = "fp" },
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
      ["-e"] = "option -e needs EVENTS: what",
      ["--timeout"] = "option --timeout needs SECONDS: how long",
      ["-F x"] = "option -F: positive integer expected, got 'x'",
      ["-F 1.5"] = "option -F: positive integer expected, got '1.5'",
      ["-F 0"] = "option -F: positive integer expected, got '0'",
      ["-F nan"] = "option -F: positive integer expected, got 'nan'",
      ["--freq=0"] = "option --freq: positive integer expected, got '0'",
      ["--event"] = "option --event needs EVENTS: what",
      ["-o ''"] = "option -o: the name of a file expected, got ''",
      ["--output="] = "option --output: the name of a file expected, got ''",
      ["--timeout 0"] = "option --timeout: number of at least 0.001 expected, got '0'",
      ["--call-graph lbr"] = "option --call-graph: fp or dwarf expected, got 'lbr'", ["--all=1"] = "option --all takes no value",
      ["--timeout 1 -F 9"] = "options -F and --timeout exclude each other" } do
      local opts, message = parse(line)
      assert.is_nil(opts, line)
      assert.equal(wanted, message)
    end
  end)

  it("has no option of a command that luaperf's page lacks", function()
    local page = require "spec.support.util".read_file "doc/luaperf.md"
    for _, name in ipairs(require "perf.command".commands) do
      for _, row in ipairs(require("perf.command." .. name).options) do
        local long = row.long or row[1]:gsub("_", "-")
        assert.truthy(row.short and page:find("%f[-]%-" .. row.short .. "%f[%W]") or page:find("--" .. long, 1, true),
          ("luaperf %s: %s"):format(name, row[1]))
      end
    end
  end)

  it("takes words for numbers, and refuses options that may not be repeated", function()
    local own = { { "freq", "integer", "how often", short = "F", arg = "N", least = 1,
      special = { max = function() return 7 end, min = function() return nil, "nobody knows" end } },
      { "filter", "string", "which", arg = "FILTER", once = true } }
    local function try(...) return options.parse(own, { ... }, 1) end
    assert.same({ freq = 7 }, try("-F", "max"))
    assert.same({ nil, "option -F: nobody knows", n = 2 }, { n = 2, try("-F", "min") })
    assert.equal("option -F: positive integer or max or min expected, got 'maxx'", select(2, try("-Fmaxx")))
    assert.same({ filter = "a" }, try("--filter", "a"))
    assert.equal("option --filter is given twice", select(2, try("--filter", "a", "--filter=b")))
  end)

  it("prints a help text of all options", function()
    local text = options.help { usage = "x [options]", about = "does", options = rows }
    assert.truthy(text:find("usage: x [options]\n\ndoes\n", 1, true))
    for long in ("--event EVENTS --freq --all --output --timeout --call-graph --help"):gmatch "%S+" do
      assert.truthy(text:find(long, 1, true), long)
    end
    assert.truthy(text:find("\n  -g  ", 1, true))
    assert.truthy(text:find("how often\n", 1, true))
    for line in text:gmatch "[^\n]+" do assert.is_true(#line <= 100) end
  end)
end)
