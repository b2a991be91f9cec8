#!/bin/bash
# make test-vm: the specs that need hardware counters, kprobes or BPF, in emulated machines.
#
#   tools/vm/test.sh [NAME...]          these guests only: arm64 arm64-smp arm64-puc amd64 arm64-suite arm64-short; without names, the
#                                       first four
#   tools/vm/test.sh build [NAME...]    fetches and builds what they need, and starts none
#
#   arm64        a CPU with an Arm PMUv3 that counts; its clock is its instructions, so that no overflow is lost
#   arm64-smp    two of them
#   arm64-puc    an Arm CPU without a PMU, for what reads the memory of PUC Lua: its addresses have a bit more than on x86-64
#   amd64        kprobes, BPF and unprivileged users on x86-64, without a PMU
#   arm64-suite  two Arm CPUs without a PMU, for the whole suite: make test-arm64. It is started anew for each component, so that
#                the results of each are shown when it ends, and a component that does not end leaves the others their time.
#   arm64-short  the same guest, for the specs that depend on the machine most: make test-arm64-short
#
# The files of a guest are kept in build/vm (tools/vm/root.sh), so only the first run fetches anything. Each guest runs the
# project's own suite (tools/suite.sh); a guest that does not finish counts as a failure. If QEMU is not installed and cannot be,
# the guest is skipped by name.
#
#   VM_SPECS="spec/vm/NAME_spec.lua" instead of the usual ones (all of spec/live takes minutes: VM_LIMIT)
#   VM_LIMIT=600                     seconds for a guest
#   VM_LUA="luajit lua5.4"           instead of luajit, or of those of arm64-suite and arm64-short
#   VM_PARTS="stack profile"         these components of arm64-suite only
#   PERF_TOTALS=FILE                 gets "NAME passed failed skipped" of each guest, for .ci/run
#   PERF_FAILED=FILE                 gets a line for each failure: see tools/failed.sh
#   PERF_NO_SETUP=1                  installs nothing
set -u
cd "$(dirname "$0")/../.." || exit 1
build=
if [ "${1:-}" = build ]; then build=1; shift; fi
guests=("$@")
[ ${#guests[@]} -gt 0 ] || guests=(arm64 amd64 arm64-smp arm64-puc)
if [[ "${guests[*]}" == arm64-suite && -z "${VM_SPECS:-}" ]]; then
    guests=()
    for part in ${VM_PARTS:-$(find spec/unit spec/live spec/regress -mindepth 1 -type d -printf '%f\n' | sort -u)}; do
        guests+=("arm64-suite-$part")
    done
fi
state=build/vm
mkdir -p "$state"
work=$(mktemp -d "$PWD/$state/run.XXXXXX")
pids=()
trap 'rm -rf "$work"' EXIT
set -m # a guest is a separate process group, so that all of it ends with this script
stopped() {
    local pid
    for pid in "${pids[@]}"; do kill -- "-$pid" 2>/dev/null; done
    exit 1
}
trap stopped INT TERM HUP

arch_of() { echo "${1%%-*}"; }

# The job of a guest: sets specs, words, options, limit, luas, jobs. `words` are the properties for requires{vm=}.
plan() {
    luas=luajit jobs=1
    case $1 in
    arm64)
        specs="spec/vm/bpf_spec.lua spec/vm/idle_lists_spec.lua spec/vm/pmu_spec.lua spec/vm/probes_spec.lua
            spec/vm/profile_spec.lua
            spec/vm/sampling_spec.lua spec/vm/sharing_spec.lua spec/vm/user_read_spec.lua spec/vm/users_spec.lua
            spec/regress/measure/first_vararg_spec.lua spec/live/measure/fallback_spec.lua spec/live/doctor/features_spec.lua
            spec/live/event/group_spec.lua spec/live/measure/measure_spec.lua spec/live/measure/counting_profiler_spec.lua spec/live/record/record_spec.lua
            spec/live/event/ring_spec.lua spec/live/record/sample_spec.lua"
        words="arm64 icount" limit=240
        options=(-smp 1 -icount "shift=0,sleep=off")
        ;;
    arm64-smp)
        specs="spec/vm/cpus_spec.lua spec/vm/offline_spec.lua spec/vm/user_read_spec.lua" words="arm64 icount smp" limit=120
        options=(-smp 2 -icount "shift=0,sleep=off")
        ;;
    arm64-puc)
        specs="spec/live/outside/outside_spec.lua spec/live/profile/registers_spec.lua spec/live/stack" words="arm64" limit=300
        luas=lua5.4
        options=(-smp 1 -m 2G -cpu "max,pauth-impdef=on,pmu=off")
        ;;
    amd64)
        specs="spec/vm/bpf_spec.lua spec/vm/probes_spec.lua spec/vm/users_spec.lua spec/live/names/names_spec.lua
            spec/live/event/refusal_privileges_spec.lua"
        words="amd64" limit=180
        options=(-smp 1)
        ;;
    arm64-suite-* | arm64-short | arm64-suite)
        # An instruction-counting clock would take ten times as long, and without it a PMU loses interrupts: so this guest has no
        # PMU.
        specs="spec/unit/${1#arm64-suite-} spec/live/${1#arm64-suite-} spec/regress/${1#arm64-suite-}"
        words="arm64" limit=3600 luas="luajit lua5.4 lua5.1" jobs=2
        options=(-smp 2 -m 2G -cpu "max,pauth-impdef=on,pmu=off")
        if [ "$1" = arm64-short ]; then
            # Registers, unwinders, memory order, signals and the kernel's numbers.
            specs="spec/unit/base spec/unit/kernel spec/unit/stack spec/live/event/refusal_privileges_spec.lua spec/live/kernel
                spec/live/outside/outside_spec.lua spec/live/pool spec/live/profile/registers_spec.lua spec/live/record/sample_spec.lua
                spec/live/stack spec/live/symbols spec/regress/measure/first_vararg_spec.lua spec/regress/process
                spec/regress/profile/breakpoint_spec.lua spec/regress/profile/parents_slot_spec.lua
                spec/regress/stack/callers_of_the_allocator_spec.lua spec/regress/stack/compiled_frames_spec.lua
                spec/regress/stack/trace_exits_spec.lua"
            limit=1200 luas="luajit lua5.4"
        fi
        ;;
    *)
        echo "tools/vm/test.sh: no guest $1" >&2
        return 1
        ;;
    esac
    luas=${VM_LUA:-$luas} specs=${VM_SPECS:-$specs} limit=${VM_LIMIT:-$limit}
}

