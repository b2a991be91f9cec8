-- luaperf completion: what a shell needs to complete luaperf's commands, options, events and files, from the declarations of the
-- commands and their options; and the names of the library for a REPL's completion.
local options = require "perf.command.options"
local pairs_of = require "perf.base.pairs"

local M = {}

M.about = "print the completions for a shell, or the library's names for a REPL"
M.usage = "luaperf completion bash|zsh|fish|words"
M.text = [[
For bash, for fish, for zsh (DIRECTORY is one of $fpath), and for Lua in a terminal:

  source <(luaperf completion bash)
  luaperf completion fish | source
  luaperf completion zsh >DIRECTORY/_luaperf
  rlwrap -b '(){}[],=:' -f <(luaperf completion words) luajit

make install installs those for the shells.]]
M.words = { "bash", "zsh", "fish", "words" }
M.options = {}

-- Calls visit(name, command) for each command.
local function each_command(visit)
  for _, name in ipairs(require "perf.command".commands) do visit(name, require("perf.command." .. name)) end
end

-- A text as a word of a shell.
local function quoted(text) return "'" .. text:gsub("'", "'\\''") .. "'" end

local function help(row) return (options.plain(row[3]):gsub("%s+", " ")) end

-- bash ----------------------------------------------------------------------------------------------------------------

local BASH = [==[
# Completion of luaperf for bash, made by luaperf completion bash.

# COMMAND OPTION: sets `value`, the kind of the option's value; empty if it has none.
_luaperf_value() {
    case "$1 $2" in
@values    *) value= ;;
    esac
}

# COMMAND: sets `options` and `words`, the kind of its arguments.
_luaperf_command() {
    case $1 in
@commands    *) options= words= ;;
    esac
}

# KIND PREFIX WORD [LUAPERF]: sets COMPREPLY to what can stand for the word, with the prefix before each.
_luaperf_find() {
    local word=$3 before=$2 names
    case $1 in
    event)
        before+=${word%"${word##*,}"} word=${word##*,}
        names=$("$4" list --raw-dump 2>/dev/null) ;;
    process) names=$(cd /proc && echo [0-9]*) ;;
    file | program)
        compopt -o filenames 2>/dev/null
        if [ "$1" = program ]; then
            mapfile -t COMPREPLY < <(compgen -P "$before" -f -X '!*.lua' -- "$word"; compgen -P "$before" -d -- "$word")
            [ ${#COMPREPLY[@]} -eq 0 ] || return
            mapfile -t COMPREPLY < <(compgen -P "$before" -f -- "$word"; compgen -P "$before" -c -- "$word")
            return
        fi
        mapfile -t COMPREPLY < <(compgen -P "$before" -f -- "$word")
        return ;;
    other) names= ;;
    *) names=$1 ;;
    esac
    mapfile -t COMPREPLY < <(compgen -P "$before" -W "$names" -- "$word")
}

_luaperf() {
    local line=${COMP_LINE:0:COMP_POINT} typed all value options words word i breaks= head
    read -ra typed <<<"$line"
    [[ $line != *[[:space:]] ]] || typed+=("")
    all=${#typed[@]} word=${typed[all - 1]} COMPREPLY=()
    if [ "$all" -le 2 ]; then
        _luaperf_find "@names --help --version" "" "$word"
        return
    fi
    _luaperf_command "${typed[1]}"
    for ((i = 2; i < all - 1; i++)); do
        _luaperf_value "${typed[1]}" "${typed[i]}"
        if [ -n "$value" ]; then
            i=$((i + 1))
            [ $i -lt $((all - 1)) ] || break # the word is this value
            value=
        elif [ "$words" = program ] && [[ ${typed[i]} != -?* || ${typed[i]} = -- ]]; then
            words=file options=
            [ "${typed[i]}" != -- ] || [ $i -lt $((all - 2)) ] || words=program
            break
        fi
    done
    head=
    if [ -z "$value" ] && [[ $word == --*=* ]]; then
        head=${word%%=*}
        _luaperf_value "${typed[1]}" "$head"
        head+== word=${word#*=}
    fi
    if [ -n "$value" ]; then
        _luaperf_find "$value" "$head" "$word" "$1"
    elif [[ $word == -* ]]; then
        _luaperf_find "$options" "" "$word"
    else
        _luaperf_find "${words:-other}" "" "$word" "$1"
    fi
    # readline replaces what comes after the last character that breaks words.
    [[ $COMP_WORDBREAKS != *:* ]] || breaks+=:
    [[ $COMP_WORDBREAKS != *=* ]] || breaks+==
    if [ -n "$breaks" ]; then
        word=${typed[all - 1]}
        head=${word%"${word##*[$breaks]}"}
        COMPREPLY=("${COMPREPLY[@]#"$head"}")
    fi
}
complete -F _luaperf luaperf
]==]

