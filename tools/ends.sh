#!/bin/bash
# make ends: runs spec/soak/ends.lua for NUMBER ends of profiled programs on each installed interpreter.
#
#   tools/ends.sh NUMBER
set -u
make=${MAKE:-make}
build=${BUILD:-build}
case $build in /*) ;; *) build=$PWD/$build ;; esac
failed=0
$make -s -j2 builds || exit 1
for lua in luajit lua5.1 lua5.2 lua5.3 lua5.4; do
    [ -e "$build/$lua/testkit.so" ] || continue
    env LUA_INIT= LUA_PATH="./?.lua;./?/init.lua;./lua/?.lua;./lua/?/init.lua;;" LUA_CPATH="$build/$lua/?.so;;" \
        ENDS="${1:?number}" "$lua" spec/soak/ends.lua || failed=1
done
[ "$failed" -eq 0 ]
