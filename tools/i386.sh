#!/bin/bash
# Builds the module and its extensions for 32-bit x86, and runs the unit specs there, if the kernel can run such programs.
#
#   tools/i386.sh prepare      Debian's i386 packages into build/i386, and the module built for them
#   tools/i386.sh specs        the unit specs, with these interpreters
#
# Status 2, with the reason, if the packages cannot be fetched or such programs do not run here.
#
# Nothing is installed: the packages are fetched with a separate apt state and unpacked, and the interpreters are started through
# their own loader (build/i386/bin). Root is not needed.
set -eu
make=${MAKE:-make}
here=$(dirname "$0")
dir=$PWD/build/i386
sys=$dir/sysroot
lib=usr/lib/i386-linux-gnu
luas=(luajit lua5.1 lua5.4)
packages=(luajit lua5.1 lua5.4 lua-busted lua-cjson lua-dkjson lua-argparse lua-zlib libbpf1 libtraceevent1 libdw1 libzstd1 libpfm4)
headers=(libluajit-5.1-dev liblua5.1-0-dev liblua5.4-dev libbpf-dev libtraceevent-dev libdw-dev libelf-dev libzstd-dev libpfm4-dev
    zlib1g-dev)

# Scripts with the interpreters' names, so that the host's Lua modules are not found.
wrap() {
    local lua v
    mkdir -p "$dir/bin"
    for lua in "${luas[@]}"; do
        v=5.1
        [ "$lua" != lua5.4 ] || v=5.4
        cat >"$dir/bin/$lua" <<END
#!/bin/sh
export LUA_PATH="\$LUA_PATH;$sys/usr/share/lua/$v/?.lua;$sys/usr/share/lua/$v/?/init.lua" LUA_CPATH="\$LUA_CPATH;$sys/$lib/lua/$v/?.so"
exec $sys/lib/ld-linux.so.2 --argv0 $lua --library-path $sys/lib/i386-linux-gnu:$sys/$lib $sys/usr/bin/$lua "\$@"
END
        chmod +x "$dir/bin/$lua"
    done
}

fetch() {
    local stamp
    stamp=$(cat "$0" "$here/vm/apt.sh" | cksum)
    [ ! -e "$dir/stamp" ] || [ "$(cat "$dir/stamp")" != "$stamp" ] || return 0
    command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || return 2
    rm -rf "$sys" "$dir/more" "$dir/stamp"
    mkdir -p "$sys" "$dir/more"
    . "$here/vm/apt.sh"
    private_apt i386 "$dir/apt"
    apt update >"$dir/log" 2>&1 || true # a package source of the host may lack this architecture; the others still work
    apt install -y --download-only "${packages[@]}" >>"$dir/log" 2>&1 || return 2
    (cd "$dir/more" && apt download "${headers[@]}" >>"$dir/log" 2>&1) || return 2
    unpack "$sys" "$dir"/apt/cache/archives/*.deb "$dir"/more/*.deb || return 2
    rm -rf "$dir/apt" "$dir/more"
    wrap
    echo "$stamp" >"$dir/stamp"
}

# The libraries are given by path; pkg-config would find the host's.
build() {
    local lua include
    for lua in "${luas[@]}"; do
        include=$sys/usr/include/$lua
        [ "$lua" != luajit ] || include=$sys/usr/include/luajit-2.1
        $make -s -j2 CC=i686-linux-gnu-gcc AR=i686-linux-gnu-ar BUILD="$dir/out" LUA="$lua" LUA_INCDIR="$include" \
            CPPFLAGS="-idirafter $sys/usr/include -idirafter $sys/usr/include/i386-linux-gnu -idirafter $sys/usr/include/traceevent" \
            LDFLAGS="-L$sys/$lib -L$sys/lib/i386-linux-gnu -Wl,-rpath-link,$sys/$lib -Wl,-rpath-link,$sys/lib/i386-linux-gnu" \
            EXT="bpf pfm symbols tracefields zstd" libs_bpf=-lbpf libs_pfm=-lpfm libs_symbols=-ldw \
            libs_tracefields=-ltraceevent libs_zstd=-lzstd all testkit >>"$dir/log" 2>&1 || { tail -n 30 "$dir/log"; return 1; }
    done
}

case ${1:?prepare or specs} in
prepare)
    fetch || { echo "Debian's 32-bit packages cannot be fetched"; exit 2; }
    "$dir/bin/luajit" -e "os.exit(0)" 2>/dev/null || { echo "this kernel runs no 32-bit programs"; exit 2; }
    build || exit 1
    ;;
specs)
    [ -d "$dir/out" ] || { echo "nothing is built"; exit 2; }
    export PATH=$dir/bin:$PATH BUILD=$dir/out PERF_LOADER=1 PERF_TOTALS=''
    "$here/suite.sh" -l "${luas[*]}" spec/unit
    ;;
*) exit 2 ;;
esac
