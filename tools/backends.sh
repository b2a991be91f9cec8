#!/bin/bash
# make test-backends: the specs of spec/backends against real servers on loopback ports.
#
#   tools/backends.sh test [NAME...]     these servers only: zipkin jaeger collector prometheus
#   tools/backends.sh build [NAME...]    fetches and builds them, and starts none
#   tools/backends.sh load               100,000 spans a second into the collector
#
# Zipkin is the project's executable jar, Prometheus is Debian's, Jaeger and the OpenTelemetry collector are built from the Go
# module proxy; they are kept in a cache directory, since a first build of Jaeger takes minutes. A server that is not available is
# left out by name, and its specs are skipped. See doc/exporter.md.
#
#   BACKENDS_CACHE=DIR       where servers are kept (~/.cache/lua-perf/backends)
#   BACKENDS_BUDGET=SECONDS  the limit for fetching and building missing servers: those that need longer are left out; none by default
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

# --- servers that are not in the cache -----------------------------------------------------------------

zipkin_file=$cache/zipkin-$zipkin_version.jar
jaeger_file=$cache/jaeger-$jaeger_version
collector_file=$cache/collector-$(cat spec/backends/collector/* | sha1sum | cut -c 1-12)
making=$cache/making # Maven's repository, Go's modules and objects: removed when all servers are built
export making zipkin_version zipkin_file jaeger_version jaeger_file collector_file

# The cost of each is printed before it begins. (Measured on two CPUs.)
declare -A cost=(
    [zipkin]="130 MB from Maven Central, some 10 seconds"
    [collector]="built by Go from its module proxy, some 2 minutes and 1.3 GB of disk meanwhile"
    [jaeger]="built by Go from its module proxy, some 7 minutes and 3 GB of disk meanwhile"
)

make_zipkin() {
    mvn -q -B -Dmaven.repo.local="$making/maven" org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy \
        -DoutputDirectory="$making/tmp" -Dartifact="io.zipkin:zipkin-server:$zipkin_version:jar:exec" &&
        mv "$making"/tmp/*.jar "$zipkin_file"
}

go_here() {
    GOFLAGS="$(go env GOFLAGS) -modcacherw -buildvcs=false"
    export GOFLAGS GOPATH=$making/go GOMODCACHE=$making/go/pkg/mod GOCACHE=$making/go-build GOTMPDIR=$making/tmp
    mkdir -p "$making/tmp/$1" && cd "$making/tmp/$1" || return
}

make_jaeger() {
    go_here jaeger || return
    printf 'module jaeger\n\ngo 1.22.0\n' >go.mod
    go get "github.com/jaegertracing/jaeger/cmd/all-in-one@$jaeger_version" &&
        nice go build -o out github.com/jaegertracing/jaeger/cmd/all-in-one && mv out "$jaeger_file"
}

make_collector() {
    cp -r spec/backends/collector "$making/tmp" && go_here collector && nice go build -mod=mod -o out . && mv out "$collector_file"
}
export -f make_zipkin go_here make_jaeger make_collector

# Debian's Go may be too old for these. From 1.21 on, Go fetches the toolchain that a module requires.
can_go() {
    local version
    version=$(go env GOVERSION 2>/dev/null) || { echo "no go"; return; }
    version=${version#go1.}
    [ "${version%%[!0-9]*}" -ge 21 ] || echo "go 1.21 or newer is needed, this is 1.$version"
}

# obtain NAME: makes the server's file, which appears only when it is complete, or prints why that failed.
obtain() {
    local name=$1 left=0 start=$SECONDS why # no time limit is 0
    local file=${name}_file log=$work/$name.log
    [ ! -e "${!file}" ] || return 0
    if [ -n "${BACKENDS_BUDGET:-}" ]; then
        left=$((BACKENDS_BUDGET - SECONDS))
        [ "$left" -gt 0 ] || { left_out "$name" "the $BACKENDS_BUDGET s of BACKENDS_BUDGET are over"; return 1; }
    fi
    echo "$name is not in $cache yet: ${cost[$name]}"
    rm -rf "$making/tmp" && mkdir -p "$making/tmp"
    # In the background, so that this script handles a signal at once and ends the command too.
    timeout "$left" bash -c "make_$name" >"$log" 2>&1 &
    pids=($!)
    wait $!
    [ $? -eq 124 ] && why="not done in the $left s that BACKENDS_BUDGET left" || why=$(tail -n 1 "$log" | cut -c 1-150)
    pids=()
    if [ -e "${!file}" ]; then
        echo "$name: ready after $((SECONDS - start)) s"
    else
        left_out "$name" "$why"
        return 1
    fi
}

# A lock keeps two runs from making the same server twice, and from removing files that the other needs.
exec 9>"$cache/lock"
flock -n 9 || {
    echo "another run fetches or builds servers: waiting for it"
    flock -w "${BACKENDS_BUDGET:-86400}" 9
}
declare -A have
complete=1
for name in "${names[@]}"; do
    why=''
    file=${name}_file
    case $name in
    zipkin)
        [ -n "${PERF_NO_SETUP:-}" ] || tools/setup.sh backends-zipkin
        command -v java >/dev/null || why="no java"
        ;;
    jaeger | collector) [ -e "${!file}" ] || why=$(can_go) ;;
    prometheus)
        [ -n "${PERF_NO_SETUP:-}" ] || tools/setup.sh backends-prometheus
        command -v prometheus >/dev/null || why="no prometheus"
        ;;
    *)
        echo "tools/backends.sh: no server $name" >&2
        exit 2
        ;;
    esac
    if [ -n "$why" ]; then
        left_out "$name" "$why"
    elif [ "$name" = prometheus ] || obtain "$name"; then
        have[$name]=1
        continue
    fi
    complete=
done
# Keep the sources while a server is missing: the next run continues from there.
[ -z "$complete" ] || rm -rf "$making"
exec 9>&-
[ "$what" != build ] || { echo "ready: ${!have[*]}"; [ -n "$complete${BACKENDS_BUDGET:-}" ]; exit; }

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
        -jar "$zipkin_file"
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
    OTEL_TRACES_SAMPLER=always_off start jaeger "$jaeger_file" "${options[@]}"
fi
if [ -n "${have[collector]:-}" ]; then
    next_port && collector=$p
    output="{file: {path: $work/spans.json, flush_interval: 100ms}}" used=file
    # Under load the collector discards the spans at once: writing them to a file would measure the disk.
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
    start collector "$collector_file" --config "file:$work/collector.yaml"
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
    next_port # the port of a server that a spec kills
    sed "s/:$collector/:$p/; s/spans.json/killed.json/" "$work/collector.yaml" >"$work/killed.yaml"
    export PERF_BACKEND_KILLED=http://127.0.0.1:$p PERF_BACKEND_KILLED_FILE=$work/killed.json
    export PERF_BACKEND_KILLED_COMMAND="$collector_file --config file:$work/killed.yaml"
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
SUITE_JOBS=1 SUITE_NAME=backends SUITE_TIMEOUT=${SUITE_TIMEOUT:-150} tools/suite.sh -l "${luas[*]}" spec/backends
