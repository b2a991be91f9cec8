#!/bin/bash
# Runs busted specs on each interpreter, and prints the results of each.
#
#   tools/suite.sh [-l "luajit lua5.4"] [-f FILTER] PATH...
#
# For each interpreter with a build it prints: passed, failed, skipped, and the unmet needs with the number of specs that each
# skipped; at the end the total alone on a line. A run that crashes or does not end in time counts as one more failure, and
# another process runs the files that it had not begun. The exit status is 1 if anything failed.
#
# Up to four processes share an interpreter's files: each takes the next file that no other process has begun. A file with a
# comment that has "Once: REASON" does not depend on the interpreter: only the first one runs it. With "Twice: REASON" it hardly
# depends on it: the first and the last one run it (LuaJIT and Lua 5.4). A file with "Long: REASON" depends on the interpreter and
# takes long: it begins before the others; for SUITE_LONG see below. With "Later: REASON", beside one
# of these words or alone, a file takes long, and when it fails, others mostly fail too: `make test` leaves it out, and `make
# test-long` runs it.
#
#   BUILD=build          the directory of the interpreters' modules
#   SUITE_TIMEOUT=1500   seconds for one process
#   SUITE_JOBS=N         how many processes run at once; by default three per CPU, since many specs wait, but at most one per
#                        512 MiB of memory; 1 for specs that need the machine for themselves
#   SUITE_LONG=ends      a shorter run: files with "Long" run on the first and the last interpreter, files with "Twice" on the
#                        first. SUITE_LONG=test is the same without files with "Later". SUITE_LONG=rest runs only what "test"
#                        leaves out. By default, files with "Long" run on each
#   SUITE_PRELOAD=       a library for LD_PRELOAD of the interpreter (a sanitizer's)
#   SUITE_SLOW=10        how many of the slowest specs are named, of those that took more than a second
#   PERF_TOTALS=FILE     gets "NAME passed failed skipped" of this run, for .ci/run
#   PERF_FAILED=FILE     gets a line for each failure: see tools/failed.sh
#   SUITE_NAME=suite     the NAME
set -u
umask 022 # other users read files of specs
unset COLUMNS # texts are wrapped at this width, if it is set
unset "${!OTEL_@}" # tracers read their settings from these
ulimit -c 0
lua_list="luajit lua5.1 lua5.2 lua5.3 lua5.4"
filter=()
while getopts l:f: opt; do
    case $opt in
    l) lua_list=$OPTARG ;;
    f) filter=("--filter=$OPTARG") ;;
    *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))
name=${SUITE_NAME:-suite}
files=()
for p in "$@"; do
    [ ! -e "$p" ] || while read -r f; do files+=("$f"); done < <(find "$p" -type f \( -name '*_spec.lua' -o -path "$p" \) | sort)