# The archive added to a guest's root: the tree, the build for that guest, and its job.
pack() { # name arch
    local top=$work/$1
    mkdir -p "$top/job/tree"
    cp -r bench bin csrc lua spec tools examples doc mk Makefile README.md CONTRIBUTING.md LICENSE CHANGELOG.md config.ld rockspec .busted "$top/job/tree"
    cp -r "$state/$2/out" "$top/job/out"
    find "$top/job/out" \( -name '*.o' -o -name '*.d' -o -name '*.a' \) -delete
    [ ! -d "$top/job/out/bpf" ] || cp -r "$state/$2/out/bpf" "$top/job/out"
    cp tools/vm/job.sh "$top/job/run.sh"
    printf 'LUAS="%s"\nSPECS="%s"\nPERF_VM="%s"\nPERF_MUST="%s"\nLIMIT=%d\nSUITE_JOBS=%d\nSUITE_SLOW=%s\n' "$luas" "$specs" \
        "$words" "root,kprobe,uprobe,tracefs,perf_open,bpf" "$((limit - 30 - limit / 20))" "$jobs" "${SUITE_SLOW:-}" >"$top/job/settings"
    (cd "$top" && find job | cpio --quiet -o -H newc -R 0:0) >"$work/$1.cpio"
    rm -rf "$top"
}

# Makes the guest's root and its module. On failure prints the reason; status 2 if QEMU or the network is missing.
prepare() { # arch interpreters
    if [ -z "${PERF_NO_SETUP:-}" ]; then tools/setup.sh "vm-$1" || return 2; fi
    local qemu=qemu-system-aarch64
    [ "$1" != amd64 ] || qemu="qemu-system-x86_64"
    command -v $qemu >/dev/null || { echo "$qemu is not here" >&2; return 2; }
    tools/vm/root.sh "$1" "$state/$1" || return 2
    # shellcheck disable=SC2086
    tools/vm/build.sh "$1" "$state/$1" $2 >"$work/build.$1" 2>&1 || {
        tail -n 30 "$work/build.$1"
        return 1
    }
}

