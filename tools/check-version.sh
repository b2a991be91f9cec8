#!/bin/sh
# lua/perf/version.lua has the version; the rockspec and the changelog must agree with it.
version=$(sed -n 's/^return "\(.*\)"$/\1/p' lua/perf/version.lua)
[ -n "$version" ] || { echo "lua/perf/version.lua: no version"; exit 1; }
rockspec=rockspec/lua-perf-$version-1.rockspec
[ -e "$rockspec" ] || { echo "$rockspec: not there, and the version is $version"; exit 1; }
grep -q "^version = \"$version-1\"$" "$rockspec" || { echo "$rockspec: its version is not $version-1"; exit 1; }
newest=$(sed -n 's/^## \[\([0-9][^]]*\)\].*/\1/p' CHANGELOG.md | head -n 1)
[ "$newest" = "$version" ] || { echo "CHANGELOG.md: its newest release is '$newest', the version is $version"; exit 1; }
