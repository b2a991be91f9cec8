#!/bin/bash
# Installs the packages that a target needs and this machine lacks, on Debian and its relatives; on other systems it prints what
# is missing and stops.
#
#   tools/setup.sh [-n] build|demo|test|nginx|demo-nginx|reports|nvim|rock|doc|analyze|distros|bench|i386|backends-zipkin|backends-prometheus|vm-arm64|vm-amd64
#
# It never removes a package (apt-get --no-remove), and does nothing if no package is missing. With -n it installs nothing: it
# prints the packages, and the command to type.
#
#   LUA=lua5.4                          the interpreter of build and demo; LuaJIT by default
#   PERF_LUAS="luajit lua5.4"           the interpreters of test; all five by default
set -u
dry=
if [ "${1:-}" = -n ]; then dry=1; shift; fi
purpose=${1:?build, demo, test, nginx, demo-nginx, reports, nvim, rock, doc, analyze, distros, bench, i386, backends-zipkin, backends-prometheus, vm-arm64 or vm-amd64}

debian() { [ -e /etc/debian_version ] && command -v apt-get >/dev/null; }
installed() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

wanted=() # packages
reasons=()
missing=() # commands, for systems without apt-get

# want WHY PACKAGE...: adds those of these packages that are not installed
want() {
    local why=$1 p
    shift
    debian || return 0
    for p in "$@"; do
        if installed "$p" || [[ " ${wanted[*]} " == *" $p "* ]]; then continue; fi
        wanted+=("$p")
        reasons+=("$p: $why")
    done
}

# command_or NAME WHY PACKAGE...: adds the packages unless the command is installed
command_or() {
    local name=$1
    shift
    command -v "$name" >/dev/null && return 0
    missing+=("$name: $1")
    want "$@"
}

# The same for a command that is optional on other systems: there the lint skips its check, with a message.
nice_to_have() {
    local name=$1
    shift
    command -v "$name" >/dev/null || want "$@"
}

# lua_module NAME WHY PACKAGE: adds the package; on systems without packages checks for the module NAME
lua_module() {
    debian || luajit -e "require '$1'" >/dev/null 2>&1 || missing+=("the Lua module $1: $2")
    want "$2" "$3"
}

# Debian 12 has two LuaJITs that conflict: take the one that is installed, with its own headers. Debian 13 has one, named luajit.
luajit() {
    local pkg="luajit2|luajit" dev="libluajit2-5.1-dev|libluajit-5.1-dev"
    if debian; then
        if command -v luajit >/dev/null && pkg-config --exists luajit 2>/dev/null; then return; fi
        installed luajit && pkg=luajit dev=libluajit-5.1-dev
        installed luajit2 && pkg=luajit2 dev=libluajit2-5.1-dev
        # The headers of either branch are suitable: both have the same interface.
        if installed libluajit-5.1-dev || installed libluajit2-5.1-dev; then dev=; fi
        want "the interpreter" "$pkg"
        [ -z "$dev" ] || want "its headers" "$dev"
    else
        command_or luajit "the interpreter, with its headers"
    fi
}

# lua_of VERSION: that interpreter of PUC-Rio, and its headers
lua_of() {
    local dev=liblua$1-dev
    [ "$1" != 5.1 ] || dev=liblua5.1-0-dev
    debian || command_or "lua$1" "the interpreter, with its headers"
    want "the interpreter" "lua$1"
    want "its headers" "$dev"
}

# The interpreter of that name; LuaJIT for an unknown name, such as a path.
interpreter() {
    case $1 in
    lua5.[1-4]) lua_of "${1#lua}" ;;
    *) luajit ;;
    esac
}

