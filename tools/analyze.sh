#!/bin/bash
# make analyze: cppcheck and the static analyzers of gcc and clang over all of csrc, and valgrind over the specs of damaged bytes.
# Each prints a line, "ok", "FAILED" or "skipped" with the reason.
#
#   PERF_TOTALS=FILE    gets "analyze passed failed skipped"
#   PERF_NO_SETUP=1     installs nothing
set -u
make=${MAKE:-make}
if [ -z "${PERF_NO_SETUP:-}" ]; then tools/setup.sh analyze || exit 1; fi
pass=0 fail=0 skip=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# check COMMAND NAME FUNCTION
check() {
    if ! command -v "$1" >/dev/null; then
        skip=$((skip + 1))
        echo "analyze: skipped: $2 (for lack of $1)"
    elif "$3" >"$work/log" 2>&1; then
        pass=$((pass + 1))
        echo "analyze: ok: $2"
    else
        fail=$((fail + 1))
        echo "analyze: FAILED: $2"
        sed 's/^/    /' "$work/log" | head -n 60
        head -n 5 "$work/log" | tools/failed.sh add analyze "" "" "$2"
    fi
}

# Lua's headers do not mark the functions that do not return: tools/noreturn.h does.
flags=(-std=c11 -D_GNU_SOURCE -Icsrc "-DPX_SNAPSHOT=\"$work/snapshot.o\"")
touch "$work/snapshot.o" # the assembler wants a regular file
read -ra lua_flags < <(pkg-config --cflags-only-I lua5.4 | sed 's/-I/-isystem /g')
# The programs of csrc/bpf are for another target; the kernel verifies them.
sources() { find csrc -name '*.c' ! -path 'csrc/bpf/*' | sort; }

# analyzer-malloc-leak: gcc 12 loses track of a block whose address is stored in another one; valgrind and LeakSanitizer do not.
# analyzer-possible-null-dereference: false reports after a pointer was compared with NULL.
gcc_analyzer() {
    sources | xargs -P 2 -I @ gcc "${flags[@]}" "${lua_flags[@]}" -include tools/noreturn.h -O1 -fanalyzer \
        -Wno-analyzer-malloc-leak -Wno-analyzer-possible-null-dereference -Werror -c @ -o /dev/null
}
clang_tidy() {
    sources | xargs -P 2 -I @ clang-tidy --quiet @ -- "${flags[@]}" "${lua_flags[@]}" -include tools/noreturn.h 2>/dev/null
}

# On Lua 5.4 every block comes from malloc, so valgrind notices an access beyond it. LuaJIT has its own allocator; there valgrind
# sees accesses to blocks of C code, and the use of uninitialized memory, by C and by compiled code.
memcheck() { # interpreter
    local lua=$1
    $make -s LUA="$lua" all testkit || return 1
    # The suite starts an interpreter by its name: this script runs it under valgrind.
    cat >"$work/$lua" <<END
#!/bin/sh
exec valgrind -q --error-exitcode=99 --leak-check=full --show-leak-kinds=definite --errors-for-leak-kinds=definite \
    --trace-children=no --child-silent-after-fork=yes --suppressions=spec/support/valgrind.supp \
    --log-file=$work/valgrind.%p $(command -v "$lua") "\$@"
END
    chmod +x "$work/$lua"
    PERF_TOTALS='' PERF_FAILED='' PATH=$work:$PATH tools/suite.sh -l "$lua" spec/unit/record/damage_spec.lua spec/unit/data/damage_spec.lua \
        spec/unit/record/layouts_spec.lua spec/unit/whole/security_spec.lua spec/live/event/ring_damage_spec.lua
    local status=$?
    cat "$work"/valgrind.*
    rm -f "$work"/valgrind.* "$work/$lua"
    return $status
}
memcheck_lua() { memcheck lua5.4; }
memcheck_luajit() { memcheck luajit; }

cppcheck_clean() { PERF_TOTALS='' PERF_FAILED='' WERROR=1 LINT_ONLY=cppcheck tools/lint.sh; }

check cppcheck "cppcheck is silent" cppcheck_clean
check gcc "gcc's analyzer is silent" gcc_analyzer
check clang-tidy "clang-tidy is silent" clang_tidy
check valgrind "valgrind is silent over damaged bytes, on Lua 5.4" memcheck_lua
check valgrind "valgrind is silent over damaged bytes, on LuaJIT" memcheck_luajit

[ -z "${PERF_TOTALS:-}" ] || echo "analyze $pass $fail $skip" >>"$PERF_TOTALS"
echo "analyze: $pass passed, $fail failed, $skip skipped"
[ "$fail" -eq 0 ]
