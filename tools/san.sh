#!/bin/bash
# Runs the suite under AddressSanitizer and UBSan, on LuaJIT, which has its own allocator, and Lua 5.4, which uses malloc. The
# interpreter is the system's, so the sanitizer's library is preloaded. Without arguments, files that hardly depend on the interpreter
# run on Lua 5.4 alone: there each userdata is a block of malloc too, so that an access beyond it is found. Arguments: other
# directories than the suite's. $SAN_LUAS: the interpreters.
set -u
make=${MAKE:-make}
cc=${CC:-cc}
luas=${SAN_LUAS:-lua5.4 luajit}
$make -s -j2 SAN=1 builds BUILDS="$luas" || exit 1
export PERF_SAN=1 BUILD=build-san SUITE_NAME=${SUITE_NAME:-san}
# Memory that the allocator unmaps would cause faults again while specs count exactly. intercept_tls_get_addr: the sanitizer takes
# the bytes before a thread-local block for its start and size if the block has a certain offset in its page, as one block of 256
# does by chance. LeakSanitizer then reads at a wrong address and dies of signal 11.
export ASAN_OPTIONS="detect_leaks=1:abort_on_error=0:strict_string_checks=1:allocator_release_to_os_interval_ms=-1:intercept_tls_get_addr=0"
export LSAN_OPTIONS="suppressions=$PWD/spec/support/lsan.supp:print_suppressions=0"
export UBSAN_OPTIONS="print_stacktrace=1"
[ $# -gt 0 ] || { export SUITE_LONG=ends; set -- spec/live spec/regress spec/unit; }
SUITE_PRELOAD=$($cc -print-file-name=libasan.so) tools/suite.sh -l "$luas" "$@"