command_or cc "the C compiler" gcc libc6-dev
command_or pkg-config "finds headers and libraries" pkg-config
[ -e /usr/include/linux/perf_event.h ] || want "the kernel's headers for programs" libc6-dev
case $purpose in
build | demo) interpreter "${LUA:-luajit}" ;;
test) for l in ${PERF_LUAS:-luajit lua5.1 lua5.2 lua5.3 lua5.4}; do interpreter "$l"; done ;;
distros) ;;
*) luajit ;;
esac
case $purpose in
build) ;;
demo)
    lua_module cjson "the demonstration measures it" lua-cjson
    lua_module dkjson "the demonstration measures it" lua-dkjson
    ;;
test)
    command_or busted "runs the specs" lua-busted
    command_or luacheck "checks Lua code" lua-check
    nice_to_have shellcheck "checks shell scripts" shellcheck
    nice_to_have clang "the second compiler, and the one for BPF" clang llvm
    nice_to_have aarch64-linux-gnu-gcc "compiles for arm64" gcc-aarch64-linux-gnu libc6-dev-arm64-cross
    nice_to_have i686-linux-gnu-gcc "compiles for 32-bit x86" gcc-i686-linux-gnu libc6-dev-i386-cross
    want "specs and examples use it" lua-cjson lua-dkjson lua-argparse lua-luv lua-cqueues
    want "spans are sent with it" lua-socket lua-sec lua-zlib lua-http
    want "an optional part of the module stands on it" libbpf-dev libtraceevent-dev libdw-dev libpfm4-dev \
        zlib1g-dev libzstd-dev
    ;;
reports)
    command_or busted "runs the specs" lua-busted
    nice_to_have chromium "opens flame graphs" chromium
    nice_to_have perf "opens perf.data files" linux-perf
    nice_to_have zsh "completes luaperf's command line" zsh
    nice_to_have fish "completes luaperf's command line" fish
    nice_to_have mandoc "checks the manual page" mandoc
    nice_to_have groff "checks the manual page" groff
    want "specs and reports use it" lua-dkjson lua-zlib
    ;;
nvim)
    command_or busted "runs the specs" lua-busted
    nice_to_have nvim "runs the plugin" neovim
    python3 -m pip --version >/dev/null 2>&1 || nice_to_have pip3 "fetches a newer Neovim" python3-pip
    ;;
rock)
    command_or luarocks "makes the rock" luarocks
    lua_of 5.1
    lua_of 5.4
    ;;
nginx | demo-nginx)
    command_or nginx "the server" nginx
    want "its Lua" libnginx-mod-http-lua
    command_or wrk "puts load on it" wrk
    command_or curl "asks it" curl
    if [ "$purpose" = nginx ]; then
        command_or busted "runs the specs" lua-busted
        command_or h2load "puts load on it by HTTP/2" nghttp2-client
        command_or openssl "makes it a certificate" openssl
        want "reads its status" lua-cjson lua-dkjson
        nice_to_have prometheus "reads its metrics" prometheus
        nice_to_have chromium "draws its page" chromium
    fi
    ;;
doc)
    command_or ldoc "makes the reference" lua-ldoc
    installed lua-discount || installed discount || want "renders the reference's markdown" "lua-discount|discount"
    ;;
backends-zipkin)
    command_or java "runs Zipkin" default-jre-headless
    command_or mvn "fetches Zipkin" maven
    ;;
backends-prometheus)
    command_or prometheus "scrapes the metrics" prometheus
    ;;
analyze)
    nice_to_have cppcheck "checks C code" cppcheck
    nice_to_have clang-tidy "analyzes C code" clang-tidy
    nice_to_have valgrind "watches memory" valgrind
    for dev in lua5.4 liblua5.4-dev lua-busted libbpf-dev libtraceevent-dev libdw-dev libpfm4-dev libzstd-dev; do
        want "what is analyzed stands on it" $dev
    done
    ;;
distros)
    command_or debootstrap "makes the root directories of other releases" debootstrap
    ;;
bench)
    lua_of 5.4
    want "another library, which is compared with this one" libpapi-dev
    nice_to_have perf "another reader of perf.data files" linux-perf
    ;;
i386)
    command_or i686-linux-gnu-gcc "compiles for it" gcc-i686-linux-gnu libc6-dev-i386-cross
    nice_to_have musl-gcc "the other C library" musl-tools
    ;;
