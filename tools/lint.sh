#!/bin/bash
# Checks that need no kernel: each prints one line, "ok", "FAILED" or "skipped" with the reason.
#
# PERF_TOTALS=FILE gets "lint passed failed skipped", and PERF_FAILED=FILE a line for each failure, for make test. LINT_BUILT=DIR
# is the directory in which make test has built for every interpreter, without warnings if these are errors. cppcheck takes as long
# as all other checks together, so make test does not run it. make lint does, and so does make analyze, by LINT_ONLY=cppcheck.
set -u
make=${MAKE:-make}
pass=0 fail=0 skip=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# check NAME COMMAND...: shows the command's output if it fails
check() {
    local name=$1
    shift
    if "$@" >"$log" 2>&1; then
        pass=$((pass + 1))
        echo "lint: ok: $name"
    else
        fail=$((fail + 1))
        echo "lint: FAILED: $name"
        sed 's/^/    /' "$log" | head -n 60
        head -n 5 "$log" | tools/failed.sh add lint "" "" "$name"
    fi
}

# tool COMMAND NAME COMMAND...: runs the check if the command is installed
tool() {
    local need=$1
    shift
    if command -v "$need" >/dev/null; then
        check "$@"
    else
        skip=$((skip + 1))
        echo "lint: skipped: $1 (for lack of $need)"
    fi
}

lua_clean() {
    local dirs=()
    for d in lua nvim spec examples bench bin; do [ -d "$d" ] && dirs+=("$d"); done
    luacheck --no-color -q "${dirs[@]}"
}

core_sees_no_lua() {
    ! grep -rnE '#[[:space:]]*include[[:space:]]*[<"](lua|lauxlib|lualib|luajit)' csrc/core
}

# node takes one file at a time.
scripts_parse() { find lua -name '*.js' -print0 | xargs -0 -n 1 node --check; }

components() { luajit tools/components.lua; }

english() { luajit tools/english.lua; }

no_marks() {
    ! grep -rnE '\b(TODO|FIXME|XXX)\b' csrc lua nvim spec tools bench examples 2>/dev/null | grep -v 'tools/lint.sh'
}

short_files() {
    local long
    long=$(find csrc lua nvim tools bench examples \( -name '*.[ch]' -o -name '*.lua' -o -name '*.sh' \) \
        -exec wc -l {} + 2>/dev/null | awk '$1 > 500 && $2 != "total"')
    [ -z "$long" ] || { echo "$long"; return 1; }
}

# Whether gcc has just built in $LINT_BUILT.
gcc_has_built() { [ -n "${LINT_BUILT:-}" ] && ! ${CC:-cc} -dM -E -x c /dev/null | grep -q __clang__; }

# Builds in a separate directory. clang's warnings do not depend on how it optimizes.
compiles() { # compiler
    local flags=()
    if [ "$1" = gcc ] && gcc_has_built; then return 0; fi
    [ "$1" = gcc ] || flags=(CFLAGS=-O0)
    $make -s -j"$(nproc)" CC="$1" "${flags[@]}" BUILD="build-lint/$1" LUA=luajit all testkit &&
        $make -s -j"$(nproc)" CC="$1" "${flags[@]}" BUILD="build-lint/$1" LUA=lua5.4 all testkit
}

# Code that is for arm64 alone runs only in make test-arm64 and test-arm64-short, which take long. This finds what does not compile.
compiles_for_arm64() {
    local cc=aarch64-linux-gnu-gcc lua=()
    read -ra lua < <(pkg-config --cflags-only-I luajit | sed 's/-I/-isystem /g')
    find csrc/core csrc/binding -name '*.c' -print0 |
        xargs -0 -P "$(nproc)" -n 8 $cc -std=c11 -D_GNU_SOURCE -Wall -Wextra -Wconversion ${WERROR:+-Werror} -fsyntax-only -Icsrc "${lua[@]}" &&
        { ! command -v clang >/dev/null || find csrc/bpf -name '*.c' -print0 | xargs -0 -n 1 clang -O2 -g -Wall ${WERROR:+-Werror} -target bpf -mcpu=v3 \
            -D__TARGET_ARCH_arm64 -I/usr/aarch64-linux-gnu/include \
            -idirafter /usr/include/aarch64-linux-gnu -idirafter /usr/include -Icsrc -o /dev/null -c; }
}

