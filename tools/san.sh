#!/bin/bash
# The suite under AddressSanitizer and UBSan, on LuaJIT and Lua 5.4: one with memory of its own, one
# with malloc. The interpreter is the system's, so the sanitizer's library is preloaded.
set -u
make=${MAKE:-make}
cc=${CC:-cc}
for lua in luajit lua5.4; do
    $make -s -j2 SAN=1 LUA=$lua all testkit || exit 1
done
export PERF_SAN=1 BUILD=build-san SUITE_NAME=san
export ASAN_OPTIONS="detect_leaks=1:abort_on_error=0:strict_string_checks=1"
export LSAN_OPTIONS="suppressions=$PWD/spec/support/lsan.supp:print_suppressions=0"
export UBSAN_OPTIONS="print_stacktrace=1"
dirs=()
for d in spec/unit spec/live spec/regress; do [ -d $d ] && dirs+=("$d"); done
SUITE_PRELOAD=$($cc -print-file-name=libasan.so) tools/suite.sh -l "luajit lua5.4" "${dirs[@]}"
