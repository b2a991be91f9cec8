#!/bin/bash
# Runs busted specs on one interpreter after another and says how each went.
#
#   tools/suite.sh [-l "luajit lua5.4"] [-f FILTER] PATH...
#
# For each interpreter that was built: passed, failed, skipped, and for which needs how many were
# skipped; at the end the total alone on a line. A run that crashes or does not end in time counts
# as one failure more. Exit status 1 when anything failed.
#
#   BUILD=build          where the interpreters' modules are
#   SUITE_TIMEOUT=1500   seconds for one interpreter
#   SUITE_JOBS=1         how many interpreters run at once
#   SUITE_PRELOAD=       a library for LD_PRELOAD of the interpreter (a sanitizer's)
#   SUITE_SLOW=1         names the specs that took more than a second
#   PERF_TOTALS=FILE     gets "NAME passed failed skipped" of this run, for .ci/run
#   PERF_FAILED=FILE     gets a line for each failure: see tools/failed.sh
#   SUITE_NAME=suite     the NAME
set -u
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
build=${BUILD:-build}
case $build in /*) ;; *) build=$PWD/$build ;; esac
paths=()
for p in "$@"; do [ -e "$p" ] && paths+=("$p"); done
[ ${#paths[@]} -gt 0 ] || { echo "no specs at: $*" >&2; exit 2; }

work=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null; rm -rf "$work"' EXIT
# Ended from outside, it still says what it knows.
stopped=
trap 'stopped=1; kill $(jobs -p) 2>/dev/null' INT TERM HUP

# stdin: result lines. Prints "passed failed skipped", then "count need" lines, then the spec that
# was running when the run died.
tally() {
    awk '
        $1 == "start" { running = substr($0, 7) }
        $1 == "pass" { pass++; running = "" }
        $1 == "fail" { fail++; running = "" }
        $1 == "skip" { skip++; running = ""; n = split(substr($0, 6), a, "; "); for (i = 1; i <= n; i++) need[a[i]]++ }
        $1 == "done" { done = 1 }
        END {
            if (!done) fail++
            printf "%d %d %d\n", pass, fail, skip
            for (k in need) printf "need %d %s\n", need[k], k | "sort -k2,2nr -k3"
            close("sort -k2,2nr -k3")
            if (!done) printf "died %s\n", running == "" ? "(between specs)" : running
        }' "$1"
}

# What an output file says of a sanitizer's findings: the first report, and the first place in our code.
findings() {
    grep -a -m 1 -oE '(ERROR|WARNING): [A-Za-z]+Sanitizer: .*|[^ ]*: runtime error: .*' "$1" || return 0
    grep -a -m 1 -oE ' in [^ ]+ [^ ]*csrc/[^ ]+' "$1"
}
failed() { # interpreter, what ended
    { findings "$work/$1.out"; } | tools/failed.sh add "$name" "$1" "" "$2"
}

# One interpreter: prints how it went, and leaves its counts in $work/$lua.counts.
suite() {
    local lua=$1 result=$work/$1 start=$SECONDS status pass fail skip child died
    : >"$result"
    trap 'stopped=1; kill "$child" 2>/dev/null' INT TERM HUP
    env LUA_INIT= LUA_PATH="./?.lua;./?/init.lua;./lua/?.lua;./lua/?/init.lua;;" LUA_CPATH="$build/$lua/?.so;;" \
        PERF_RESULT="$result" ${SUITE_PRELOAD:+LD_PRELOAD="$SUITE_PRELOAD"} \
        timeout --foreground -k 10 "${SUITE_TIMEOUT:-1500}" \
        "$lua" spec/support/run.lua --helper=spec/support/init.lua --output=spec/support/report.lua \
        "${filter[@]}" "${paths[@]}" </dev/null &
    child=$!
    wait $child
    status=$?
    [ -z "$stopped" ] || wait $child
    [ -z "${PERF_FAILED:-}" ] || sed -n "s/^why /$name\t$lua\t/p" "$result" >>"$PERF_FAILED"
    tally "$result" >"$result.tally"
    read -r pass fail skip <"$result.tally"
    if grep -q '^died' "$result.tally"; then
        died="ended with status $status in: $(sed -n 's/^died //p' "$result.tally")"
        echo "$lua: $died"
        failed "$lua" "$died"
    elif [ "$status" -ne 0 ] && [ "$fail" -eq 0 ]; then
        # A sanitizer's word at the exit, or an error of busted's own.
        echo "$lua: ended with status $status after the last spec"
        failed "$lua" "ended with status $status after the last spec"
        fail=1
    fi
    if [ $((pass + fail + skip)) -eq 0 ]; then
        echo "$lua: no spec ran"
        failed "$lua" "no spec ran"
        fail=1
    fi
    echo "$lua: $pass passed, $fail failed, $skip skipped, in $((SECONDS - start)) s"
    sed -n 's/^need \([0-9]*\) \(.*\)/    \1 for want of \2/p' "$result.tally"
    [ -z "${SUITE_SLOW:-}" ] || sed -n 's/^slow /    slow: /p' "$result"
    echo "$pass $fail $skip" >"$result.counts"
}

# What each says is shown when it is done, in the order of the list.
jobs=${SUITE_JOBS:-1}
total_pass=0 total_fail=0 total_skip=0 ran=()
for lua in $lua_list; do
    if [ ! -e "$build/$lua/testkit.so" ]; then
        echo "$lua: not built here (no interpreter or no headers), left out"
        continue
    fi
    while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do wait -n; done
    [ -z "$stopped" ] || break
    suite "$lua" >"$work/$lua.out" 2>&1 &
    ran+=("$lua $!")
done
for r in "${ran[@]}"; do
    read -r lua pid <<<"$r"
    wait "$pid"
    [ -z "$stopped" ] || wait "$pid"
    cat "$work/$lua.out"
    if ! read -r pass fail skip 2>/dev/null <"$work/$lua.counts"; then
        echo "$lua: the suite did not get to its end"
        pass=0 fail=1 skip=0
    fi
    total_pass=$((total_pass + pass)) total_fail=$((total_fail + fail)) total_skip=$((total_skip + skip))
done
if [ ${#ran[@]} -eq 0 ]; then
    echo "no interpreter of: $lua_list was built" >&2
    total_fail=1
fi
[ -z "${PERF_TOTALS:-}" ] || echo "$name $total_pass $total_fail $total_skip" >>"$PERF_TOTALS"
echo "$total_pass passed, $total_fail failed, $total_skip skipped"
[ "$total_fail" -eq 0 ]