-- A kind as a word for the functions of bash: "event", or the words themselves.
local function kind_of(value) return type(value) == "table" and table.concat(value, " ") or value or "" end

function M.bash()
  local values, commands = {}, {}
  each_command(function(name, command)
    local words = {}
    for _, row in ipairs(options.all(command)) do
      local value, patterns = options.value_of(row), {}
      for i, form in ipairs(options.forms(row)) do
        words[#words + 1], patterns[i] = form, ('"%s %s"'):format(name, form)
      end
      if value then
        values[#values + 1] = ("    %s) value=%s ;;\n"):format(table.concat(patterns, " | "), quoted(kind_of(value)))
      end
    end
    commands[#commands + 1] = ("    %s) options=%s words=%s ;;\n"):format(name, quoted(table.concat(words, " ")),
      quoted(kind_of(command.words)))
  end)
  local parts = { values = table.concat(values), commands = table.concat(commands),
    names = table.concat(require "perf.command".commands, " ") }
  return (BASH:gsub("@(%l+)", parts)) -- other names stay: "${typed[@]}"
end

-- zsh -----------------------------------------------------------------------------------------------------------------

local ZSH = [==[
#compdef luaperf
# Completion of luaperf for zsh, made by luaperf completion zsh.

_luaperf_event() {
  local -a names expl
  names=(${(f)"$($luaperf list --raw-dump 2>/dev/null)"})
  compset -P '*,'
  _wanted events expl event compadd -a names
}

_luaperf_program() {
  if (( CURRENT > 1 )); then
    if [[ $words[1] = *.lua ]]; then _files; else _normal; fi
    return
  fi
  _alternative 'scripts:script:_files -g "*.lua(-.)"' 'commands:program:_command_names -e' 'files:program:_files'
}

_luaperf() {
  local curcontext=$curcontext state line luaperf=$words[1] ret=1
  typeset -A opt_args
  local -a commands
  commands=(
@names  )
  _arguments -C '(- *)'{-h,--help}'[the list of commands]' '(- *)--version[the version]' '1:command:->command' \
    '*::argument:->argument' && ret=0
  case $state in
  command) _describe command commands && ret=0 ;;
  argument)
    case $words[1] in
@commands    esac ;;
  esac
  return ret
}

_luaperf "$@"
]==]

local actions = { event = "_luaperf_event", file = "_files", process = "_pids", program = "_luaperf_program", other = " " }

local function action(value) return type(value) == "table" and "(" .. table.concat(value, " ") .. ")" or actions[value] end

-- A text in the specifications of _arguments and _describe, where brackets and colons have meanings.
local function escaped(text) return (text:gsub("[%[%]:\\]", "\\%0")) end

