#!/bin/bash
# Installs the rock from the tree, without network, into an empty place for Lua 5.1 (LuaJIT) and 5.4,
# and loads the module from there.
set -u
pass=0 fail=0
rockspec=$(ls rockspec/*.rockspec)
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
for v in 5.1 5.4; do
    run=lua$v
    [ $v != 5.1 ] || run=luajit
    if luarocks --lua-version $v --tree "$tree/$v" make --deps-mode=none "$rockspec" >"$tree/log" 2>&1 &&
        out=$(cd / && LUA_PATH="$tree/$v/share/lua/$v/?.lua;$tree/$v/share/lua/$v/?/init.lua" \
            LUA_CPATH="$tree/$v/lib/lua/$v/?.so" \
            $run -e 'assert(require "perf.core"); local p = require "perf"; print(type(p), require "perf.version")' 2>&1); then
        pass=$((pass + 1))
        echo "rock for Lua $v: ok ($out)"
    else
        fail=$((fail + 1))
        echo "rock for Lua $v: FAILED"
        tail -n 20 "$tree/log"
        echo "${out:-}"
    fi
done
[ -z "${PERF_TOTALS:-}" ] || echo "rock $pass $fail 0" >>"$PERF_TOTALS"
echo "$pass passed, $fail failed, 0 skipped"
[ "$fail" -eq 0 ]
