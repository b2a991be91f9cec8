#!/bin/bash
# make test-backends: the specs of spec/backends against real servers on loopback ports.
#
#   tools/backends.sh test [NAME...]     these servers only: zipkin jaeger collector prometheus
#   tools/backends.sh build [NAME...]    gets and builds them, without a time limit
#   tools/backends.sh load               100,000 spans a second into the collector
#
# Zipkin is the project's executable jar, Prometheus is Debian's, Jaeger and the OpenTelemetry collector are built from the Go
# module proxy; they are kept in a cache directory, since a first build of Jaeger takes minutes. A server that is not there and
# cannot be had in time is left out by name, and its specs are skipped. doc/backends.md has it in words.
#
#   BACKENDS_CACHE=DIR       where servers are kept (~/.cache/lua-perf/backends)
#   BACKENDS_PATIENCE=40     seconds for getting or building one of them in a test run
#   BACKENDS_LUA="luajit lua5.4"    the interpreters
#   LOAD_SECONDS=60          how long the load lasts
#   PERF_TOTALS=FILE         gets "backends passed failed skipped", for .ci/run
#   PERF_NO_SETUP=1          installs nothing
set -u
cd "$(dirname "$0")/.." || exit 1
what=${1:-test}
shift
names=("$@")
[ ${#names[@]} -gt 0 ] || names=(zipkin collector jaeger prometheus)
[ "$what" != load ] || names=(collector)
zipkin_version=3.5.1
jaeger_version=v1.62.0
cache=${BACKENDS_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/lua-perf/backends}
patience=${BACKENDS_PATIENCE:-40}
[ "$what" != build ] || patience=7200
mkdir -p "$cache" || exit 1
work=$(mktemp -d)
pids=()
stop() {
    local pid
    for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null; done
    [ ${#pids[@]} -eq 0 ] || wait "${pids[@]}" 2>/dev/null
    pids=()
    rm -rf "$work"
}
trap stop EXIT
trap 'exit 1' INT TERM HUP

wanted() { [[ " ${names[*]} " == *" $1 "* ]]; }
left_out() { echo "$1 is left out: $2"; }

# attempt NAME FILE COMMAND...: makes FILE, which must be whole when it appears; says why not.
attempt() {
    local name=$1 file=$2
    shift 2
    [ -e "$file" ] && return 0
    if timeout "$patience" "$@" >"$work/$name.log" 2>&1 && [ -e "$file" ]; then return 0; fi
    left_out "$name" "not to be had within $patience s ($(tail -n 1 "$work/$name.log" | cut -c 1-150))"
    return 1
}

get_zipkin() {
    mvn -q -B org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy -DoutputDirectory="$work/jar" \
        -Dartifact="io.zipkin:zipkin-server:$zipkin_version:jar:exec" &&
        mv "$work"/jar/*.jar "$cache/zipkin-$zipkin_version.jar"
}

build_jaeger() {
    mkdir -p "$work/jaeger" && cd "$work/jaeger" || return
    printf 'module jaeger\n\ngo 1.22.0\n' >go.mod
    go get "github.com/jaegertracing/jaeger/cmd/all-in-one@$jaeger_version" &&
        nice go build -o "$work/jaeger/out" github.com/jaegertracing/jaeger/cmd/all-in-one &&
        mv "$work/jaeger/out" "$cache/jaeger-$jaeger_version"
}

collector_binary=$cache/collector-$(cat spec/backends/collector/* | sha1sum | cut -c 1-12)
build_collector() {
    cp -r spec/backends/collector "$work/collector" && cd "$work/collector" || return
    nice go build -mod=mod -o out . && mv out "$collector_binary"
}
export -f get_zipkin build_jaeger build_collector
export work cache zipkin_version jaeger_version collector_binary

# Debian's Go may be older than what these want; a newer one fetches the toolchain it is told to.
can_go() {
    local version
    version=$(go env GOVERSION 2>/dev/null) || { echo "no go"; return 1; }
    version=${version#go1.}
    [ "${version%%[!0-9]*}" -ge 21 ] || { echo "go 1.21 or newer is needed, this is 1.$version"; return 1; }
}

declare -A have
for name in "${names[@]}"; do
    case $name in
    zipkin)
        [ -n "${PERF_NO_SETUP:-}" ] || tools/setup.sh backends-zipkin
        if ! command -v java >/dev/null; then
            left_out zipkin "no java"
        elif attempt zipkin "$cache/zipkin-$zipkin_version.jar" bash -c get_zipkin; then
            have[zipkin]=1
        fi
        ;;
    jaeger)
        if ! why=$(can_go) && [ ! -e "$cache/jaeger-$jaeger_version" ]; then
            left_out jaeger "$why"
        elif attempt jaeger "$cache/jaeger-$jaeger_version" bash -c build_jaeger; then
            have[jaeger]=1
        fi
        ;;
    collector)
        if ! why=$(can_go) && [ ! -e "$collector_binary" ]; then
            left_out collector "$why"
        elif attempt collector "$collector_binary" bash -c build_collector; then
            have[collector]=1
        fi
        ;;
    prometheus)
        [ -n "${PERF_NO_SETUP:-}" ] || tools/setup.sh backends-prometheus
        if command -v prometheus >/dev/null; then have[prometheus]=1; else left_out prometheus "no prometheus"; fi
        ;;
    *)
        echo "tools/backends.sh: no server $name" >&2
        exit 2
        ;;
    esac
done
[ "$what" != build ] || { echo "ready: ${!have[*]}"; exit; }

# --- the servers ----------------------------------------------------------------------------------

port=$((20000 + RANDOM % 20000))
next_port() { # sets p
    while port=$((port + 1)) && (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do :; done
    p=$port
}

# start NAME COMMAND...: in the background; its output is $work/NAME.log
start() {
    local name=$1
    shift
    "$@" >"$work/$name.log" 2>&1 &
    pids+=($!)
}

# ready NAME PORT PATH: waits until the server answers there with 200
ready() {
    local i line
    for ((i = 0; i < 300; i++)); do
        if { exec 3<>"/dev/tcp/127.0.0.1/$2"; } 2>/dev/null; then
            printf 'GET %s HTTP/1.0\r\nHost: localhost\r\n\r\n' "$3" >&3
            read -r -t 5 line <&3
            exec 3<&- 3>&-
            case ${line:-} in *" 200"* | *" 405"*) return 0 ;; esac
        fi
        sleep 0.3
    done
    left_out "$1" "it did not start ($(tail -n 1 "$work/$1.log" | cut -c 1-150))"
    return 1
}

if [ -n "${have[zipkin]:-}" ]; then
    next_port && zipkin=$p
    QUERY_PORT=$zipkin STORAGE_TYPE=mem start zipkin java -Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 \
        -jar "$cache/zipkin-$zipkin_version.jar"
fi
if [ -n "${have[jaeger]:-}" ]; then
    next_port && jaeger=$p
    next_port && jaeger_query=$p
    options=(--collector.otlp.http.host-port="127.0.0.1:$jaeger" --query.http-server.host-port="127.0.0.1:$jaeger_query")
    for flag in collector.otlp.grpc query.grpc-server admin.http collector.grpc-server collector.http-server \
        processor.jaeger-binary.server processor.jaeger-compact.server processor.zipkin-compact.server http-server; do
        next_port
        options+=("--$flag.host-port=127.0.0.1:$p")
    done
    options=("${options[@]//server.host-port/server-host-port}")
    options=("${options[@]/http-server-host-port/http-server.host-port}")
    options=("${options[@]/grpc-server-host-port/grpc-server.host-port}")
    OTEL_TRACES_SAMPLER=always_off start jaeger "$cache/jaeger-$jaeger_version" "${options[@]}"
fi
if [ -n "${have[collector]:-}" ]; then
    next_port && collector=$p
    output="{file: {path: $work/spans.json, flush_interval: 100ms}}" used=file
    # Under load what it takes is thrown away at once: a file of all of it would measure the disk.
    [ "$what" != load ] || output="{file: {path: /dev/null}}"
    cat >"$work/collector.yaml" <<EOF
receivers: {otlp: {protocols: {http: {endpoint: "127.0.0.1:$collector"}}}}
exporters: $output
service:
  telemetry: {metrics: {level: none}, logs: {level: warn}}
  pipelines:
    traces: {receivers: [otlp], exporters: [$used]}
    metrics: {receivers: [otlp], exporters: [$used]}
EOF
    start collector "$collector_binary" --config "file:$work/collector.yaml"
fi
if [ -n "${have[prometheus]:-}" ]; then
    next_port && prometheus=$p
    next_port && metrics=$p
    cat >"$work/prometheus.yml" <<EOF
scrape_configs:
  - job_name: program
    scrape_interval: 500ms
    scrape_timeout: 400ms
    static_configs: [{targets: ["127.0.0.1:$metrics"]}]
EOF
    start prometheus prometheus --config.file="$work/prometheus.yml" --storage.tsdb.path="$work/tsdb" \
        --web.listen-address="127.0.0.1:$prometheus"
fi
if [ -n "${have[zipkin]:-}" ] && ready zipkin "$zipkin" /health; then
    export PERF_BACKEND_ZIPKIN=http://127.0.0.1:$zipkin
fi
if [ -n "${have[jaeger]:-}" ] && ready jaeger "$jaeger_query" /api/services; then
    export PERF_BACKEND_JAEGER=http://127.0.0.1:$jaeger PERF_BACKEND_JAEGER_QUERY=http://127.0.0.1:$jaeger_query
fi
if [ -n "${have[collector]:-}" ] && ready collector "$collector" /v1/traces; then
    export PERF_BACKEND_COLLECTOR=http://127.0.0.1:$collector PERF_BACKEND_COLLECTOR_FILE=$work/spans.json
    next_port # of one that a spec kills
    sed "s/:$collector/:$p/; s/spans.json/killed.json/" "$work/collector.yaml" >"$work/killed.yaml"
    export PERF_BACKEND_KILLED=http://127.0.0.1:$p PERF_BACKEND_KILLED_FILE=$work/killed.json
    export PERF_BACKEND_KILLED_COMMAND="$collector_binary --config file:$work/killed.yaml"
fi
if [ -n "${have[prometheus]:-}" ] && ready prometheus "$prometheus" /-/ready; then
    export PERF_BACKEND_PROMETHEUS=http://127.0.0.1:$prometheus PERF_BACKEND_PROMETHEUS_TARGET=$metrics
fi

# --- the specs ------------------------------------------------------------------------------------

build=${BUILD:-build}
export BUILD=$build
read -r -a luas <<<"${BACKENDS_LUA:-luajit lua5.4}"
if [ "$what" = load ]; then
    [ -n "${PERF_BACKEND_COLLECTOR:-}" ] || exit 1
    make -s LUA="${luas[0]}" all || exit
    LUA_PATH="./lua/?.lua;./lua/?/init.lua;;" LUA_CPATH="$build/${luas[0]}/?.so;;" \
        "${luas[0]}" spec/backends/load.lua "$PERF_BACKEND_COLLECTOR" "${LOAD_SECONDS:-60}" 100000
    exit
fi
[ -n "${PERF_NO_SETUP:-}" ] || tools/setup.sh test || exit
for lua in "${luas[@]}"; do make -s LUA="$lua" all testkit || echo "$lua is left out"; done
SUITE_NAME=backends SUITE_TIMEOUT=${SUITE_TIMEOUT:-150} tools/suite.sh -l "${luas[*]}" spec/backends
