#!/bin/bash
# make test-portable: the sources for 32-bit x86 and for musl, as far as one machine can tell: core and binding compile for i386
# without a warning, the core with musl, and the fuzz programs run as 32-bit programs.
#
#   PERF_TOTALS=FILE    gets "portable passed failed skipped"
#   PERF_NO_SETUP=1     installs nothing
set -u
if [ -z "${PERF_NO_SETUP:-}" ]; then tools/setup.sh i386 || exit 1; fi
pass=0 fail=0 skip=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
warn=(-Wall -Wextra -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wwrite-strings -Wundef -Werror)
flags=(-std=c11 -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 -fPIC -fvisibility=hidden -O2 "${warn[@]}" -Icsrc/core)
cc32=i686-linux-gnu-gcc

# check COMMAND NAME FUNCTION
check() {
    if ! command -v "$1" >/dev/null; then
        skip=$((skip + 1))
        echo "portable: skipped: $2 (for want of $1)"
    elif "$3" >"$work/log" 2>&1; then
        pass=$((pass + 1))
        echo "portable: ok: $2"
    else
        fail=$((fail + 1))
        echo "portable: FAILED: $2"
        head -n 40 "$work/log" | sed 's/^/    /'
    fi
}

core() { for f in csrc/core/*.c; do $cc32 "${flags[@]}" -c "$f" -o "$work/$(basename "$f" .c).o" || return 1; done; }

# Debian's header of Lua takes one of the architecture's own, which has a name in it and nothing else.
binding() {
    local name
    mkdir -p "$work/lua"
    for name in /usr/include/*/lua5.4-deb-multiarch.h; do [ -e "$name" ] && cp "$name" "$work/lua"; done
    read -ra lua < <(pkg-config --cflags-only-I lua5.4 | sed 's/-I/-isystem /g')
    for f in csrc/binding/*.c; do
        $cc32 "${flags[@]}" -Icsrc/binding "${lua[@]}" -isystem "$work/lua" -c "$f" -o /dev/null || return 1
    done
}

fuzz() {
    local program f
    for program in spec/fuzz/*_fuzz.c; do
        f=$work/$(basename "$program" .c)
        # shellcheck disable=SC2046 # names of this tree, without blanks
        $cc32 -std=c11 -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 -O2 -g -fstack-protector-all -static -pthread -Icsrc/core -Ispec/fuzz "$program" \
            $(find spec/fuzz -name '*.c' ! -name '*_fuzz.c') csrc/core/*.c -o "$f" -lm || return 1
        "$f" 20000 1 || return 1
    done
}

musl() {
    for f in csrc/core/*.c; do
        musl-gcc -std=c11 -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 -fPIC -Wall -Wextra -Werror -O2 -Icsrc/core -idirafter /usr/include \
            -idirafter "/usr/include/$(uname -m)-linux-gnu" -c "$f" -o /dev/null || return 1
    done
}

check $cc32 "the core compiles for i386" core
check $cc32 "the binding compiles for i386" binding
check $cc32 "the fuzz programs run on i386" fuzz
check musl-gcc "the core compiles with musl" musl

[ -z "${PERF_TOTALS:-}" ] || echo "portable $pass $fail $skip" >>"$PERF_TOTALS"
echo "portable: $pass passed, $fail failed, $skip skipped"
[ "$fail" -eq 0 ]
