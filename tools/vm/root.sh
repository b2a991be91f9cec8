#!/bin/bash
# Makes a guest's kernel and root from Debian packages, without changing this machine's packages.
#
#   tools/vm/root.sh arm64|amd64 DIR
#
#   DIR/vmlinuz       Debian's cloud kernel
#   DIR/base.cpio     the root as an initramfs: the interpreters, busted and a shell; its /init is tools/vm/init
#   DIR/sysroot/      the same packages and those with headers, for the cross compiler
#
# The packages are fetched with a separate apt state under DIR/apt (tools/vm/apt.sh). Existing files are kept; a change of the
# list below makes them anew.
set -eu
arch=${1:?arm64 or amd64}
dir=${2:?directory}
here=$(dirname "$0")

# For the guest.
packages=(busybox-static bash libc-bin coreutils mawk sed grep findutils diffutils procps util-linux
    luajit lua5.1 lua5.2 lua5.3 lua5.4 lua-busted lua-cjson lua-dkjson lua-argparse
    lua-luv lua-cqueues lua-socket lua-sec lua-http lua-zlib zstd
    libbpf1 libtraceevent1 libdw1 libzstd1 libpfm4)
# For the compiler only.
headers=(libluajit-5.1-dev liblua5.1-0-dev liblua5.2-dev liblua5.3-dev liblua5.4-dev
    libbpf-dev libtraceevent-dev libdw-dev libelf-dev libzstd-dev libpfm4-dev zlib1g-dev linux-libc-dev)

stamp=$(cat "$0" "$here/apt.sh" "$here/init" "$here/exit.c" | cksum)
if [ -e "$dir/stamp" ] && [ "$(cat "$dir/stamp")" = "$stamp" ]; then exit 0; fi
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
rm -f "$dir/stamp"

state=$dir/apt
. "$here/apt.sh"
private_apt "$arch" "$state"

log=$dir/log
: >"$log"
failed() {
    tail -n 15 "$log" >&2
    echo "the $arch guest: $1" >&2
    exit 1
}
# A package source of the host without this architecture does not stop the others.
apt update >>"$log" 2>&1 || true
kernel=$(apt-cache depends "linux-image-cloud-$arch" 2>>"$log" |
    sed -n 's/^ *Depends: \(linux-image-[^ ]*\)$/\1/p' | head -n 1)
[ -n "$kernel" ] || failed "no linux-image-cloud-$arch is available"
echo "Packages for the $arch guest, into $dir alone: $kernel ${packages[*]} with what they need; ${headers[*]}"
apt install -y --download-only "${packages[@]}" >>"$log" 2>&1 || failed "its packages could not be downloaded"
mkdir -p "$dir/more"
(cd "$dir/more" && rm -f -- *.deb && apt download "$kernel" "${headers[@]}" >>"$log" 2>&1) ||
    failed "its kernel or headers could not be downloaded"

rm -rf "$dir/root" "$dir/sysroot" "$dir/kernel"
mkdir -p "$dir/root" "$dir/sysroot" "$dir/kernel"
unpack "$dir/root" "$state"/cache/archives/*.deb
unpack "$dir/kernel" "$dir"/more/"$kernel"_*.deb
mv "$dir"/kernel/boot/vmlinuz-* "$dir/vmlinuz"
cp -a "$dir/root/." "$dir/sysroot"
for name in "${headers[@]}"; do unpack "$dir/sysroot" "$dir"/more/"$name"_*.deb; done
rm -rf "$dir/kernel" "$dir/more" "$state/cache"

# Files that no spec uses are left out, since the guest unpacks all of them at each start.
(cd "$dir/root" && rm -rf usr/share/doc usr/share/man usr/share/locale usr/share/info usr/share/zoneinfo usr/share/i18n usr/share/perl* \
    usr/share/bash-completion usr/lib/*-linux-gnu/gconv usr/lib/*-linux-gnu/perl* usr/lib/*-linux-gnu/libperl* usr/sbin \
    usr/lib/systemd lib/systemd usr/lib/locale var usr/share/common-licenses boot lib/modules
cd usr/bin && grep -lE '^#! ?/usr/bin/(perl|python)' -- * 2>/dev/null | xargs rm -f perl*
cd ../.. && mkdir -p proc sys dev tmp run root etc usr/bin usr/sbin bin sbin && chmod 1777 tmp)
case $arch in
arm64) cc=aarch64-linux-gnu-gcc ;;
amd64) cc=x86_64-linux-gnu-gcc ;;
esac
$cc -O2 -Wall -Wextra -static -o "$dir/root/bin/vm-exit" "$here/exit.c"
install -m 755 "$here/init" "$dir/root/init"
printf 'root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65534:nobody:/nonexistent:/bin/sh\n' >"$dir/root/etc/passwd"
printf 'root:x:0:\nnogroup:x:65534:\n' >"$dir/root/etc/group"
ln -sf bash "$dir/root/bin/sh"
# Specs compare this header with our definitions.
mkdir -p "$dir/root/usr/include/linux" "$dir/root/usr/include/asm"
cp "$dir/sysroot/usr/include/linux/perf_event.h" "$dir/root/usr/include/linux"
cp "$dir"/sysroot/usr/include/*-linux-gnu/asm/perf_regs.h "$dir/root/usr/include/asm"
# Files that the packages' scripts would have made.
ln -sf mawk "$dir/root/usr/bin/awk"
(cd "$dir/root" && find . | cpio --quiet -o -H newc -R 0:0 >"$dir/base.cpio")
rm -rf "$dir/root" "$state/lists"
echo "$stamp" >"$dir/stamp"
