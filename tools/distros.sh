#!/bin/bash
# Tests the steps of a new user, `make demo` and so on, on other Debian releases, each in a separate root.
#
#   tools/distros.sh [RELEASE...]     bullseye bookworm trixie sid; without arguments all but bullseye, whose LuaJIT fails specs
#   tools/distros.sh turn             one release other than this machine's; each day another one
#
# debootstrap makes a root once, from the archive that this machine uses; the root and the packages fetched are kept in PERF_ROOTS
# (~/.cache/lua-perf/roots). Each run works on a layer above it, which is thrown away. Needs root, 2 GB of disk for each release
# and the network; takes about half an hour for each. Without root or the archive a release is skipped.
#
#   DISTRO_STEPS="demo doc test nginx user rock install flags optional"    the steps, in this order; all by default;
#                                                                "root" alone only makes the root directory
#   DISTRO_SECONDS=720                                           after so many seconds the remaining steps are skipped
#   PERF_LUAS="luajit lua5.4"                                    the interpreters of test and user
#   PERF_TOTALS=FILE                                             gets "distros passed failed skipped", for .ci/run
set -u
cd "$(dirname "$0")/.." || exit 1
tree=$PWD
roots=${PERF_ROOTS:-${XDG_CACHE_HOME:-$HOME/.cache}/lua-perf/roots}
read -ra steps <<<"${DISTRO_STEPS:-demo doc test nginx user rock install flags optional}"
releases=("$@")
[ $# -gt 0 ] || releases=(bookworm trixie sid)
if [ "$*" = turn ]; then
    releases=()
    for release in bookworm trixie sid; do
        grep -qs "^VERSION_CODENAME=$release$" /etc/os-release || releases+=("$release")
    done
    releases=("${releases[$((10#$(date +%j) % ${#releases[@]}))]}")
fi

pass=0 fail=0 skip=0
totals() {
    [ -z "${PERF_TOTALS:-}" ] || echo "distros $pass $fail $skip" >>"$PERF_TOTALS"
    echo "$pass passed, $fail failed, $skip skipped"
    [ "$fail" -eq 0 ]
    exit
}
if [ "$(id -u)" -ne 0 ]; then
    skip=${#releases[@]}
    echo "distros: skipped: ${releases[*]} (only root can make roots)"
    totals
fi
command -v debootstrap >/dev/null || tools/setup.sh distros
if ! command -v debootstrap >/dev/null; then
    skip=${#releases[@]}
    echo "distros: skipped: ${releases[*]} (debootstrap is not here and cannot be installed)"
    totals
fi

# Prints the archive that this machine uses, if it has the release; else nothing.
archive() {
    local url
    url=$(sed -n 's/^URIs: *\(\S*\/debian\/*\)$/\1/p; s/^deb \(\[[^]]*\] \)\?\(\S*\/debian\/*\) .*/\2/p' \
        /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null | head -n 1)
    if timeout 60 /usr/lib/apt/apt-helper download-file "$url/dists/$1/Release" "$roots/$1.release" >/dev/null 2>&1; then
        rm -f "$roots/$1.release"
        echo "$url"
    fi
}

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

# base RELEASE ARCHIVE: makes the root of a release, if it does not exist yet.
base() (
    root=$roots/$1
    exec 9>"$root.lock"
    flock 9 # another run may be making the root
    [ ! -e "$root/.complete" ] || return 0
    rm -rf --one-file-system "$root"
    mkdir -p "$root"
    echo "$1: debootstrap"
    debootstrap --variant=minbase --include=git,make,ca-certificates "$1" "$root" "$2" >"$root.log" 2>&1 9>&- || {
        tail -n 5 "$root.log"
        return 1
    }
    cp /etc/apt/apt.conf.d/*proxy* "$root/etc/apt/apt.conf.d/" 2>/dev/null
    touch "$root/.complete"
)

# Mounts a layer above the root, with this tree's last commit in /root/lua-perf. Other users cannot enter /root, as on a new
# machine.
enter() {
    work=$(mktemp -d)
    mount -t tmpfs tmpfs "$work" && mkdir "$work/root" "$work/upper" "$work/work" &&
        mount -t overlay overlay -o "lowerdir=$roots/$1,upperdir=$work/upper,workdir=$work/work" "$work/root" || return 1
    mkdir -p "$roots/$1.packages/partial"
    mount --bind "$roots/$1.packages" "$work/root/var/cache/apt/archives"
    # Mount this machine's own /proc: specs lock a file there when they set a sysctl, which affects the whole machine.
    for at in proc sys dev; do
        mount --rbind "/$at" "$work/root/$at"
        mount --make-rslave "$work/root/$at"
    done
    cp /etc/resolv.conf /etc/hosts "$work/root/etc/"
    git clone -q "$tree" "$work/root/root/lua-perf"
    chmod 700 "$work/root/root"
}

# step RELEASE NAME COMMAND: runs it as root in the clone. If it fails, its last lines are shown, and its failures go to the list of
# tools/failed.sh.
step() {
    local release=$1 name=$2 start=$SECONDS
    if [ "$SECONDS" -ge "${DISTRO_SECONDS:-$((SECONDS + 1))}" ]; then
        skip=$((skip + 1))
        echo "$release: $name: skipped (no step starts after $DISTRO_SECONDS s)"
        return
    fi
    install -m 666 /dev/null "$work/root/failed"
    if chroot "$work/root" env -i HOME=/root PERF_FAILED=/failed ${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} \
        ${PERF_LUAS:+PERF_LUAS="$PERF_LUAS"} ${preload:+LD_PRELOAD="$preload"} SUITE_TIMEOUT=6000 PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 \
        bash -c "cd /root/lua-perf && $3" >"$work/log" 2>&1 </dev/null; then
        pass=$((pass + 1))
        echo "$release: $name: ok, in $((SECONDS - start)) s: $(grep -aE '^[0-9]+ passed' "$work/log" | tail -n 1)"
    else
        fail=$((fail + 1))
        echo "$release: $name: FAILED"
        [ -z "${PERF_FAILED:-}" ] || sed "s/^[^\t]*/$release, $name/" "$work/root/failed" >>"$PERF_FAILED"
        grep -aE '^failure:|error:|warning:' "$work/log" | head -n 30
        tail -n 25 "$work/log"
    fi
}

# Each step of a release.
# shellcheck disable=SC2016,SC2317 # the commands are expanded in the root; the functions are called by their names
do_demo() { step "$1" "make demo" 'make demo'; }
do_doc() { step "$1" "make doc beside Lua 5.4 alone" 'LUA=lua5.4 tools/setup.sh build && make doc'; }
do_test() { step "$1" "make test" 'make test'; }
do_nginx() { step "$1" "make test-nginx" 'make test-nginx'; }
# The lint needs no privileges, and do_test has run it.
do_user() {
    step "$1" "make test as an ordinary user" 'useradd -m tester 2>/dev/null; rm -rf /home/tester/lua-perf; chmod 700 /home/tester
        tools/setup.sh test && git config --global --add safe.directory "*" && git clone -q . /home/tester/lua-perf &&
        chown -R tester: /home/tester/lua-perf && setpriv --reuid tester --regid tester --init-groups env HOME=/home/tester \
        make -C /home/tester/lua-perf PERF_NO_SETUP=1 PERF_NO_LINT=1 test'
}
do_rock() { step "$1" "make rock" 'make rock'; }
do_install() {
    step "$1" "make install, uninstall" 'tools/setup.sh demo && find /usr/local | sort >/tmp/before && make -s install &&
        (cd / && luajit -e "assert(require [[perf]].measure(function() end))" && luaperf stat -e task-clock -- true) &&
        make -s uninstall && find /usr/local | sort | diff /tmp/before -'
}
do_flags() {
    local compiler flags
    step "$1" "what the flags need" 'tools/setup.sh test'
    for compiler in gcc clang; do
        for flags in "-O0 -g" "-O2" "-O3 -flto" "-O2 -D_FORTIFY_SOURCE=3"; do
            if [ "$1 $compiler $flags" = "bullseye clang -O3 -flto" ]; then
                skip=$((skip + 1))
                echo "$1: $compiler $flags: skipped (the linker's plugin is in no package that clang wants)"
                continue
            fi
            step "$1" "$compiler $flags" "$(printf 'compiler=%s flags=%q\n' "$compiler" "$flags"; cat <<'END'
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
}
do_optional() {
    step "$1" "each optional library not there" 'tools/setup.sh test && for e in bpf symbols tracefields zstd pfm; do
        package=$(sed -n "s/^debian_$e := \([^ ]*\).*/\1/p" Makefile); rm -rf /tmp/optional/luajit/perf/ext
        dpkg --force-depends -r "$package" && make -s -j2 BUILD=/tmp/optional all testkit >/tmp/optional.log 2>&1 &&
            grep "perf.ext.$e is left out: install $package" /tmp/optional.log &&
            BUILD=/tmp/optional tools/suite.sh -l luajit spec/unit/doctor/features_spec.lua spec/live/measure/measure_spec.lua &&
            dpkg -i /var/cache/apt/archives/"$package"_*.deb || { cat /tmp/optional.log; exit 1; }; done'
}

for release in "${releases[@]}"; do
    preload=
    [ "$release" != bullseye ] || preload=libpthread.so.0 # see doc/reliability.md
    from=$(mkdir -p "$roots" && archive "$release")
    if [ -z "$from" ]; then
        skip=$((skip + 1))
        echo "$release: skipped (no archive that has it can be reached)"
        continue
    fi
    if ! base "$release" "$from"; then
        echo "$release: its root directory could not be made"
        fail=$((fail + 1))
    elif [ "${steps[*]}" = root ]; then
        echo "$release: the root is ready"
        pass=$((pass + 1))
    elif enter "$release"; then
        for s in "${steps[@]}"; do "do_$s" "$release"; done
    else
        echo "$release: its root directory could not be entered"
        fail=$((fail + 1))
    fi
    leave
done
totals
