#!/bin/bash
# Starts a guest, runs a script in it, and exits with the script's status (124: it did not end in time, 125: it ended without a
# status).
#
#   tools/vm/run.sh arm64|amd64 DIR JOB [QEMU OPTION...]
#
# tools/vm/root.sh made DIR; JOB is a cpio archive with job/run.sh, which is laid over the root. The guest's console goes to
# stdout. VM_TIMEOUT=120: its time limit in seconds.
set -u
arch=${1:?arm64 or amd64}
dir=${2:?directory}
job=${3:?archive}
shift 3

# nokaslr and no cryptomgr.notests save half a second of the start.
append="rdinit=/init panic=-1 quiet loglevel=0 cryptomgr.notests nokaslr"
common=(-m 1G -display none -nodefaults -serial stdio -no-reboot -net none -kernel "$dir/vmlinuz")
case $arch in
arm64)
    # The PMU needs a CPU with 64-bit counters (max). Emulating pointer authentication with the architected cipher would take most
    # of the time.
    machine=(qemu-system-aarch64 -M "virt,gic-version=3" -cpu "max,pauth-impdef=on"
        -semihosting-config "enable=on,userspace=on,target=native")
    append="console=ttyAMA0 $append"
    ;;
amd64)
    machine=(qemu-system-x86_64 -accel tcg -M q35 -cpu max -device "isa-debug-exit,iobase=0xf4,iosize=4")
    append="console=ttyS0 $append"
    ;;
*) exit 2 ;;
esac

initrd=$(mktemp "$dir/initrd.XXXXXX")
trap 'rm -f "$initrd"' EXIT
cat "$dir/base.cpio" "$job" >"$initrd"
timeout --foreground -k 5 "${VM_TIMEOUT:-120}" "${machine[@]}" "${common[@]}" -initrd "$initrd" "$@" -append "$append" </dev/null |
    sed -u 's/\r$//'
status=${PIPESTATUS[0]}
case $status in
124 | 137) exit 124 ;;
esac
if [ $((status % 2)) -eq 0 ]; then exit 125; fi
exit $((status / 2))
