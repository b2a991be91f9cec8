#!/bin/bash
# Installs the rock from the tree, without network, into an empty place for Lua 5.1 (LuaJIT) and 5.4,
# loads the module from there, and runs a script under the luaperf that LuaRocks made a launcher for: it alone knows the place.
set -u
pass=0 fail=0
rockspec=$(ls rockspec/*.rockspec)
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
cat >"$tree/script.lua" <<'EOF'
assert(arg[1] == "word")
for i = 1, 3e5 do local _ = tostring(i) end
print "ran"
EOF
# The script under luaperf $1 of the tree $tree/$v, with nothing in the environment to find the module by.
luaperf() {
    (cd "$tree/$v" && env -u LUA_PATH -u LUA_CPATH -u LUA_INIT LUA=$run timeout 60 bin/luaperf "$@" ../script.lua word) 2>&1
}
for v in 5.1 5.4; do
    run=lua$v
    [ $v != 5.1 ] || run=luajit
    if luarocks --lua-version $v --tree "$tree/$v" make --deps-mode=none "$rockspec" >"$tree/log" 2>&1 &&
        out=$(cd / && LUA_PATH="$tree/$v/share/lua/$v/?.lua;$tree/$v/share/lua/$v/?/init.lua" \
            LUA_CPATH="$tree/$v/lib/lua/$v/?.so" \
            $run -e 'assert(require "perf.core"); local p = require "perf"; print(type(p), require "perf.version")' 2>&1) &&
        ran=$(luaperf stat -e task-clock && luaperf record -e task-clock -o profile.json) &&
        [ "$(grep -c ^ran <<<"$ran")" = 2 ] && grep -q "elapsed" <<<"$ran" && [ -s "$tree/$v/profile.json" ]; then
        pass=$((pass + 1))
        echo "rock for Lua $v: ok ($out)"
    else
        fail=$((fail + 1))
        echo "rock for Lua $v: FAILED"
        tail -n 20 "$tree/log"
        printf '%s\n' "${out:-}" "${ran:-}"
        { tail -n 2 "$tree/log"; printf '%s\n' "${out:-}" "${ran:-}"; } | tools/failed.sh add rock $run "" "the rock"
    fi
done
[ -z "${PERF_TOTALS:-}" ] || echo "rock $pass $fail 0" >>"$PERF_TOTALS"
echo "$pass passed, $fail failed, 0 skipped"
[ "$fail" -eq 0 ]
