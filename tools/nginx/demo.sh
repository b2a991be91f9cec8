#!/bin/bash
# make demo-nginx: runs the example nginx.conf in a temporary directory under load for some seconds, and shows resty.perf's
# counts. KEEP=1 leaves it running until Enter.
set -u
cd "$(dirname "$0")/../.." || exit 1
make=${MAKE:-make}
if [ -z "${PERF_NO_SETUP:-}" ]; then tools/setup.sh demo-nginx || exit 1; fi
$make -s -j2 LUA=luajit all || exit 1

dir=$(mktemp -d)
chmod 755 "$dir"
stop() {
    [ ! -e "$dir/nginx.pid" ] || kill "$(cat "$dir/nginx.pid")"
    for _ in $(seq 50); do
        [ -e "$dir/nginx.pid" ] || break
        sleep 0.1
    done
    rm -rf "$dir"
}
trap stop EXIT
# nginx's workers run as a user who may not be able to read this clone: they get a copy.
$make -s LUA=luajit install DESTDIR="$dir" PREFIX=/lua || exit 1
export LUA_PATH="$dir/lua/share/lua/5.1/?.lua;$dir/lua/share/lua/5.1/?/init.lua;;" LUA_CPATH="$dir/lua/lib/lua/5.1/?.so;;"
nginx -p "$dir" -c "$PWD/examples/openresty/nginx.conf" -e "$dir/error.log" || exit 1
at=http://127.0.0.1:8080

title() { printf '\n%s\n%s\n' "$1" "${1//?/=}"; }

title "One request, asked for its counts after 20 ms of sleep"
curl -s $at/wait/20

title "Five seconds of load on two routes at once, and a few slow requests"
wrk -t1 -c8 -d5s $at/words >"$dir/words" &
load=($!)
wrk -t1 -c4 -d5s $at/page/1 >"$dir/page" &
load+=($!)
for _ in 1 2 3; do curl -s $at/wait/250 >/dev/null; done
wait "${load[@]}"
grep -h Requests/sec "$dir/words" "$dir/page"
sleep 1.2

title "What $at/metrics says, by request"
curl -s $at/metrics | luajit -e '
local t = {}
for line in io.lines() do
  local name, event, v = line:match "^lua_perf_request_([%w_]+)_sum{route=\"([^\"]*)\"} (%S+)"
  if name then t[event] = t[event] or {} t[event][name] = v end
  local route, n = line:match "^lua_perf_requests_total{route=\"([^\"]*)\"} (%d+)"
  if route then t[route] = t[route] or {} t[route].n = n end
end
if not next(t) then io.stderr:write("nothing was counted\n") os.exit(1) end
print(("%-12s %9s %14s %14s"):format("route", "requests", "CPU us each", "faults each"))
for route, r in pairs(t) do
  if tonumber(r.n) > 0 then
    print(("%-12s %9d %14.1f %14.2f"):format(route, r.n, r.task_clock_seconds / r.n * 1e6, (r.page_faults or r.page_faults_u or 0) / r.n))
  end
end'

counted=$?

title "The error log"
cut -c 1-200 "$dir/error.log"

title "Pages"
echo "$at/perf for a browser, $at/metrics for Prometheus"
if [ -n "${KEEP:-}" ]; then
    printf 'Enter ends it: '
    read -r _
fi
exit $counted
