#!/bin/bash
# Builds the module, its extensions and testkit for a guest, against the packages in its sysroot.
#
#   tools/vm/build.sh arm64|amd64 DIR LUA...        into DIR/out, for these interpreters
#
# tools/vm/root.sh made DIR. The BPF programs of spec/vm are compiled here too, if clang is installed: a guest has no compiler.
set -eu
arch=${1:?arm64 or amd64}
dir=$(cd "${2:?directory}" && pwd)
shift 2
make=${MAKE:-make}
case $arch in
arm64) triplet=aarch64-linux-gnu target=arm64 ;;
amd64) triplet=x86_64-linux-gnu target=x86 ;;
*) exit 2 ;;
esac
sys=$dir/sysroot
lib=$sys/usr/lib/$triplet
out=$dir/out

# Objects that another tree left there may be newer than our sources and still differ from them.
tree="$PWD $(stat -c %d:%i .)"
[ "$(cat "$out/.tree" 2>/dev/null)" = "$tree" ] || rm -rf "$out"
mkdir -p "$out"
echo "$tree" >"$out/.tree"

# The libraries are given by path; pkg-config would find the host's.
extensions=(libs_bpf="-lbpf" libs_symbols="-ldw" libs_tracefields="-ltraceevent" libs_zstd="-lzstd" libs_pfm="-lpfm")
for lua in "$@"; do
    include=$sys/usr/include/$lua
    [ $lua != luajit ] || include=$sys/usr/include/luajit-2.1
    # The compiler's own C library comes first, since the same library in the sysroot has no headers.
    $make -s -j2 CC=$triplet-gcc AR=$triplet-ar CLANG="clang -idirafter $sys/usr/include" BUILD="$out" LUA=$lua LUA_INCDIR="$include" \
        CPPFLAGS="-idirafter $sys/usr/include -idirafter $sys/usr/include/$triplet -idirafter $sys/usr/include/traceevent" \
        LDFLAGS="-L$lib -L$sys/lib/$triplet -Wl,-rpath-link,$lib -Wl,-rpath-link,$sys/lib/$triplet" \
        "${extensions[@]}" all testkit
done

mkdir -p "$out/bpf"
command -v clang >/dev/null || exit 0
for c in spec/vm/*.bpf.c; do
    [ -e "$c" ] || continue
    o=$out/bpf/$(basename "${c%.c}").o
    if [ "$c" -nt "$o" ]; then
        clang -O2 -g -target bpf -D__TARGET_ARCH_$target -idirafter "$sys/usr/include" \
            -idirafter "$sys/usr/include/$triplet" -c "$c" -o "$o"
    fi
done
