#!/bin/bash
# make test-nginx: the specs of resty.perf, each with a separate nginx on loopback ports. Several run at once, since they mostly wait.
#
#   NGINX_SPECS=spec/nginx/count_spec.lua   instead of all
#   PERF_TOTALS=FILE                        gets "nginx passed failed skipped", for .ci/run
#   PERF_NO_SETUP=1                         installs nothing
#   PERF_NGINX=/opt/openresty/nginx/sbin/nginx   an nginx with the Lua module built in, such as OpenResty's, instead of Debian's
#   PERF_NGINX_LUA=/opt/openresty/lualib    its lua-resty-core and lua-cjson
set -u
cd "$(dirname "$0")/../.." || exit 1
make=${MAKE:-make}
if [ -z "${PERF_NO_SETUP:-}" ]; then tools/setup.sh nginx || exit 1; fi
if [ "$(id -u)" -eq 0 ] && [ ! -e /sys/kernel/tracing/events/header_page ]; then
    mount -t tracefs tracefs /sys/kernel/tracing 2>/dev/null || echo "tracefs is not mounted and cannot be"
fi
$make -s -j2 LUA=luajit all testkit || exit 1
SUITE_NAME=nginx tools/suite.sh -l luajit "${NGINX_SPECS:-spec/nginx}"