function M.zsh()
  local names, commands = {}, {}
  each_command(function(name, command)
    names[#names + 1] = ("    %s\n"):format(quoted(name .. ":" .. escaped(command.about)))
    local line = { ("    %s) _arguments -s -S%s"):format(name, command.words == "program" and " -A '-*'" or "") }
    for _, row in ipairs(options.all(command)) do
      local value, forms = options.value_of(row), options.forms(row)
      local again = (row.list or row.times) and "*" or "(" .. table.concat(forms, " ") .. ")"
      for _, form in ipairs(forms) do
        local takes = value and (form:find "^%-%-" and "=" or "+") or ""
        line[#line + 1] = quoted(("%s%s%s[%s]%s"):format(again, form, takes, escaped(help(row)),
          value and (":%s:%s"):format(escaped(row.arg), action(value)) or ""))
      end
    end
    local words = command.words
    if words then
      line[#line + 1] = quoted((words == "program" and "*::%s:%s" or "*:%s:%s"):format(type(words) == "table" and "word" or words,
        action(words)))
    end
    commands[#commands + 1] = table.concat(line, " \\\n      ") .. " && ret=0 ;;\n"
  end)
  return (ZSH:gsub("@(%l+)", { names = table.concat(names), commands = table.concat(commands) }))
end

-- fish ----------------------------------------------------------------------------------------------------------------

local EVENTS = "(__fish_complete_list , 'luaperf list --raw-dump')"

-- The part of fish's `complete` for a value of a kind.
local function fish_value(value)
  if value == "file" then return " -r -F" end
  if value == "program" then return " -k -F -a '(__fish_complete_suffix .lua)'" end
  local list = value == "event" and EVENTS or value == "process" and "(__fish_complete_pids)" or type(value) == "table"
    and table.concat(value, " ") or ""
  return " -x -a " .. '"' .. list .. '"'
end

-- A text as a word of fish, which has two escapes within quotes.
local function fish_quoted(text) return "'" .. text:gsub("[\\']", "\\%0") .. "'" end

function M.fish()
  local out = { "# Completion of luaperf for fish, made by luaperf completion fish.", "complete -c luaperf -f",
    "complete -c luaperf -n __fish_use_subcommand -s h -l help -d 'the list of commands'",
    "complete -c luaperf -n __fish_use_subcommand -l version -d 'the version'" }
  each_command(function(name, command)
    out[#out + 1] = ("complete -c luaperf -n __fish_use_subcommand -a %s -d %s"):format(name, fish_quoted(command.about))
    local begin = ("complete -c luaperf -n '__fish_seen_subcommand_from %s'"):format(name)
    for _, row in ipairs(options.all(command)) do
      local value, long = options.value_of(row), options.long(row)
      out[#out + 1] = begin .. (row.short and " -s " .. row.short or "") .. (long and " -l " .. long or "")
        .. (value and fish_value(value) or "") .. " -d " .. fish_quoted(help(row))
    end
    if command.words then out[#out + 1] = begin .. fish_value(command.words):gsub(" %-r", "") end
  end)
  return table.concat(out, "\n") .. "\n"
end

-- The library's names ---------------------------------------------------------------------------------------------------

function M.words_of_library()
  local out, seen = {}, {}
  local function add(word)
    if not seen[word] then seen[word], out[#out + 1] = true, word end
  end
  add "perf"
  for _, group in ipairs(require "perf.api") do
    local prefix = group.name and "perf." .. group.name or "perf"
    add(prefix)
    for _, row in ipairs(group) do add(prefix .. "." .. row[1]) end
  end
  for _, class in ipairs(require "perf.api.classes") do
    for _, rows in ipairs { class, class.fields or {} } do
      for _, row in ipairs(rows) do add(row[1]) end
    end
  end
  for _, rows in pairs_of(require "perf.api.options") do
    for _, row in ipairs(rows) do add(row[1]) end
  end
  table.sort(out)
  return table.concat(out, "\n") .. "\n"
end

local texts = { bash = M.bash, zsh = M.zsh, fish = M.fish, words = M.words_of_library }

-- Run the command. @return exit status; or nil, message, code
function M.run(_, words)
  local text = texts[words[1]]
  if not text or words[2] then
    local what = words[1] and not text and ("unknown shell '%s'"):format(words[1]) or "one shell is expected"
    return nil, ("%s: %s"):format(what, M.usage), "USAGE"
  end
  local ok, message, code = require "perf.command.terminal".write(text())
  return ok and 0, message, code
end

return M
