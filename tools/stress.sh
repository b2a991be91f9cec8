#!/bin/bash
# make stress: runs the suite again and again beside four busy loops per CPU, on one interpreter after the other, then once on all of
# them with 1 GiB of memory.
#
#   STRESS_RUNS=20       the number of runs beside the busy loops: with five interpreters, four runs of each
#   STRESS_PATHS=        the specs (spec/unit spec/live spec/regress)
#   STRESS_LUAS=         the interpreters (all that are installed)
#   STRESS_LOOPS=4       busy loops per CPU; 0 for none
#   STRESS_MEMORY=1024   MiB for the last run; 0 leaves it out
#   PERF_TOTALS=FILE     gets "stress passed failed skipped"
#
# A run takes five to eight minutes on two CPUs, so all of them take about two hours. In parts:
#
#   STRESS_RUNS=5 STRESS_MEMORY=0 STRESS_LUAS=luajit make stress
#   STRESS_RUNS=0 STRESS_LUAS=lua5.4 make stress    the run with little memory alone
#
# Each run prints its failures, and the last line is the total. The busy loops end with this script, even if SIGKILL ends it.
set -u
make=${MAKE:-make}
runs=${STRESS_RUNS:-20} loops=${STRESS_LOOPS:-4} memory=${STRESS_MEMORY:-1024}
read -ra paths <<<"${STRESS_PATHS:-spec/unit spec/live spec/regress}"
wanted=${STRESS_LUAS:-luajit lua5.1 lua5.2 lua5.3 lua5.4} luas=()
$make -s -j2 builds BUILDS="$wanted" || exit 1
for lua in $wanted; do
    if [ -e "${BUILD:-build}/$lua/testkit.so" ]; then luas+=("$lua"); fi
done
[ ${#luas[@]} -gt 0 ] || { echo "stress: not built for any of: $wanted" >&2; exit 1; }

work=$(mktemp -d)
load=() group='' suite=''

unload() {
    [ ${#load[@]} -eq 0 ] || kill "${load[@]}" 2>/dev/null
    load=()
}

failures() { grep -vE '^ +[0-9]+ for lack of |^[0-9]+ passed,' "$work/out"; }

end() {
    trap '' INT TERM HUP # timeout(1) sends two
    if [ -n "$suite" ]; then
        { kill "$suite" && wait "$suite"; } 2>/dev/null
        echo "stress: stopped in the middle of a run, whose results so far are:"
        failures
    fi
    unload
    [ -z "$group" ] || rmdir "$group" 2>/dev/null
    rm -rf "$work"
}
trap end EXIT
trap 'exit 1' INT TERM HUP

# --pdeathsig refers to the process that forked the loop, so the script itself must start them, not a pipe or a subshell.
busy() {
    local i n=$(($(nproc) * loops))
    for ((i = 0; i < n; i++)); do
        # shellcheck disable=SC2016 # the inner shell's; its parent may have died before the signal was asked for
        setpriv --pdeathsig KILL sh -c '[ $PPID -eq "$0" ] || exit; while :; do :; done' $$ &
        load+=($!)
    done
    echo "stress: $n busy loops run beside the suite"
}

pass=0 fail=0 skip=0

# run NAME INTERPRETERS [COMMAND...]: runs the suite once on them, under that command.
run() {
    local name=$1 on=$2 start=$SECONDS p f s
    shift 2
    PERF_TOTALS=$work/totals SUITE_NAME=run SUITE_TIMEOUT=${SUITE_TIMEOUT:-7200} setpriv --pdeathsig TERM \
        "$@" tools/suite.sh -l "$on" "${paths[@]}" >"$work/out" 2>&1 &
    suite=$!
    wait $suite
    suite=
    if ! read -r _ p f s 2>/dev/null <"$work/totals"; then p=0 f=1 s=0; fi
    rm -f "$work/totals"
    pass=$((pass + p)) fail=$((fail + f)) skip=$((skip + s))
    echo "stress: $name: $p passed, $f failed, $s skipped, in $((SECONDS - start)) s"
    [ "$f" -eq 0 ] || failures
}

# The run gets a new cgroup, if possible, that limits the memory of all its processes, including the page cache.
limit_by_cgroup() {
    local top line bytes=$((memory * 1048576))
    while read -r _ top line _; do
        case $line in cgroup | cgroup2) ;; *) continue ;; esac
        group=$top/lua-perf-stress-$$
        mkdir "$group" 2>/dev/null || continue
        if echo $bytes >"$group/memory.max" || echo $bytes >"$group/memory.limit_in_bytes"; then
            echo 0 >"$group/memory.swap.max" # v2; v1 counts swap apart
            return 0
        fi 2>/dev/null
        rmdir "$group"
    done </proc/self/mounts 2>/dev/null
    group=''
    return 1
}

[ "$loops" -eq 0 ] || [ "$runs" -eq 0 ] || busy
for ((i = 0; i < runs; i++)); do
    lua=${luas[i % ${#luas[@]}]}
    run "run $((i + 1)) of $runs, $lua" "$lua"
done
unload
if [ "$memory" -gt 0 ]; then
    if limit_by_cgroup; then
        # shellcheck disable=SC2016 # the inner shell's
        run "$memory MiB for all processes together, by a cgroup" "${luas[*]}" \
            sh -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$group"
        kills=$(sed -n 's/^oom_kill //p' "$group/memory.events" "$group/memory.oom_control" 2>/dev/null)
        [ "${kills:-0}" -eq 0 ] || echo "stress: $kills processes were killed for lack of memory"
    else
        # shellcheck disable=SC2016
        run "$memory MiB of addresses for each process: no cgroup that limits memory can be made here" "${luas[*]}" \
            sh -c 'ulimit -v $0 && exec "$@"' $((memory * 1024))
    fi
fi
[ -z "${PERF_TOTALS:-}" ] || echo "stress $pass $fail $skip" >>"$PERF_TOTALS"
echo "$pass passed, $fail failed, $skip skipped"
[ "$fail" -eq 0 ] && [ "$pass" -gt 0 ]