# On 32-bit x86 size_t has 32 bits, so some conversions lose bits there alone. make test-portable, which takes minutes, also runs specs.
compiles_for_i386() {
    find csrc/core -name '*.c' -print0 |
        xargs -0 -P "$(nproc)" -n 8 i686-linux-gnu-gcc -std=c11 -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 -Wall -Wextra -Wconversion \
            -Wno-psabi ${WERROR:+-Werror} -fsyntax-only -Icsrc
}

exports_only_open() {
    local so others
    for so in {build-lint/*,"${LINT_BUILT:-build-lint}"}/*/perf/{*.so,ext/*.so}; do
        [ -e "$so" ] || continue
        others=$(nm -D --defined-only "$so" | awk '$2 ~ /[A-Z]/ && $3 !~ /^luaopen_perf/ { print $3 }')
        [ -z "$others" ] || { echo "$so: $others"; return 1; }
    done
}

scripts_clean() {
    find tools .ci \( -name '*.sh' -o -path .ci/run \) -exec shellcheck -S warning {} +
}

# shiftNegative: cppcheck 2.10 forgets _Noreturn there; UBSan looks for these shifts. internalAstError is cppcheck's own failure,
# at compound literals.
cppcheck_clean() {
    mkdir -p build-lint/cppcheck
    cppcheck -q -j2 --std=c11 --enable=warning,portability,performance --inline-suppr --error-exitcode=1 \
        --suppress=missingIncludeSystem --suppress=shiftNegative --suppress=internalAstError \
        --library=tools/cppcheck-lua.cfg --cppcheck-build-dir=build-lint/cppcheck \
        -Icsrc csrc spec/support
}

finish() {
    [ -z "${PERF_TOTALS:-}" ] || echo "lint $pass $fail $skip" >>"$PERF_TOTALS"
    echo "lint: $pass passed, $fail failed, $skip skipped"
    [ "$fail" -eq 0 ]
    exit
}
if [ "${LINT_ONLY:-}" = cppcheck ]; then
    tool cppcheck "cppcheck is silent" cppcheck_clean
    finish
fi

tool luacheck "luacheck is silent" lua_clean
check "the core sees nothing of Lua" core_sees_no_lua
tool luajit "the components use what their table allows" components
tool luajit "the reference and make faults have what the API table has" luajit tools/reference.lua
tool node "the scripts of the pages parse" scripts_parse
tool luajit "the comments are in plain English" english
check "nothing is marked as unfinished" no_marks
check "no file is far over 450 lines" short_files
# A newer compiler may have more warnings than ours, so only our CI sets WERROR.
if [ -n "${WERROR:-}" ]; then compiled="has no warning"; else compiled="compiles it"; fi
tool gcc "gcc $compiled" compiles gcc
tool clang "clang $compiled" compiles clang
tool aarch64-linux-gnu-gcc "the sources compile for arm64" compiles_for_arm64
tool i686-linux-gnu-gcc "the core compiles for i386" compiles_for_i386
tool nm "only luaopen_ functions are exported" exports_only_open
# The findings of cppcheck depend on its version too.
if [ -n "${LINT_BUILT:-}" ]; then
    : # make test does not run cppcheck
elif [ -n "${WERROR:-}" ]; then
    tool cppcheck "cppcheck is silent" cppcheck_clean
else
    echo "lint: skipped: cppcheck is silent (only with WERROR=1)"
    skip=$((skip + 1))
fi
tool shellcheck "shellcheck is silent" scripts_clean
check "the version is one" $make -s check-version
finish
