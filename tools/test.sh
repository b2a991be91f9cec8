#!/bin/bash
# make test: installs what the tests need, builds for every interpreter found, runs the lint and the whole suite on each, and ends
# with the total alone on a line. `make test-long` runs what this leaves out: see SUITE_LONG in tools/suite.sh.
#
# PERF_TOTALS=FILE gets "test passed failed skipped", and PERF_FAILED=FILE a line for each failure, for .ci/run. PERF_NO_SETUP=1
# installs nothing. PERF_NO_LINT=1 leaves out the lint. PERF_LUAS="luajit lua5.4" sets the interpreters; all five by default.
set -u
make=${MAKE:-make}
if [ -z "${PERF_NO_SETUP:-}" ]; then tools/setup.sh test || exit 1; fi

if [ "$(id -u)" -eq 0 ] && [ ! -e /sys/kernel/tracing/events/header_page ]; then
    if mount -t tracefs tracefs /sys/kernel/tracing 2>/dev/null; then
        echo "tracefs was not mounted: mounted at /sys/kernel/tracing"
    else
        echo "tracefs is not mounted, and cannot be mounted here: its specs are skipped"
    fi
fi

totals=$(mktemp)
list=$(mktemp)
lint=$(mktemp)
given=${PERF_FAILED:-}
export PERF_FAILED=$list
trap 'rm -f "$totals" "$list" "$lint"' EXIT
interrupted=
trap 'interrupted=1' INT
trap : TERM HUP # the running processes end by themselves, and the totals are still printed
found=() built=()
for lua in ${PERF_LUAS:-luajit lua5.1 lua5.2 lua5.3 lua5.4}; do
    if ! command -v $lua >/dev/null || ! $make -s headers LUA=$lua >/dev/null 2>&1; then
        echo "$lua: not here, or without headers: left out"
    else
        found+=("$lua")
    fi
done
if $make -s -k -j"$(nproc)" builds BUILDS="${found[*]}"; then
    built=("${found[@]}")
else
    for lua in "${found[@]}"; do
        if $make -s LUA=$lua all testkit >/dev/null 2>&1; then
            built+=("$lua")
        else
            echo "$lua: the build failed"
            echo "build 0 1 0" >>"$totals"
            tools/failed.sh add build $lua "" "the build failed" </dev/null
        fi
    done
fi

dirs=()
for d in spec/live spec/regress spec/unit; do # those of the longest specs first
    if [ -n "$(find $d -name '*_spec.lua' 2>/dev/null)" ]; then dirs+=("$d"); fi
done
grep -q '^build ' "$totals" || export LINT_BUILT=${BUILD:-build}
# The lint uses one CPU most of the time, and the suite often waits: they run side by side.
[ -n "${PERF_NO_LINT:-}" ] || PERF_TOTALS=$totals tools/lint.sh >"$lint" 2>&1 &
PERF_TOTALS=$totals SUITE_NAME=test SUITE_LONG=test SUITE_SLOW=${SUITE_SLOW:-10} tools/suite.sh -l "${built[*]}" "${dirs[@]}"
wait
cat "$lint"
grep -q "^test " "$totals" || echo "test 0 1 0" >>"$totals"

if [ -n "$interrupted" ]; then
    echo
    echo "interrupted: not all specs ran"
    exit 130
fi
read -r p f s < <(awk '{ p += $2; f += $3; s += $4 } END { print p + 0, f + 0, s + 0 }' "$totals")
[ -z "${PERF_TOTALS:-}" ] || echo "test $p $f $s" >>"$PERF_TOTALS"
[ -z "$given" ] || cat "$list" >>"$given"
if [ -s "$list" ]; then
    echo
    echo "Failed:"
    tools/failed.sh list
fi
echo
echo "$p passed, $f failed, $s skipped"
[ "$f" -eq 0 ] && [ "$p" -gt 0 ]
