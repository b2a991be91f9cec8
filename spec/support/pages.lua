--- Runs the code in the pages (README.md, CONTRIBUTING.md, doc/*.md).
--
-- Each block of code is fenced, and its language determines how it is tested:
--
--     ```lua       a program, run by the interpreter of the specs
--     ```sh        shell commands, run with `sh -e`
--     ```console   lines that begin with "$ " (shell) or "> " (Lua's prompt), each followed by its output
--     ```          the output of the block before it; without one before, text that nothing runs
--     others       a file of another kind (nginx, yaml, c): text
--
-- An HTML comment before a block, invisible to readers, has what else the test needs:
--
--     <!-- setup ... -->          Lua that runs before this block of Lua and the following ones, up to the next setup
--     <!-- before: commands -->   shell commands that run before this block of shell, for the files that it reads
--     <!-- needs: root, cmd=gcc -->   as in `requires`; before an output it says where the output is compared
--     <!-- skip: reason -->       cannot run in a test; counted as skipped for this reason
--     <!-- text -->               is no program: a synopsis, a part of a file
--
-- Commands run in a new directory with `examples` and a small `app.lua` in it. There, every name of an interpreter stands for the
-- one that runs the specs, `make` does nothing, `1234` and what `pgrep` prints is the number of a process of this user, and waits
-- and benchmarks are short. On a machine without a PMU, software events replace cycles and instructions.
local needs = require "spec.support.needs"
local util = require "spec.support.util"

local M = {}

local function words(text)
  local list = {}
  for key, value in text:gmatch "([%w_]+)=?([^%s,]*)" do
    list[key] = value == "" and true or tonumber(value) or value
  end
  return list
end

local function fresh() return { needs = {} } end

-- Parses a comment that describes the next block.
local function remark(next_block, text, page)
  local key, value = text:match "^%s*(%a+):?%s*(.-)%s*$"
  if key == "setup" then
    page.setup = value
  elseif key == "before" then
    next_block.before = value
  elseif key == "needs" then
    for name, v in pairs(words(value)) do next_block.needs[name] = v end
  elseif key == "skip" then
    next_block.skip = value
  elseif key == "text" then
    next_block.text = true
  end
end

--- The blocks of a page: an array of {name=, kind=, code=, needs=, skip=, text=, setup=, output=}.
function M.blocks(path)
  local page, blocks, heading, count = { setup = "" }, {}, path, {}
  local block, comment, before, next_block, last = nil, nil, "", fresh(), nil
  local number = 0
  for line in (util.read_file(path) .. "\n"):gmatch "([^\n]*)\n" do
    number = number + 1
    if block then
      if line == "```" then
        block.code = table.concat(block, "\n") .. "\n"
        if block.kind == "" and last and not block.text then
          last.output, last = block, nil
        else
          count[heading] = (count[heading] or 0) + 1
          block.name = ("%s: %s%s"):format(path, heading, count[heading] > 1 and " (" .. count[heading] .. ")" or "")
          blocks[#blocks + 1] = block
          last = (block.kind == "lua" or block.kind == "sh") and block or nil
        end
        block = nil
      else
        block[#block + 1] = line
      end
    elseif comment then
      local tail = line:match "^(.-)%-%->%s*$"
      comment = comment .. "\n" .. (tail or line)
      if tail then
        remark(next_block, comment, page)
        comment = nil
      end
    elseif line:find "^```" then
      block, next_block = next_block, fresh()
      block.kind, block.line, block.setup = line:match "^```(.*)$", number, page.setup
    elseif line:find "^<!%-%-" then
      local whole = line:match "^<!%-%-(.-)%-%->%s*$"
      if whole then remark(next_block, whole, page) else comment = line:sub(5) end
    elseif line:find "^#+ " then
      heading, last = line:match "^#+ (.*)$", nil
    elseif line:find "^    " and before == "" then
      blocks[#blocks + 1] = { kind = "indented", code = line, name = path .. ":" .. number, needs = {} }
    end
    before = line
  end
  return blocks
end

--- The paths of all pages.
function M.paths()
  local paths = {}
  for path in util.shell("ls *.md doc/*.md | grep -v CHANGELOG"):gmatch "%S+" do paths[#paths + 1] = path end
  return paths
end

-- A line without the parts that appear only for counts other than 0: rates, and the deviation of runs.
local function plain(line) return (line:gsub("%s+# [%d.,]+ .*$", ""):gsub("%s+%( %+%- .*$", "")) end

-- A pattern for a line of output: a number stands for any number, a unit for others of its kind, "..." for any text.
local function pattern_of(line)
  local text = plain(line):gsub("%s+$", ""):gsub("^%s+", ""):gsub("[%^%$%(%)%%%[%]%*%+%-%?]", "%%%0")
  text = text:gsub("%.%.%.", "\1"):gsub("0x%x+", "\2"):gsub("%d[%d,.]*%d", "\3"):gsub("%d", "\3")
  text = text:gsub("%.", "%%."):gsub("\3(%s*)[num]?s%f[%W]", "\3%1\4"):gsub("\3 [KMG]?/sec", "\3 \5")
  text = text:gsub("%s+", "%%s+"):gsub("\1", ".*"):gsub("\2", "0x%%x+"):gsub("\3", "[%%d,.]+"):gsub("\4", "[num]?s")
  return "^%s*" .. text:gsub("\5", "[KMG]?/sec") .. "%s*$"
end

-- The lines of a text that are not blank.
local function lines_of(text)
  local lines = {}
  for line in text:gmatch "[^\n]+" do
    if line:find "%S" then lines[#lines + 1] = line end
  end
  return lines
end

--- Whether output matches the output on the page; else nil and the reason. A line of "..." stands for any lines; blank lines are
-- skipped.
function M.matches(shown, output)
  local lines, at, skipping = lines_of(output), 1, false
  local function differs(expected)
    return nil, ("the page has:\n%s\nbut line %d of the output is:\n%s\nThe output:\n%s"):format(expected, at, lines[at] or "",
      output:sub(1, 3000))
  end
  for _, line in ipairs(lines_of(shown)) do
    if line:match "^%s*%.%.%.$" then
      skipping = true
    else
      local pattern = pattern_of(line)
      local function found() return plain(lines[at]):find(pattern) end
      while skipping and lines[at] and not found() do at = at + 1 end
      if not lines[at] or not found() then return differs(line) end
      at, skipping = at + 1, false
    end
  end
  if not skipping and lines[at] then return differs "(the end)" end
  return true
end

local SOFTWARE = { cycles = "task-clock", instructions = "page-faults" }

-- Uses software events if there are no hardware events, a live process for 1234, and short waits.
local function here(text)
  if needs.unmet { pmu = true }[1] then
    text = text:gsub("%f[%w](%a+)(:u)", function(name, u) return SOFTWARE[name] and SOFTWARE[name] .. u end)
  end
  return (text:gsub("%f[%w]1234%f[%W]", "$PID$"):gsub("sleep %d+", "sleep 0.1"):gsub("%-%-timeout %d+", "--timeout 0.1")
    :gsub("tracer:close%(%)", "tracer:close(0)"))
end

local APP = [[
local words = {}
for i = 1, 20000 do words[i % 500 + 1] = ("word %d"):format(i) end
local text = table.concat(words, " ")
local n = 0
for _ in text:gmatch "%a+" do n = n + 1 end
print(n .. " words")
]]

local root = util.shell("pwd"):gsub("%s+$", "")

local function absolute(name)
  return (";" .. (os.getenv(name) or "")):gsub(";%./", ";" .. root .. "/"):sub(2)
end

local executable = util.shell("command -v " .. util.lua()):gsub("%s+$", "")

local luaperf = ('LUA=${LUA:-%s} exec timeout -s KILL 600 %s/bin/luaperf "$@"'):format(executable, root)
-- Commands that are replaced, each by one line of shell.
local programs = { make = ":", luaperf = luaperf, pgrep = "echo $PID" }
for name in ("interpreter luajit lua5.1 lua5.2 lua5.3 lua5.4"):gmatch "%S+" do
  programs[name] = ('exec %s "$@"'):format(executable)
end

-- Runs a shell script in a new directory: its output and status.
local function shell(text, program)
  local output, status
  util.with_directory(function(dir)
    local write_programs = ""
    for name, line in pairs(programs) do
      write_programs = ("%secho '#!/bin/sh\n%s' >bin/%s; "):format(write_programs, line, name)
    end
    util.write_file(dir .. "/app.lua", APP)
    if program then util.write_file(dir .. "/block.lua", (program:gsub("%$PID%$", "tonumber(os.getenv 'PID')"))) end
    local other = ""
    if (text .. (program or "")):find("$PID$", 1, true) or text:find("pgrep", 1, true) then
      other = "sleep 300 & PID=$!; export PID; trap 'kill $PID' EXIT\n"
    end
    util.write_file(dir .. "/run.sh", other .. text:gsub("%$PID%$", "$PID") .. "\n")
    output, status = util.shell(("cd %s; chmod 755 .; ln -s %s/examples .; mkdir bin; %schmod +x bin/*; unset LUA; "
      .. "export LUA_PATH='%s' LUA_CPATH='%s' PATH=\"$PWD/bin:$PATH\"; timeout -s KILL 600 sh -e run.sh")
      :format(dir, root, write_programs, absolute "LUA_PATH", absolute "LUA_CPATH"))
    output = output:gsub(dir:gsub("%p", "%%%0") .. "/?", "")
  end)
  return output, status
end

-- A run of perf.bench and perf.compare takes a tenth of the default time.
local PRELUDE = [[
perf = require "perf"
for _, name in ipairs { "bench", "compare" } do
  local measure = perf[name]
  perf[name] = function(what, options)
    options = options or {}
    options.min_time = options.min_time or 0.0005
    return measure(what, options)
  end
end
]]

-- Converts a line typed at Lua's prompt to a program.
local function typed(line)
  local expression = line:match "^=(.*)$"
  if expression then return "print((function(...) return ... end)(" .. expression:gsub("%s+%-%-.*$", "") .. "))" end
  return line
end

local function compared(block, output)
  if not block.output then return end
  if next(block.output.needs) and needs.unmet(block.output.needs)[1] then return end
  assert(M.matches(block.output.code, output))
end

local run = {}

function run.lua(block)
  local output, status = shell("interpreter block.lua one two", PRELUDE .. block.setup .. "\n" .. here(block.code))
  assert(status == 0, output)
  compared(block, output)
end

function run.sh(block)
  local before = block.before and "(" .. block.before .. ") >before.log 2>&1\n" or ""
  local output, status = shell(before .. here(block.code))
  assert(status == 0, output)
  compared(block, output)
end

-- Commands of one block share a directory, and lines at Lua's prompt share a state.
function run.console(block)
  local script, shown, prompt = {}, {}, nil
  for line in block.code:gmatch "([^\n]*)\n" do
    local sign, rest = line:match "^([$>]) (.*)$"
    if sign then
      prompt = sign
      script[#script + 1] = sign == "$" and rest or typed(rest)
    else
      shown[#shown + 1] = line
    end
  end
  local text = here(table.concat(script, "\n"))
  local lua = prompt == ">"
  local output, status = shell(lua and "interpreter block.lua" or text, lua and PRELUDE .. block.setup .. "\n" .. text)
  assert(status == 0, output)
  assert(not output:find(" in 0 samples", 1, true), "the page profiles what takes no time:\n" .. output)
  for printed in lua and output:gmatch "[^\n]+" or function() end do
    assert(#printed < 1000, "what the page types prints a line of " .. #printed .. " characters")
  end
  if #shown > 0 then assert(M.matches(table.concat(shown, "\n") .. "\n", output)) end
end

--- Runs a block and compares its output with the page's; raises if they differ.
function M.run(block) run[block.kind](block) end

-- The program that runs a block: the interpreter ("lua") or the shell ("sh").
local function language_of(block)
  if block.text or not run[block.kind] then return nil end
  return (block.kind == "lua" or block.code:find "^> ") and "lua" or "sh"
end

local NEEDS = { root = { root = true }, perf_event_paranoid = { paranoid = 1 } }

-- The rows of a page's tables whose second cell is code, as blocks of one line. The last cell of a row begins with its needs.
local function rows_of(path)
  local rows, page = {}, util.read_file(path)
  local setup = page:match "<!%-%- setup(.-)%-%->" or ""
  for first, code, remarks in page:gmatch "\n| ([^\n]-) | `([^`\n]+)` | ?([^\n]*)|" do
    local kind = (code:find "^luaperf" or code:find "^[A-Z_]+=" or code:find "^luajit ") and "sh" or "lua"
    if code:find "^perf%." then code = "local _ = " .. code end
    rows[#rows + 1] = { kind = kind, name = path .. ": " .. first, code = code .. "\n", setup = setup,
      needs = NEEDS[remarks:match "^needs ([%a_]+)"] or {},
      before = code:find "report" and "luaperf record app.lua; luaperf record -o perf.data true" or nil }
    if code:find "perf.data.open" then rows[#rows].setup = setup .. "\nperf.record({'true'}, {output = 'perf.data'})" end
  end
  return rows
end

--- Declare a spec for each block and row of the pages that "lua" or "sh" runs. busted gives `it` and `pending` only to spec
-- files.
function M.each_program(language, it, pending)
  for _, path in ipairs(M.paths()) do
    local blocks = M.blocks(path)
    -- coming_from_go_spec.lua runs the rows of its page
    for _, row in ipairs(path:find "coming%-from%-[^g]" and rows_of(path) or {}) do blocks[#blocks + 1] = row end
    for _, block in ipairs(blocks) do
      if language_of(block) == language then
        it(block.name, function()
          requires { perf_open = true, nostress = true }
          if next(block.needs) then requires(block.needs) end
          if block.skip then pending("needs: " .. block.skip) return end
          M.run(block)
        end)
      end
    end
  end
end

return M
