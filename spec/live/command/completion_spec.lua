-- The completions of luaperf, in the shells themselves, and its manual page. `make test-reports` installs zsh, fish, mandoc and
-- groff, and runs this file again. Twice: the texts are the same on each interpreter.
local classes = require "perf.api.classes"
local luaperf = require "spec.support.luaperf"
local util = require "spec.support.util"

-- Lines, and the only word that can stand for the last one.
local lines = {
  { "luaperf sta", "stat" },
  { "luaperf completion z", "zsh" },
  { "luaperf stat --no-i", "--no-inherit" },
  { "luaperf annotate -U 3 --std", "--stdio" },
  { "luaperf record --call-graph dw", "dwarf" },
  { "luaperf record --call-graph=dw", "--call-graph=dwarf" },
  { "luaperf record -F m", "max" },
  { "luaperf annotate --color ne", "never" },
  { "luaperf stat -e page-fau", "page-faults" },
  { "luaperf stat -e page-faults,minor-fa", "page-faults,minor-faults" },
  { "luaperf stat --event=page-fau", "--event=page-faults" },
  { "luaperf list page-fau", "page-faults" },
  { "luaperf record ap", "app.lua" },
  { "luaperf record -e page-faults -- ap", "app.lua" },
  { "luaperf record -o ol", "old.json" },
  { "luaperf record app.lua inp", "input.txt" },
  { "luaperf report ol", "old.json" },
  { "luaperf report --diff ol", "old.json" },
}
local of_tracepoints = { "luaperf stat -e page-faults,sched:sched_swit", "page-faults,sched:sched_switch" }

local BASH = [==[
source completion
COMP_WORDBREAKS=$' \t\n"\'><=;|&(:'
while read -r COMP_LINE; do
    COMP_POINT=${#COMP_LINE}
    _luaperf luaperf
    echo "${COMPREPLY[*]}"
done <lines
]==]

local FISH = [==[
source completion
while read line
  string split -f 1 \t -- (complete -C $line) | string join ' '
end <lines
]==]

-- The shell in the terminal completes when it reads a tab; ^G prints its line.
local ZSH = [==[
zmodload zsh/zpty
zpty z 'zsh -f -i'
zpty -w z 'PROMPT=; fpath=($PWD/functions $fpath); autoload -U compinit; compinit -D -u; zle -N _shown
  _shown() { print -r -- "<<<$BUFFER>>>"; zle kill-buffer }; bindkey "^G" _shown; print READ""Y'
zpty -r z out '*READY*'
while read -r line; do
  zpty -w -n z "$line"$'\t\C-g'
  zpty -r z out '*<<<*>>>*'
  out=${${out##*<<<}%%>>>*}
  print -r -- ${${(z)out}[-1]}
done <lines
zpty -d z
]==]

-- The words with which a shell completes lines.
local function completed(shell, script, list)
  local found = {}
  util.with_directory(function(dir)
    local text = {}
    for i, line in ipairs(list) do text[i] = line[1] .. "\n" end
    for name, content in pairs { lines = table.concat(text), script = script, ["app.lua"] = "", ["old.json"] = "",
      ["input.txt"] = "" } do
      util.write_file(dir .. "/" .. name, content)
    end
    local output = luaperf.shell(dir, ("export PATH=$root/bin:$PATH HOME=$PWD; luaperf completion %s >completion && "
      .. "mkdir functions && cp completion functions/_luaperf && timeout 600 %s script"):format(shell, shell))
    for line in output:gmatch "[^\n]+" do found[#found + 1] = line end
  end)
  return found
end

-- readline, which bash uses, takes what comes after a colon or an equals sign for a word.
local function last_part(word) return word:match "[^:=]*$" end
local function whole(word) return word end

for shell, how in pairs { bash = { BASH, last_part }, fish = { FISH, whole }, zsh = { ZSH, whole } } do
  describe("completion in " .. shell, function()
    before_each(function() requires { cmd = shell, nosan = true } end)

    local function check(list)
      local wanted = {}
      for i, line in ipairs(list) do wanted[i] = how[2](line[2]) end
      assert.same(wanted, completed(shell, how[1], list))
    end

    it("has commands, options, their values, events and files", function() check(lines) end)

    it("has tracepoints", function()
      requires { tracepoint = "sched:sched_switch" }
      check { of_tracepoints }
    end)
  end)
end

describe("luaperf completion", function()
  before_each(function() requires { nosan = true } end)

  it("prints the names of functions, methods and options for a REPL", function()
    util.with_directory(function(dir)
      local words = "\n" .. luaperf.shell(dir, "luaperf completion words") .. "\n"
      for _, word in ipairs { "perf", "perf.measure", "perf.data", "perf.data.open", classes[1][1][1], "freq" } do
        assert.truthy(words:find("\n" .. word .. "\n", 1, true), word)
      end
    end)
  end)

  it("refuses other shells", function()
    util.with_directory(function(dir)
      assert.equal("luaperf: unknown shell 'tcsh': luaperf completion bash|zsh|fish|words\n",
        (luaperf.shell(dir, "luaperf completion tcsh")))
      assert.equal("luaperf: one shell is expected: luaperf completion bash|zsh|fish|words\n",
        (luaperf.shell(dir, "luaperf completion")))
    end)
  end)
end)

describe("luaperf manual", function()
  before_each(function() requires { nosan = true } end)

  it("is a page without a mistake", function()
    requires { cmd = { "mandoc", "groff" } }
    util.with_directory(function(dir)
      local output, status = luaperf.shell(dir, "luaperf manual >luaperf.1 && mandoc -Tlint -W style luaperf.1 && "
        .. "groff -man -Tutf8 -ww luaperf.1 2>&1 >page")
      assert.equal("", output)
      assert.equal(0, status)
    end)
  end)

  it("has the options of each command, and the variables of perf.auto", function()
    local options = require "perf.command.options"
    local page = require "perf.command.manual".page():gsub("\\%-", "-")
    for _, name in ipairs(require "perf.command".commands) do
      local section = (page .. ".SS"):match("%.SS luaperf " .. name .. "\n(.-)\n%.S[SH]")
      for _, row in ipairs(options.all(require("perf.command." .. name))) do
        for _, form in ipairs(options.forms(row)) do
          assert.truthy(section:find("\\fB" .. form .. "\\fR", 1, true), name .. " " .. form)
        end
      end
    end
    for _, row in ipairs(options.variables) do assert.truthy(page:find(options.variable(row), 1, true)) end
  end)
end)