vm-arm64 | vm-amd64)
    if [ "$purpose" = vm-arm64 ]; then
        command_or qemu-system-aarch64 "emulates the machine" qemu-system-arm
        command_or aarch64-linux-gnu-gcc "compiles for it" gcc-aarch64-linux-gnu libc6-dev-arm64-cross
    else
        command_or qemu-system-x86_64 "emulates the machine" qemu-system-x86
        command_or x86_64-linux-gnu-gcc "compiles for it" gcc-x86-64-linux-gnu libc6-dev-amd64-cross
    fi
    command_or cpio "packs its root" cpio
    nice_to_have clang "compiles its BPF programs" clang llvm
    ;;
*)
    echo "tools/setup.sh: build, demo, test, nginx, demo-nginx, reports, nvim, rock, doc, analyze, distros, bench, i386, backends-zipkin, backends-prometheus, vm-arm64 or vm-amd64" >&2
    exit 2
    ;;
esac

if ! debian; then
    [ ${#missing[@]} -eq 0 ] && exit 0
    echo "This is not Debian, so nothing is installed here. Missing:" >&2
    printf '  %s\n' "${missing[@]}" >&2
    exit 1
fi
[ ${#wanted[@]} -eq 0 ] && exit 0

# Those of these packages that this machine's package lists have. Determined once, since for ordinary users each call reads all
# lists.
had() {
    local words=${wanted[*]}
    # shellcheck disable=SC2086
    apt-cache policy ${words//|/ } 2>/dev/null | awk '/^[^ ]/ { sub(/:$/, ""); p = $1 } /^  Candidate: [^(]/ { printf " %s ", p }'
}
# candidate PACKAGES: prints the first package of "a|b" that $lists contains; nothing if it contains none.
candidate() {
    local p
    for p in ${1//|/ }; do
        if [[ "$lists" == *" $p "* ]]; then
            echo "$p"
            return
        fi
    done
}
as_root=()
[ "$(id -u)" -eq 0 ] || as_root=(sudo)
if [ -n "$dry" ] || ! command -v "${as_root[@]:-true}" >/dev/null; then
    # For a person to read and to type: one name each, the last alternative if there are no package lists yet.
    lists=$(had)
    for i in "${!wanted[@]}"; do
        p=$(candidate "${wanted[i]}")
        reasons[i]=${p:-${wanted[i]##*|}}:${reasons[i]#*:}
        wanted[i]=${p:-${wanted[i]##*|}}
    done
    printf '  %s\n' "Missing:" "${reasons[@]/#/  }" >&2
    echo "  As root: apt-get install --no-install-recommends ${wanted[*]}" >&2
    [ -n "$dry" ] || echo "  (You are not root, and sudo is not here.)" >&2
    exit 1
fi
echo "To be installed with apt-get:"
printf '  %s\n' "${reasons[@]}"
apt() {
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300 \
        -o Dpkg::Use-Pty=0 "$@" 9<&-
}
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# One setup at a time, since one of two apt-get update at once fails. apt-get does not inherit the descriptor of the lock, so a
# server that a package starts does not keep it locked.
exec 9<"$0"
flock 9
# One package source may be broken or unreachable while others work, so the installed packages decide.
apt update >"$log" 2>&1 || echo "apt-get update failed; going on with the package lists that are here: $(grep -m 1 '^[EW]:' "$log")"
lists=$(had)
packages=()
for i in "${!wanted[@]}"; do
    p=$(candidate "${wanted[i]}")
    if [ -n "$p" ]; then packages+=("$p"); else echo "  left out, since this release has no such package: ${reasons[i]}"; fi
done
[ ${#packages[@]} -gt 0 ] || exit 0
if ! apt install -y --no-remove --no-install-recommends "${packages[@]}" >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    echo "apt-get could not install: ${packages[*]}" >&2
    exit 1
fi
echo "Installed."
