#!/bin/bash
# make soak: two programs of spec/soak side by side: soak.lua on LuaJIT and then on Lua 5.4, profiled.lua on one interpreter after
# the other.
#
#   tools/soak.sh SECONDS
#
#   PERF_TOTALS=FILE     gets "soak passed failed skipped"
set -u -o pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'kill $(jobs -p) 2>/dev/null; exit 1' INT TERM HUP
make=${MAKE:-make}
build=${BUILD:-build}
case $build in /*) ;; *) build=$PWD/$build ;; esac
# soak PROGRAM SECONDS INTERPRETER...
soak() {
    local program=spec/soak/$1.lua seconds=$2 log=$work/$1.last lua
    shift 2
    seconds=$((seconds / $#))
    for lua; do
        # A Lua stack that has overflowed has 16 MB. When it is freed, malloc would raise its threshold for large blocks to that size,
        # and might then keep as much memory, so the threshold is fixed.
        if env MALLOC_ARENA_MAX=1 MALLOC_MMAP_THRESHOLD_=131072 PERF_MEMORY_AS_IS=1 \
            LUA_INIT= LUA_PATH="./?.lua;./?/init.lua;./lua/?.lua;./lua/?/init.lua;;" LUA_CPATH="$build/$lua/?.so;;" \
            SOAK_SECONDS=$seconds timeout $((seconds + 120)) "$lua" "$program" 2>&1 | tee "$log"; then
            echo "$program $lua" >>"$work/passed"
        else
            echo "$program $lua" >>"$work/failed"
            echo "soak: FAILED on $lua"
            tail -n 3 "$log" | tools/failed.sh add soak "$lua" "" "$program"
        fi
    done
}
luas=()
$make -s -j2 builds || exit 1
for lua in luajit lua5.1 lua5.2 lua5.3 lua5.4; do
    if [ -e "$build/$lua/testkit.so" ]; then luas+=("$lua"); fi
done
touch "$work/passed" "$work/failed"
soak profiled "${1:?seconds}" "${luas[@]}" >"$work/profiled.log" &
soak soak "$1" luajit lua5.4
wait
cat "$work/profiled.log"
[ -z "${PERF_TOTALS:-}" ] || echo "soak $(wc -l <"$work/passed") $(wc -l <"$work/failed") 0" >>"$PERF_TOTALS"
[ ! -s "$work/failed" ]
