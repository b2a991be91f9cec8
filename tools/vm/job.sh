#!/bin/sh
# Inside the guest: runs the given specs, and prints the totals and failures in a form that tools/vm/test.sh finds in the
# console's output. /job/settings sets LUAS, SPECS, PERF_VM and so on.
cd /job/tree || exit 1
. /job/settings
export PERF_VM
export BUILD=/job/out PERF_TOTALS=/tmp/totals PERF_FAILED=/tmp/failed SUITE_TIMEOUT=$LIMIT SUITE_JOBS SUITE_SLOW PERF_MUST
# The kernel's own default, for which the suite is written; Debian's is 3. Specs that need another level set it.
echo 2 >/proc/sys/kernel/perf_event_paranoid
# Counters are read without a system call, if that is possible, in every spec.
[ ! -e /proc/sys/kernel/perf_user_access ] || echo 1 >/proc/sys/kernel/perf_user_access
# If the time is over, it still prints the results so far.
# The shell is that of busybox, which prefers its own commands.
/usr/bin/timeout --foreground "$LIMIT" tools/suite.sh -l "$LUAS" $SPECS
status=$?
[ ! -e /tmp/failed ] || sed 's/^/failed: /' /tmp/failed
echo "totals: $(cat /tmp/totals)"
exit $status
