#!/bin/sh
# Inside the guest: runs the specs that it was told to, and says the totals and failures in a form that tools/vm/test.sh finds in
# what the console printed. /job/settings sets LUAS, SPECS and PERF_VM.
cd /job/tree || exit 1
. /job/settings
export PERF_VM
export SUITE_JOBS=1 BUILD=/job/out PERF_TOTALS=/tmp/totals PERF_FAILED=/tmp/failed SUITE_TIMEOUT SUITE_SLOW PERF_MUST
# The kernel's own default, which the suite is written for; Debian's is 3. Specs that want another set it.
echo 2 >/proc/sys/kernel/perf_event_paranoid
# Counters are read without a system call where that is possible, in every spec.
[ ! -e /proc/sys/kernel/perf_user_access ] || echo 1 >/proc/sys/kernel/perf_user_access
tools/suite.sh -l "$LUAS" $SPECS
status=$?
[ ! -e /tmp/failed ] || sed 's/^/failed: /' /tmp/failed
echo "totals: $(cat /tmp/totals)"
exit $status
