#!/bin/bash
# make soak: two programs of spec/soak, half of the time for each: soak.lua on LuaJIT and Lua 5.4, profiled.lua on each interpreter.
#
#   tools/soak.sh SECONDS
#
#   PERF_TOTALS=FILE     gets "soak passed failed skipped"
set -u -o pipefail
log=$(mktemp)
trap 'rm -f "$log"' EXIT
make=${MAKE:-make}
build=${BUILD:-build}
case $build in /*) ;; *) build=$PWD/$build ;; esac
pass=0 fail=0
# soak PROGRAM SECONDS INTERPRETER...
soak() {
    local program=spec/soak/$1.lua seconds=$2 lua
    shift 2
    seconds=$((seconds / $#))
    for lua; do
        # A Lua stack that has overflowed has 16 MB. When it is freed, malloc would raise its threshold for large blocks to that size,
        # and might then keep as much memory, so the threshold is fixed.
        if env MALLOC_ARENA_MAX=1 MALLOC_MMAP_THRESHOLD_=131072 PERF_MEMORY_AS_IS=1 \
            LUA_INIT= LUA_PATH="./?.lua;./?/init.lua;./lua/?.lua;./lua/?/init.lua;;" LUA_CPATH="$build/$lua/?.so;;" \
            SOAK_SECONDS=$seconds timeout $((seconds + 120)) "$lua" "$program" 2>&1 | tee "$log"; then
            pass=$((pass + 1))
        else
            fail=$((fail + 1))
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
soak soak $((${1:?seconds} / 2)) luajit lua5.4
soak profiled $(($1 / 2)) "${luas[@]}"
[ -z "${PERF_TOTALS:-}" ] || echo "soak $pass $fail 0" >>"$PERF_TOTALS"
[ "$fail" -eq 0 ]