done
[ ${#files[@]} -gt 0 ] || { echo "no specs at: $*" >&2; exit 2; }

work=$(mktemp -d) || exit
trap 'kill $(jobs -p) 2>/dev/null; rm -rf "$work"' EXIT
# Specs put the path of this tree into commands without quotes. So a tree whose path has spaces or the like is entered by a link.
case $PWD in
*[!a-zA-Z0-9/._-]*)
    chmod 711 "$work"
    { ln -s "$PWD" "$work/tree" && cd "$work/tree"; } || exit 1
    ;;
esac
build=${BUILD:-build}
case $build in /*) ;; *) build=$PWD/$build ;; esac
# After a signal it still prints the results so far.
stopped=
trap 'stopped=1; kill $(jobs -p) 2>/dev/null' TERM HUP
trap 'stopped=interrupted; kill $(jobs -p) 2>/dev/null' INT

# The result lines of an interpreter's processes are in one file each. Prints "passed failed skipped", then "need COUNT NEED"
# lines.
tally() {
    awk '
        $1 == "pass" { pass++ }
        $1 == "fail" { fail++ }
        $1 == "skip" { skip++; n = split(substr($0, 6), a, "; "); for (i = 1; i <= n; i++) need[a[i]]++ }
        END {
            printf "%d %d %d\n", pass, fail, skip
            for (k in need) printf "need %d %s\n", need[k], k | "sort -k2,2nr -k3"
        }' "$@"
}

# A sanitizer's findings in an output file: the first report, and the first line in our code.
findings() {
    grep -a -m 1 -oE '(ERROR|WARNING): [A-Za-z]+Sanitizer: .*|[^ ]*: runtime error: .*' "$1" || return 0
    grep -a -m 1 -oE ' in [^ ]+ [^ ]*csrc/[^ ]+' "$1"
}

# A process of an interpreter: its output is in $work/$lua.$i.out, its result lines in .result, its status in .status.
process() { # interpreter number
    local lua=$1 unit=$work/$1.$2 child status
    trap 'stopped=1; kill "$child" 2>/dev/null' INT TERM HUP
    env LUA_INIT= LUA_PATH="./?.lua;./?/init.lua;./lua/?.lua;./lua/?/init.lua;;" LUA_CPATH="$build/$lua/?.so;;" \
        PERF_RESULT="$unit.result" SUITE_LEFT="$work/$lua.left" SUITE_BEGUN="$work/$lua.begun" \
        ${SUITE_PRELOAD:+LD_PRELOAD="$SUITE_PRELOAD"} timeout --foreground -k 10 "${SUITE_TIMEOUT:-1500}" \
        "$lua" spec/support/run.lua --helper=spec/support/init.lua --output=spec/support/report.lua \
        "${filter[@]}" "${files[@]}" </dev/null >"$unit.out" 2>&1 &
    child=$!
    wait $child
    status=$?
    [ -z "$stopped" ] || wait $child
    echo $status >"$unit.status"
} 2>/dev/null # the shell's message about a crash, which is explained below

left() { ls "$work/$1.left"; } # the files that no process of this interpreter has begun
died() { ! grep -q '^done' "$1.result" 2>/dev/null; }

# If the end of a process is a failure itself: prints it, and adds it to the list.
ending() { # interpreter unit
    local status what
    status=$(cat "$2.status" 2>/dev/null)
    if died "$2"; then
        what="ended with status ${status:-unknown} in: $(awk '
            $1 == "start" { at = substr($0, 7) }
            $1 == "pass" || $1 == "fail" || $1 == "skip" { at = "" }
            END { print at == "" ? "(between specs)" : at }' "$2.result" 2>/dev/null)"
    elif [ "$status" != 0 ] && ! grep -q '^fail' "$2.result"; then
        what="ended with status $status after the last spec" # a sanitizer's message at the exit, or an error of busted itself
    else
        return 1
    fi
    echo "$1: $what"
    findings "$2.out" | tools/failed.sh add "$name" "$1" "" "$what"
}

# After all processes of an interpreter have ended: prints its results, and adds them to the totals.
summary() { # interpreter seconds
    local lua=$1 unit pass fail skip
    for unit in "$work/$lua".*.out; do
        unit=${unit%.out}
        touch "$unit.result"
        cat "$unit.out"
    done
    tally "$work/$lua".*.result >"$work/$lua.tally"
    read -r pass fail skip <"$work/$lua.tally"
    [ -z "${PERF_FAILED:-}" ] || sed -n "s/^why /$name\t$lua\t/p" "$work/$lua".*.result >>"$PERF_FAILED"
    if [ "$stopped" = interrupted ]; then # the rest did not run, which is no failure
        echo "$lua: interrupted: $pass passed, $fail failed, $skip skipped, in $2 s"
        total_pass=$((total_pass + pass)) total_fail=$((total_fail + fail)) total_skip=$((total_skip + skip))
        return
    fi
    for unit in "$work/$lua".*.out; do
        if ending "$lua" "${unit%.out}"; then fail=$((fail + 1)); fi
    done
    if [ "$fail" -eq 0 ] && { [ $((pass + skip)) -eq 0 ] || [ -n "$(left "$lua")" ]; }; then
        echo "$lua: no spec ran, or not all files: $(left "$lua" | tr '\n' ' ')"
        tools/failed.sh add "$name" "$lua" "" "no spec ran" </dev/null
        fail=1
    fi
    echo "$lua: $pass passed, $fail failed, $skip skipped, in $2 s"
    sed -n 's/^need \([0-9]*\) \(.*\)/    \1 for lack of \2/p' "$work/$lua.tally"
    total_pass=$((total_pass + pass)) total_fail=$((total_fail + fail)) total_skip=$((total_skip + skip))
}

# Print how many MiB of memory the processes may use: those of the machine, or fewer if a cgroup limits them.
memory() {
    local least kind path group bytes
    least=$(($(sed -n 's/^MemTotal: *\([0-9]*\) kB$/\1/p' /proc/meminfo) << 10))
    while IFS=: read -r _ kind path; do
        case ,$kind, in ,,) group=/sys/fs/cgroup ;; *,memory,*) group=/sys/fs/cgroup/memory ;; *) continue ;; esac
        while
            while read -r bytes; do
                [ "$bytes" = max ] || least=$((bytes < least ? bytes : least))
            done < <(cat "$group$path/memory.max" "$group$path/memory.limit_in_bytes")
            [ -n "$path" ]
        do path=${path%/*}; done # the limits of the groups above apply too
    done </proc/self/cgroup
    echo $((least >> 20))
} 2>/dev/null

jobs=$((3 * $(nproc))) few=$(($(memory) / 512)) # a process needs up to 240 MiB, and each of its forks may need as much
[ "$jobs" -le $few ] || jobs=$((few > 1 ? few : 1))
jobs=${SUITE_JOBS:-$jobs}
most=$((jobs < 4 ? jobs : 4)) # processes of an interpreter
[ "$most" -le ${#files[@]} ] || most=${#files[@]}
total_pass=0 total_fail=0 total_skip=0 luas=() queue=() rest=()
declare -A begun=() of=() only=() later=()
for lua in $lua_list; do
    if [ ! -e "$build/$lua/testkit.so" ]; then
        echo "$lua: not built here (no interpreter or no headers), left out"
        continue
    fi
    # Debian's lua-busted drops old versions of Lua before Debian drops their interpreters.
    if ! LUA_INIT='' "$lua" -e 'require "busted.runner"' >/dev/null 2>&1; then
        echo "$lua: busted is not installed for it, left out"
        continue
    fi
    luas+=("$lua")
done
while IFS=: read -r f word; do only[$f]=$word; done < <(grep -oE '^--.* (Once|Twice|Long): ' "${files[@]}" /dev/null |
    sed -E 's/:.* (Once|Twice|Long): $/:\1/')
while read -r f; do later[$f]=1; done < <(grep -lE '^--.* Later: ' "${files[@]}")
# Those with "Long" or "Later" come first, so that at the end no CPU waits for one of them.
long=() others=()
for f in "${files[@]}"; do
    if [ "${only[$f]:-}" = Long ] || [ -n "${later[$f]:-}" ]; then long+=("$f"); else others+=("$f"); fi
done
files=("${long[@]}" "${others[@]}")
for lua in "${luas[@]}"; do
    mkdir "$work/$lua.left" "$work/$lua.begun"
    for f in "${files[@]}"; do
        part=${SUITE_LONG:-}
        case ${later[$f]:-0}.$part in
        1.test) continue ;;
        1.rest) part= ;; # all of it
        0.test) part=ends ;;
        esac
        case ${only[$f]:-}.$part in
        Once. | Once.ends | Twice.ends) [ "$lua" = "${luas[0]}" ] || continue ;;
        Twice. | Long.ends) [[ $lua == "${luas[0]}" || $lua == "${luas[-1]}" ]] || continue ;;
        Twice.rest) [[ $lua != "${luas[0]}" && $lua == "${luas[-1]}" ]] || continue ;;
        Long.rest) [[ $lua != "${luas[0]}" && $lua != "${luas[-1]}" ]] || continue ;;
        *.rest) continue ;;
        esac
        : >"$work/$lua.left/${f//\//%}"
    done
    for ((i = 0; i < most; i++)); do
        if [[ $lua == "${luas[0]}" || $lua == "${luas[-1]}" ]]; then queue+=("$lua $i"); else rest+=("$lua $i"); fi
    done
done
queue+=("${rest[@]}") # the first and the last interpreter have the most files, so they begin
# The output of an interpreter is shown when all its processes have ended.
while :; do
    while [ ${#queue[@]} -gt 0 ] && [ -z "$stopped" ] && [ ${#of[@]} -lt "$jobs" ]; do
        read -r lua i <<<"${queue[0]}"
        queue=("${queue[@]:1}")
        [ -n "$(left "$lua")" ] || continue
        [ -n "${begun[$lua]:-}" ] || begun[$lua]=$SECONDS
        process "$lua" "$i" &
        of[$!]="$lua $i"
    done
    [ ${#of[@]} -gt 0 ] || break
    wait -n "${!of[@]}"
    for pid in "${!of[@]}"; do
        if kill -0 "$pid" 2>/dev/null; then continue; fi
        read -r lua i <<<"${of[$pid]}"
        unset "of[$pid]"
        if died "$work/$lua.$i" && [ -n "$(left "$lua")" ] && [ "$i" -lt $((most + 4)) ]; then queue+=("$lua $((i + most))"); fi
        if [[ " ${of[*]} " == *" $lua "* ]]; then continue; fi
        if [[ -n $stopped || " ${queue[*]} " != *" $lua "* || -z "$(left "$lua")" ]]; then
            summary "$lua" $((SECONDS - begun[$lua]))
        fi
    done
done
if [ ${#luas[@]} -eq 0 ]; then
    echo "none of these interpreters has both the module and busted: $lua_list" >&2
    total_fail=1
fi
if [ -n "${SUITE_SLOW:-}" ]; then
    echo "The slowest, in seconds:"
    for lua in "${luas[@]}"; do cat "$work/$lua".*.result | sed -n "s/^slow \([0-9.]*\)/    \1 $lua/p"; done |
        sort -k 1,1 -nr | head -n "$SUITE_SLOW"
fi
[ -z "${PERF_TOTALS:-}" ] || echo "$name $total_pass $total_fail $total_skip" >>"$PERF_TOTALS"
echo "$total_pass passed, $total_fail failed, $total_skip skipped"
[ "$stopped" != interrupted ] || exit 130
[ "$total_fail" -eq 0 ]
