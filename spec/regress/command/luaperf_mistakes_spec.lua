-- The story: a newcomer's mistakes with luaperf. After `luaperf record script.lua` and `luaperf record ls` in one directory,
-- luaperf report showed the script's profile as that of ls. With an interpreter that cannot load the module it ended in a
-- traceback. For a directory or a file that is not executable the message was only "Permission denied".
-- Twice: the messages are those of luaperf.
local luaperf = require "spec.support.luaperf"
local util = require "spec.support.util"

describe("luaperf", function()
  local function try(command)
    local output
    util.with_directory(function(dir)
      util.write_file(dir .. "/a.txt", "text\n")
      output = luaperf.shell(dir, command)
    end)
    return output
  end

  it("reports the newest recording", function()
    local profile = "main;f 3\\n"
    local function written(first, second)
      return try(("printf '%s' >%s; touch -d @1.1 %s; printf '%s' >%s; touch -d @1.2 %s; luaperf report 2>&1")
        :format(profile, first, first, (profile:gsub("f", "g")), second, second))
    end
    assert.matches("  g\n", written("luaperf.json", "perf.data"))
    assert.matches("  g\n", written("perf.data", "luaperf.json"))
  end)

  it("names the command that writes the file for report", function()
    assert.equal("luaperf: luaperf.json: No such file or directory (luaperf record script.lua makes one)\n",
      try "luaperf report 2>&1")
    assert.equal("luaperf: b: No such file or directory\n", try "luaperf report b 2>&1")
  end)

  it("gives the reason why a program cannot be run", function()
    requires { perf_open = "user" }
    for _, command in ipairs { "stat", "record" } do
      assert.equal("luaperf: ./.: Is a directory\n", try("luaperf " .. command .. " ./. 2>&1"))
      assert.equal("luaperf: ./a.txt: Permission denied (it is not executable: chmod +x makes it so; the name of a Lua script "
        .. "ends in .lua)\n", try("luaperf " .. command .. " ./a.txt 2>&1"))
      assert.equal("luaperf: /no/such: No such file or directory\n", try("luaperf " .. command .. " /no/such 2>&1"))
    end
  end)

  -- An unknown ending wrote a speedscope profile into a file called x.png.
  it("refuses a file for a profile whose ending is unknown, before the run", function()
    local refused = "luaperf: x.png: unknown ending; .html, .svg, .folded, .pb.gz, .data and .json are known\n"
    assert.equal(refused, try "echo 'print(1)' >a.lua; luaperf record -o x.png a.lua 2>&1; ls x.png 2>/dev/null")
    assert.equal("luaperf: -o x.html: unknown ending; .json gives JSON, and .txt, .csv, .log and names without an ending give "
      .. "text\n", try "echo 'print(1)' >a.lua; luaperf stat -o x.html a.lua 2>&1; ls x.html 2>/dev/null")
    assert.equal(refused, try "echo 'main;f 3' >a.folded; luaperf report -o x.png a.folded 2>&1; ls x.png 2>/dev/null")
    assert.matches("^<!DOCTYPE html>", try "echo 'main;f 3' >a.folded; luaperf report -o x.htm a.folded; head -n 1 x.htm")
    assert.equal("{", try "echo 'main;f 3' >a.folded; luaperf report -o x a.folded; head -c 1 x")
  end)

  -- Such a file was written, and no browser could show it.
  it("refuses a profile's format for what it records into perf.data", function()
    local use = "recorded into a perf.data file: use -o FILE.data, then luaperf report FILE.data -o x.html\n"
    assert.equal("luaperf: -o x.html: true is not a Lua script, and is " .. use,
      try "luaperf record -o x.html true 2>&1; ls x.html 2>/dev/null")
    assert.equal("luaperf: -o x.html: processes are " .. use, try "luaperf record -a -o x.html true 2>&1")
  end)

  it("suggests a kind for a misspelt one", function()
    assert.matches("^luaperf: no event matches 'hardwre'; did you mean 'hardware'%?", try "luaperf list hardwre 2>&1")
  end)

  it("names the same missing process in stat and in record, and the same empty event", function()
    for _, command in ipairs { "stat", "record" } do
      assert.equal("luaperf: no process 999999999\n", try(("luaperf %s -p 999999999 2>&1"):format(command)))
      assert.equal("luaperf: empty event name at character 1\n", try(("luaperf %s -e '' true 2>&1"):format(command)))
    end
  end)

  it("names the list of events for a name that resembles no event", function()
    local message = "luaperf: nosuchthing: unknown event; luaperf list shows the events of this machine\n"
    for _, command in ipairs { "stat", "record" } do
      assert.equal(message, try(("luaperf %s -e nosuchthing true 2>&1"):format(command)))
      assert.equal(message, try((": >a.lua; luaperf %s -e nosuchthing a.lua 2>&1"):format(command)))
    end
  end)

  it("suggests what to use in place of a command of perf", function()
    assert.equal("luaperf: unknown command 'diff'; use luaperf report --diff\n"
      .. "luaperf: luaperf --help lists them\n", try "luaperf diff 2>&1")
  end)

  it("suggests the command for a script without one", function()
    assert.equal("luaperf: unknown command 'mine.lua'; did you mean 'luaperf stat mine.lua'?\n"
      .. "luaperf: luaperf --help lists them\n", try "luaperf mine.lua 2>&1")
  end)

  -- An empty file was shown as a profile without samples. The numbers of folded stacks may be nanoseconds; the report called them
  -- samples.
  it("refuses an empty profile, and does not take the numbers of folded stacks for samples", function()
    assert.equal("luaperf: a.json: the file is empty\n", try ": >a.json; luaperf report a.json 2>&1")
    assert.matches("^total: 175,050,839\n", try "echo 'main;f 175050839' >a.folded; luaperf report a.folded 2>&1")
    assert.matches("--diff OLD NEW compares two files", try "echo 'f 1' >a.folded; luaperf report --diff a.folded 2>&1", 1, true)
  end)

  it("refuses an empty file whose name says that it has another format than folded stacks", function()
    for _, name in ipairs { "a.data", "a.html", "a.lua" } do
      assert.equal(("luaperf: %s: the file is empty\n"):format(name), try((": >%s; luaperf report %s 2>&1"):format(name, name)))
    end
    for _, name in ipairs { "a.folded", "a.txt", "a", "a.folded.gz" } do
      assert.equal("total: 0\nno samples\n", try((": >%s; luaperf report %s 2>&1"):format(name, name)))
    end
  end)

  it("says of a directory that it is one", function()
    for _, command in ipairs { "stat", "record" } do
      assert.equal("luaperf: d.lua: Is a directory\n", try(("mkdir d.lua; luaperf %s d.lua 2>&1"):format(command)))
      assert.equal("luaperf: d: no program in PATH has this name, and here it is a directory\n",
        try(("mkdir d; luaperf %s d 2>&1"):format(command)))
    end
  end)

  it("names -o where the usual file cannot be made", function()
    assert.equal("luaperf: luaperf.json: Is a directory (-o FILE names another file)\n",
      try "mkdir luaperf.json; : >a.lua; luaperf record a.lua 2>&1")
    assert.equal("luaperf: luaperf.json: Is a directory\n",
      try "mkdir luaperf.json; : >a.lua; luaperf record -o luaperf.json a.lua 2>&1")
  end)

  it("names an option by its name here where memory is profiled", function()
    for option, name in pairs { ["-g"] = "-g", ["--call-graph fp"] = "--call-graph", ["-F 9"] = "-F" } do
      for _, event in ipairs { "alloc", "heap" } do
        assert.equal(("luaperf: %s: %s is for events of the kernel, not for Lua's memory\n"):format(event, name),
          try((": >a.lua; luaperf record -e %s %s a.lua 2>&1"):format(event, option)))
      end
    end
  end)

  it("names an interpreter that does not exist, or cannot load the module", function()
    assert.equal("luaperf: LUA=nosuch -x: no such interpreter\n", try "LUA='nosuch -x' luaperf 2>&1")
    util.with_directory(function(dir)
      local output = luaperf.copied(dir) "echo no >perf/core.so; luaperf 2>&1"
      local own = rawget(_G, "jit") and "luajit" or "lua" .. _VERSION:match "%d.%d"
      assert.matches("^luaperf: [^\n]+ cannot load the module; build it for that interpreter %(make LUA=" .. own
        .. "%), or correct LUA_CPATH: ", output)
      assert.is_nil(output:find "traceback")
    end)
  end)
end)
