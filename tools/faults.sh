#!/bin/bash
# make faults: the specs of spec/fault on every installed interpreter.
#
#   tools/faults.sh N
#
# N is the largest number of places of one kind that are tried in a function. System calls and descriptors fail on LuaJIT, which
# calls the core through FFI, and if N is at least 10 also on Lua 5.4, which calls it through the C API.
#
#   PERF_TOTALS=FILE     gets "faults passed failed skipped", twice
set -u
make=${MAKE:-make}
export FAULTS=${1:?places} SUITE_NAME=faults
$make -s -j2 builds || exit 1
both="luajit lua5.4"
[ "$FAULTS" -ge 10 ] || both=luajit
# The two suites run side by side, since the longest file of the first one takes more than half of the time.
log=$(mktemp)
trap 'rm -f "$log"' EXIT
trap 'kill $(jobs -p) 2>/dev/null; wait; cat "$log"; exit 1' INT TERM HUP
tools/suite.sh spec/fault/memory_spec.lua spec/fault/table_spec.lua >"$log" 2>&1 &
memory=$!
tools/suite.sh -l "$both" spec/fault/calls_spec.lua spec/fault/descriptors_spec.lua spec/fault/cold_spec.lua &
status=0
wait $! || status=1
wait $memory || status=1
cat "$log"
exit $status
