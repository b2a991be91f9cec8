#!/bin/bash
# The reference as HTML in build/doc: make doc. It fails if a docstring is wrong, if LDoc warns, and if markdown is not rendered.
set -eu
rm -rf build/doc build/reference
luajit tools/reference.lua build/reference
# Debian's ldoc runs on Lua 5.2 if it is there; lua-markdown, which serves if lua-discount is not there, needs Lua 5.1.
ldoc=(ldoc)
if ! lua5.2 -e "require 'discount'" 2>/dev/null && lua5.1 -e "require 'markdown'" 2>/dev/null; then
    ldoc=(lua5.1 "$(command -v ldoc)")
fi
log=$(cd build/reference && "${ldoc[@]}" --fatalwarnings -c config.ld -d ../doc . 2>&1) || {
    echo "$log"
    exit 1
}
if grep -q "falling back to text" <<<"$log"; then
    echo "$log"
    echo "LDoc found no markdown processor: install lua-discount or lua-markdown"
    exit 1
fi
luajit tools/reference.lua -c
