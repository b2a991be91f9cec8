#!/bin/bash
# make doc: writes the reference as HTML to build/doc. It fails if a docstring is wrong, if LDoc warns, or if markdown is not
# rendered.
set -eu
rm -rf build/doc build/reference
luajit tools/reference.lua build/reference
# LuaJIT runs Debian's ldoc, since the ldoc command only starts Lua 5.1 or 5.2, and neither may be installed.
ldoc=(ldoc)
if head -n 1 "$(command -v ldoc)" | grep -q lua-any; then ldoc=(luajit "$(command -v ldoc)"); fi
# Some releases have no Lua module that renders markdown. If Discount's command is installed, tools/discount.lua calls it.
if markdown -V 2>/dev/null | grep -q discount; then export LUA_PATH="${LUA_PATH:-;};$PWD/tools/?.lua"; fi
log=$(cd build/reference && "${ldoc[@]}" --fatalwarnings -c config.ld -d ../doc . 2>&1) || {
    echo "$log"
    exit 1
}
if grep -q "falling back to text" <<<"$log"; then
    echo "$log"
    echo "LDoc found no markdown processor: install lua-discount, or discount"
    exit 1
fi
luajit tools/reference.lua -c
