#!/bin/bash
# make test-portable: tests the sources for 32-bit x86 and for musl, as far as one machine can: core, binding and extensions
# compile for i386 without a warning, the core with musl; the fuzz programs and the unit specs run as 32-bit programs
# (tools/i386.sh).
#
#   PERF_TOTALS=FILE    gets "portable passed failed skipped"
#   PERF_NO_SETUP=1     installs nothing
set -u
if [ -z "${PERF_NO_SETUP:-}" ]; then tools/setup.sh i386 || exit 1; fi
pass=0 fail=0 skip=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
warn=(-Wall -Wextra -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wwrite-strings -Wundef -Werror)
flags=(-std=c11 -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 -fPIC -fvisibility=hidden -O2 "${warn[@]}" -Icsrc)
cc32=i686-linux-gnu-gcc

# check COMMAND NAME FUNCTION: status 2 means skipped; the last line of output is the reason.
check() {
    local status=2
    if command -v "$1" >/dev/null; then
        "$3" >"$work/log" 2>&1
        status=$?
    else
        echo "for lack of $1" >"$work/log"
    fi
    case $status in
    0)
        pass=$((pass + 1))
        echo "portable: ok: $2"
        ;;
    2)
        skip=$((skip + 1))
        echo "portable: skipped: $2 ($(tail -n 1 "$work/log"))"
        ;;
    *)
        fail=$((fail + 1))
        echo "portable: FAILED: $2"
        head -n 60 "$work/log" | sed 's/^/    /'
        ;;
    esac
}

built() { tools/i386.sh prepare; }
specs() { tools/i386.sh specs; }
core() { for f in csrc/core/*/*.c; do $cc32 "${flags[@]}" -c "$f" -o "$work/$(basename "$f" .c).o" || return 1; done; }

fuzz() {
    local program f
    for program in spec/fuzz/*_fuzz.c; do
        f=$work/$(basename "$program" .c)
        # shellcheck disable=SC2046 # names of this tree, without blanks
        $cc32 -std=c11 -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 -O2 -g -fstack-protector-all -static -pthread -Icsrc -Ispec/fuzz "$program" \
            $(find spec/fuzz -name '*.c' ! -name '*_fuzz.c') csrc/core/*/*.c -o "$f" -lm || return 1
        "$f" 20000 1 || return 1
    done
}

musl() {
    for f in csrc/core/*/*.c; do
        musl-gcc -std=c11 -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 -fPIC -Wall -Wextra -Werror -O2 -Icsrc -idirafter /usr/include \
            -idirafter "/usr/include/$(uname -m)-linux-gnu" -c "$f" -o /dev/null || return 1
    done
}

check $cc32 "the core compiles for i386" core
check $cc32 "the fuzz programs run on i386" fuzz
check $cc32 "core, binding and extensions are built for i386" built
check $cc32 "the unit specs pass on i386" specs
check musl-gcc "the core compiles with musl" musl

[ -z "${PERF_TOTALS:-}" ] || echo "portable $pass $fail $skip" >>"$PERF_TOTALS"
echo "portable: $pass passed, $fail failed, $skip skipped"
[ "$fail" -eq 0 ]
