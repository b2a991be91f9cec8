#!/bin/bash
# make soak: spec/soak/soak.lua on LuaJIT and Lua 5.4, half of the time on each.
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
for lua in luajit lua5.4; do
    $make -s -j2 LUA=$lua all testkit || exit 1
    if env MALLOC_ARENA_MAX=1 PERF_MEMORY_AS_IS=1 LUA_INIT= LUA_PATH="./?.lua;./?/init.lua;./lua/?.lua;./lua/?/init.lua;;" LUA_CPATH="$build/$lua/?.so;;" \
        SOAK_SECONDS=$((${1:?seconds} / 2)) timeout $(($1 / 2 + 120)) $lua spec/soak/soak.lua 2>&1 | tee "$log"; then
        pass=$((pass + 1))
    else
        fail=$((fail + 1))
        echo "soak: FAILED on $lua"
        tail -n 3 "$log" | tools/failed.sh add soak $lua "" spec/soak/soak.lua
    fi
done
[ -z "${PERF_TOTALS:-}" ] || echo "soak $pass $fail 0" >>"$PERF_TOTALS"
[ "$fail" -eq 0 ]
