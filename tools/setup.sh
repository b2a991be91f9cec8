#!/bin/bash
# Installs what a target needs and this machine lacks. Debian and its relatives only; elsewhere it
# says what is missing and stops.
#
#   tools/setup.sh demo|test|nginx|reports|rock|doc|analyze|i386|backends-zipkin|backends-prometheus|vm-arm64|vm-amd64
#
# Nothing is ever removed (apt-get --no-remove), nothing is done when all is there.
set -u
purpose=${1:?demo, test, nginx, reports, rock, doc, analyze, i386, backends-zipkin, backends-prometheus, vm-arm64 or vm-amd64}

debian() { [ -e /etc/debian_version ] && command -v apt-get >/dev/null; }
installed() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

wanted=() # packages
reasons=()
missing=() # commands, for systems without apt-get

# want WHY PACKAGE...: the packages of these that are not installed
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

# command_or NAME WHY PACKAGE...: the packages unless the command is there
command_or() {
    local name=$1
    shift
    command -v "$name" >/dev/null && return 0
    missing+=("$name: $1")
    want "$@"
}

# The same for what is done without elsewhere: the lint skips its check and says so.
nice_to_have() {
    local name=$1
    shift
    command -v "$name" >/dev/null || want "$@"
}

# lua_module NAME WHY PACKAGE: the package, or where there are none the module of that name
lua_module() {
    debian || luajit -e "require '$1'" >/dev/null 2>&1 || missing+=("the Lua module $1: $2")
    want "$2" "$3"
}

# Debian 12 has two LuaJITs that conflict: take the one that is installed, with its own headers. Debian 13 has one, named luajit.
luajit() {
    local pkg="luajit2|luajit" dev="libluajit2-5.1-dev|libluajit-5.1-dev"
    if debian; then
        installed luajit && pkg=luajit dev=libluajit-5.1-dev
        installed luajit2 && pkg=luajit2 dev=libluajit2-5.1-dev
        # Either branch's headers do: both have the same interface.
        if installed libluajit-5.1-dev || installed libluajit2-5.1-dev; then dev=; fi
        if command -v luajit >/dev/null && pkg-config --exists luajit 2>/dev/null; then return; fi
        want "the interpreter" "$pkg"
        [ -z "$dev" ] || want "its headers" "$dev"
    else
        command_or luajit "the interpreter, with its headers"
    fi
}

command_or cc "the C compiler" gcc libc6-dev
command_or pkg-config "finds headers and libraries" pkg-config
[ -e /usr/include/linux/perf_event.h ] || want "the kernel's headers for programs" libc6-dev
luajit
case $purpose in
demo)
    lua_module cjson "the demonstration measures it" lua-cjson
    lua_module dkjson "the demonstration measures it" lua-dkjson
    ;;
test)
    command_or busted "runs the specs" lua-busted
    command_or luacheck "checks Lua code" lua-check
    nice_to_have cppcheck "checks C code" cppcheck
    nice_to_have shellcheck "checks shell scripts" shellcheck
    nice_to_have clang "the second compiler, and the one for BPF" clang llvm
    for v in 5.1 5.2 5.3 5.4; do
        dev=liblua$v-dev
        [ $v != 5.1 ] || dev=liblua5.1-0-dev
        want "another interpreter" lua$v
        want "its headers" "$dev"
    done
    want "specs and examples use it" lua-cjson lua-dkjson lua-argparse lua-luv lua-cqueues
    want "spans are sent with it" lua-socket lua-sec lua-zlib lua-http
    want "an optional part of the module stands on it" libbpf-dev libtraceevent-dev libdw-dev libpfm4-dev \
        zlib1g-dev libzstd-dev
    ;;
reports)
    command_or busted "runs the specs" lua-busted
    nice_to_have chromium "opens flame graphs" chromium
    nice_to_have perf "opens perf.data files" linux-perf
    want "specs and reports use it" lua-dkjson lua-zlib
    ;;
rock)
    command_or luarocks "makes the rock" luarocks
    for v in 5.1 5.4; do
        dev=liblua$v-dev
        [ $v != 5.1 ] || dev=liblua5.1-0-dev
        want "an interpreter to install for" lua$v
        want "its headers" "$dev"
    done
    ;;
nginx)
    command_or busted "runs the specs" lua-busted
    command_or nginx "the server" nginx
    want "its Lua" libnginx-mod-http-lua
    command_or wrk "puts load on it" wrk
    command_or h2load "does so by HTTP/2" nghttp2-client
    command_or curl "asks it" curl
    command_or openssl "makes it a certificate" openssl
    want "reads its status" lua-cjson
    nice_to_have prometheus "reads its metrics" prometheus
    nice_to_have chromium "draws its page" chromium
    ;;
doc)
    command_or ldoc "makes the reference" lua-ldoc
    ;;
backends-zipkin)
    command_or java "runs Zipkin" default-jre-headless
    command_or mvn "fetches Zipkin" maven
    ;;
backends-prometheus)
    command_or prometheus "scrapes the metrics" prometheus
    ;;
analyze)
    nice_to_have clang-tidy "analyzes C code" clang-tidy
    nice_to_have valgrind "watches memory" valgrind
    for dev in lua5.4 liblua5.4-dev lua-busted libbpf-dev libtraceevent-dev libdw-dev libpfm4-dev libzstd-dev; do
        want "what is analyzed stands on it" $dev
    done
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
    echo "tools/setup.sh: demo, test, nginx, reports, rock, doc, analyze, i386, backends-zipkin, backends-prometheus, vm-arm64 or vm-amd64" >&2
    exit 2
    ;;
esac

if ! debian; then
    [ ${#missing[@]} -eq 0 ] && exit 0
    echo "This is no Debian, so nothing is installed here. Missing:" >&2
    printf '  %s\n' "${missing[@]}" >&2
    exit 1
fi
[ ${#wanted[@]} -eq 0 ] && exit 0

echo "To be installed with apt-get:"
printf '  %s\n' "${reasons[@]}"
as_root=()
if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || {
        echo "Not root, and no sudo: as root, apt-get install ${wanted[*]}" >&2
        exit 1
    }
    as_root=(sudo)
fi
apt() {
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300 \
        -o Dpkg::Use-Pty=0 "$@"
}
# "a|b" is the first of these that this Debian has, which is known only after apt-get update.
candidate() {
    local p
    for p in ${1//|/ }; do
        if apt-cache policy "$p" | grep -q '^  Candidate: [^(]'; then break; fi
    done
    echo "$p"
}
log=$(mktemp)
trap 'rm -f "$log"' EXIT
packages=()
if ! { apt update && for p in "${wanted[@]}"; do packages+=("$(candidate "$p")"); done &&
    apt install -y --no-remove --no-install-recommends "${packages[@]}"; } >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    echo "apt-get could not install: ${packages[*]:-${wanted[*]}}" >&2
    exit 1
fi
echo "Installed."
