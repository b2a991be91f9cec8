#!/bin/bash
# Other Debian releases, each in a root of its own: what a new machine's owner does, from `make demo` on.
#
#   tools/distros.sh [RELEASE...]     bullseye bookworm trixie sid; all without arguments
#
# A root is made once by debootstrap, from the archive that this machine uses, and kept in PERF_ROOTS (~/.cache/lua-perf/roots) with
# the packages that were fetched. Each run works on a layer above it, which is thrown away. Wants root, 2 GB of disk for each release
# and the network; takes about a quarter of an hour for each.
#
#   DISTRO_STEPS="demo test user rock install flags optional"    what is done; all by default
#   PERF_TOTALS=FILE                                             gets "distros passed failed skipped", for .ci/run
set -u
cd "$(dirname "$0")/.." || exit 1
tree=$PWD
roots=${PERF_ROOTS:-${XDG_CACHE_HOME:-$HOME/.cache}/lua-perf/roots}
releases=("$@")
[ $# -gt 0 ] || releases=(bullseye bookworm trixie sid)
steps=${DISTRO_STEPS:-demo test user rock install flags optional}

if [ "$(id -u)" -ne 0 ]; then
    echo "distros: skipped: only root can make roots"
    exit 0
fi
command -v debootstrap >/dev/null || apt-get -q install -y debootstrap >/dev/null 2>&1
command -v debootstrap >/dev/null || { echo "distros: debootstrap is not here and cannot be installed"; exit 1; }
mirror=$(sed -n 's/^URIs: *\(\S*\).*/\1/p; s/^deb \(\[[^]]*\] \)\?\(\S*\) .*/\2/p' \
    /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null | head -n 1)

pass=0 fail=0
work=
leave() {
    [ -n "$work" ] || return 0
    for at in dev sys proc var/cache/apt/archives; do umount -R -l "$work/root/$at" 2>/dev/null; done
    umount -l "$work/root" 2>/dev/null
    umount -l "$work" 2>/dev/null
    rm -rf --one-file-system "$work"
    work=
}
trap leave EXIT
trap 'exit 1' INT TERM HUP

# The root of a release, made where it is not there yet.
base() {
    local root=$roots/$1
    [ ! -e "$root/.complete" ] || return 0
    rm -rf --one-file-system "$root"
    mkdir -p "$root"
    echo "$1: debootstrap"
    debootstrap --variant=minbase --include=git,make,ca-certificates "$1" "$root" "$mirror" >"$root.log" 2>&1 || {
        tail -n 5 "$root.log"
        return 1
    }
    cp /etc/apt/apt.conf.d/*proxy* /etc/apt/apt.conf.d/99* "$root/etc/apt/apt.conf.d/" 2>/dev/null
    touch "$root/.complete"
}

# A layer above it, with this tree's last commit in /root/lua-perf. /root is closed to others, as on a new machine.
enter() {
    work=$(mktemp -d)
    mount -t tmpfs tmpfs "$work" && mkdir "$work/root" "$work/upper" "$work/work" &&
        mount -t overlay overlay -o "lowerdir=$roots/$1,upperdir=$work/upper,workdir=$work/work" "$work/root" || return 1
    mkdir -p "$roots/$1.packages/partial"
    mount --bind "$roots/$1.packages" "$work/root/var/cache/apt/archives"
    mount -t proc proc "$work/root/proc"
    for at in sys dev; do
        mount --rbind "/$at" "$work/root/$at"
        mount --make-rslave "$work/root/$at"
    done
    cp /etc/resolv.conf /etc/hosts "$work/root/etc/"
    git clone -q "$tree" "$work/root/root/lua-perf"
    chmod 700 "$work/root/root"
}

# step RELEASE NAME COMMAND: as root in the clone. Its last lines are shown when it fails.
step() {
    local release=$1 name=$2 start=$SECONDS
    if chroot "$work/root" env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 \
        bash -c "cd /root/lua-perf && $3" >"$work/log" 2>&1 </dev/null; then
        pass=$((pass + 1))
        echo "$release: $name: ok, in $((SECONDS - start)) s: $(grep -E '^[0-9]+ passed' "$work/log" | tail -n 1)"
    else
        fail=$((fail + 1))
        echo "$release: $name: FAILED"
        grep -E '^failure:|error:|warning:' "$work/log" | head -n 30
        tail -n 25 "$work/log"
    fi
}
wanted() { [[ " $steps " == *" $1 "* ]]; }

# shellcheck disable=SC2016 # the commands are expanded in the root
for release in "${releases[@]}"; do
    if ! base "$release" || ! enter "$release"; then
        echo "$release: no root could be made"
        fail=$((fail + 1))
        leave
        continue
    fi
    ! wanted demo || step "$release" "make demo" 'make demo'
    ! wanted test || step "$release" "make test" 'make test'
    ! wanted user || step "$release" "make test as an ordinary user" 'useradd -m tester 2>/dev/null; rm -rf /home/tester/lua-perf
        tools/setup.sh test && git config --global --add safe.directory "*" && git clone -q . /home/tester/lua-perf &&
        chown -R tester: /home/tester/lua-perf && setpriv --reuid tester --regid tester --init-groups env HOME=/home/tester \
        make -C /home/tester/lua-perf PERF_NO_SETUP=1 test'
    ! wanted rock || step "$release" "make rock" 'make rock'
    ! wanted install || step "$release" "make install, uninstall" 'tools/setup.sh demo && find /usr/local | sort >/tmp/before &&
        make -s install && (cd / && luajit -e "assert(require [[perf]].measure(function() end))" && luaperf stat -e task-clock -- true) &&
        make -s uninstall && find /usr/local | sort | diff /tmp/before -'
    if wanted flags; then
        step "$release" "what the flags need" 'tools/setup.sh test'
        for compiler in gcc clang; do
            for flags in "-O0 -g" "-O2" "-O3 -flto" "-O2 -D_FORTIFY_SOURCE=3"; do
                step "$release" "$compiler $flags" "$(printf 'compiler=%s flags=%q\n' "$compiler" "$flags"; cat <<'END'
                    for l in luajit lua5.4; do
                        make -s -j2 CC=$compiler CFLAGS="$flags" LUA=$l BUILD=/tmp/flags all &&
                            LUA_PATH="lua/?.lua;lua/?/init.lua" LUA_CPATH="/tmp/flags/$l/?.so" \
                                $l -e 'print(require "perf".measure(function() end))' || exit 1
                    done
                    rm -rf /tmp/flags
END
                )"
            done
        done
    fi
    ! wanted optional || step "$release" "each optional library not there" 'for e in bpf symbols tracefields zstd pfm; do
        make -s -j2 BUILD=/tmp/optional EXT="$(for x in bpf symbols tracefields zstd pfm; do [ $x = $e ] || printf "%s " $x; done)" all 2>&1 |
        tee -a /tmp/optional.log | grep -q "perf.ext.$e is left out: install" || { cat /tmp/optional.log; exit 1; }; done'
    leave
done
[ -z "${PERF_TOTALS:-}" ] || echo "distros $pass $fail 0" >>"$PERF_TOTALS"
echo "$pass passed, $fail failed, 0 skipped"
[ "$fail" -eq 0 ]