launch() { # name
    local name=$1 arch start=$SECONDS
    arch=$(arch_of "$name")
    plan "$name" || return 1
    pack "$name" "$arch"
    VM_TIMEOUT=$limit tools/vm/run.sh "$arch" "$state/$arch" "$work/$name.cpio" "${options[@]}" >"$work/$name.log" 2>&1
    echo "$? $((SECONDS - start))" >"$work/$name.status"
}

total_pass=0 total_fail=0 total_skip=0
count() { # name passed failed skipped
    total_pass=$((total_pass + $2)) total_fail=$((total_fail + $3)) total_skip=$((total_skip + $4))
    [ -n "$build" ] || [ -z "${PERF_TOTALS:-}" ] || echo "vm-$1 $2 $3 $4" >>"$PERF_TOTALS"
}

report() { # name
    local name=$1 status seconds why pass=0 fail=0 skip=0
    read -r status seconds <"$work/$name.status"
    echo
    echo "--- $name, $seconds s"
    grep -v '^totals:\|^failed:' "$work/$name.log"
    [ -z "${PERF_FAILED:-}" ] || sed -n "s/^failed: [^\t]*/vm-$name/p" "$work/$name.log" >>"$PERF_FAILED"
    read -r _ _ pass fail skip < <(grep '^totals: ' "$work/$name.log" | tail -n 1)
    if [ -z "${skip:-}" ]; then
        pass=0 fail=1 skip=0
        why="ended without totals, status $status"
        [ "$status" -ne 124 ] || why="not done in time"
        echo "$name: $why"
        tail -n 2 "$work/$name.log" | tools/failed.sh add "vm-$name" "" "" "$why"
    elif [ "$status" -ne 0 ] && [ "$fail" -eq 0 ]; then
        fail=1
        echo "$name: ended with status $status"
        tools/failed.sh add "vm-$name" "" "" "ended with status $status" </dev/null
    fi
    count "$name" "$pass" "$fail" "$skip"
}

ready=()
declare -A prepared
for name in "${guests[@]}"; do
    plan "$name" || exit 2
    arch=$(arch_of "$name")
    made="$arch $luas"
    if [ -z "${prepared[$made]:-}" ]; then
        prepare "$arch" "$luas"
        prepared[$made]=$?
    fi
    case ${prepared[$made]} in
    0) ready+=("$name") ;;
    2)
        echo "$name: skipped, since the packages that it is made of are missing"
        count "$name" 0 0 1
        ;;
    *)
        echo "$name: the build failed"
        tail -n 3 "$work/build.$arch" | tools/failed.sh add "vm-$name" "" "" "the build failed"
        count "$name" 0 1 0
        ;;
    esac
done

if [ -n "$build" ]; then
    echo "ready: ${ready[*]}"
    [ -z "${PERF_TOTALS:-}" ] || echo "vm-build ${#ready[@]} $total_fail $total_skip" >>"$PERF_TOTALS"
    [ "$total_fail" -eq 0 ]
    exit
fi

# Two at a time: each emulates on one of the host's CPUs. The guest of the suite emulates on two.
case "${guests[*]}" in
*arm64-suite* | *arm64-short*) at_once=1 ;;
*) at_once=2 ;;
esac
running=()
finish() { # the guest that was started first
    wait "${pids[0]}"
    report "${running[0]}"
    pids=("${pids[@]:1}") running=("${running[@]:1}")
}
for name in "${ready[@]}"; do
    [ ${#pids[@]} -lt $at_once ] || finish
    launch "$name" &
    pids+=($!) running+=("$name")
done
while [ ${#pids[@]} -gt 0 ]; do finish; done

echo
echo "$total_pass passed, $total_fail failed, $total_skip skipped"
[ "$total_fail" -eq 0 ]
